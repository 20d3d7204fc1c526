"""What Prometheus sees of a namespace, through Ray's own metrics: each node's agent exports them, with `ray_` before every name.

The processes that own the facts count them as plain numbers; once a second these are published from here, so that no run and no delta ever
waits for a metric.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ray.util import metrics

from .stream.lanes import Depth
from .supervision.leases import Leases
from .supervision.tally import Tally

_metrics: Any = metrics
"""Ray's annotations are incomplete; what leaves this module is typed here."""

PUBLISH_SECONDS: Final = 1.0
"""Between two looks at the numbers."""

_CANCEL_BOUNDARIES: Final = [0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0]


class SupervisorMetrics:
    """The metrics of a supervisor."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._live = _gauge("runtree_live_runs", "Runs that have not ended", "agent")
        self._started = _Growing("runtree_runs_started", "Runs that were admitted", "agent")
        self._ended = _Growing(
            "runtree_runs_ended", "Runs that ended; `cost` says how exactly theirs is known", "agent", "status", "cost"
        )
        self._tokens = _Growing("runtree_tokens", "Tokens, as far as providers told them", "agent", "direction")
        self._money = _Growing("runtree_cost_usd", "USD, as far as prices are known", "agent")
        self._leases = _Growing("runtree_pool_leases", "Runs that wanted a warm process: hit or miss", "outcome")
        self._actors = _gauge("runtree_pool_actors", "Actors that are idle, or held by a run", "state")
        self._drivers = _gauge("runtree_drivers", "Runtimes that have joined")
        self._cancel = _metrics.Histogram(
            "runtree_cancel_seconds",
            description="Seconds from a cancel until all it reached had ended",
            boundaries=_CANCEL_BOUNDARIES,
            tag_keys=("namespace",),
        )

    def publish(self, tally: Tally, pools: Sequence[Leases]) -> None:
        """Publish what has changed.

        Args:
            tally: What was counted.
            pools: The pools of the drivers that have joined.
        """
        namespace = {"namespace": self._namespace}
        for agent, live in tally.live.items():
            self._live.set(live, {**namespace, "agent": agent})
        for growing, counts in (
            (self._started, {(agent,): count for agent, count in tally.started.items()}),
            (self._ended, tally.ended),
            (self._tokens, tally.tokens),
            (self._money, {(agent,): float(amount) for agent, amount in tally.money.items()}),
            (self._leases, {(outcome,): count for outcome, count in tally.leases.items()}),
        ):
            growing.publish(self._namespace, counts)
        self._actors.set(sum(pool.idle for pool in pools), {**namespace, "state": "idle"})
        self._actors.set(sum(pool.held for pool in pools), {**namespace, "state": "held"})
        self._drivers.set(len(pools), namespace)
        for seconds in tally.take_cancel_seconds():
            self._cancel.observe(seconds, namespace)


class QueueMetrics:
    """The metrics of a queue actor."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._items = _gauge("runtree_queue_items", "Items that wait in the lanes of a queue actor")
        self._bytes = _gauge("runtree_queue_bytes", "Bytes that wait in the lanes of a queue actor")
        self._dropped = _Growing("runtree_dropped_items", "Deltas that were thrown away")

    def publish(self, depth: Depth) -> None:
        """Publish how full the lanes are."""
        self._items.set(depth.items, {"namespace": self._namespace})
        self._bytes.set(depth.bytes, {"namespace": self._namespace})
        self._dropped.publish(self._namespace, {(): depth.dropped})


class _Growing:
    """A counter that follows numbers which only grow."""

    def __init__(self, name: str, description: str, *tags: str) -> None:
        self._tags = tags
        self._counter = _metrics.Counter(name, description=description, tag_keys=("namespace", *tags))
        self._seen: dict[tuple[str, ...], float] = {}

    def publish(self, namespace: str, counts: Mapping[Any, float]) -> None:
        """Add what the numbers have grown by since the last call; keys are the values of the tags."""
        for key, count in counts.items():
            more = count - self._seen.get(key, 0)
            if more > 0:
                self._seen[key] = count
                self._counter.inc(more, {"namespace": namespace, **dict(zip(self._tags, key, strict=True))})


def _gauge(name: str, description: str, *tags: str) -> Any:
    return _metrics.Gauge(name, description=description, tag_keys=("namespace", *tags))
