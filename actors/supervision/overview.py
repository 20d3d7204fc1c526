"""What the registry tells those who look on. It only reads, and how much it reads is bounded."""

import itertools
from collections.abc import Iterator

from ...messages.overview import DriverInfo, NamespaceView
from ...messages.usage import NO_COST, NO_USAGE
from .records import Run
from .registry import Registry


def view_of(registry: Registry, namespace: str, now: float, *, ended: bool, most: int) -> NamespaceView:
    """Return what runs, and with `ended` what is remembered too.

    Args:
        registry: The registry.
        namespace: Its name.
        now: Seconds since the epoch.
        ended: Also runs that have ended; without, those of live trees are left out one by one.
        most: Runs that are told one by one. Of too many, the upper levels of all trees are told, newest trees first.
    """
    roots = [run for run in registry.every_run() if run.parent is None and (ended or run.live or run.live_below)]
    roots.sort(key=lambda run: run.run_id, reverse=True)
    told = tuple(run.info() for run in itertools.islice(_by_level(roots, ended=ended), most))
    wanted = sum(root.admitted_runs if ended else root.live_below + root.live for root in roots)
    live = sum(root.live_below + root.live for root in roots)
    totals = [root.totals() for root in roots]
    return NamespaceView(
        namespace=namespace,
        time=now,
        drivers=len(registry.drivers()),
        live_runs=live,
        ended_runs=len(registry.every_run()) - live,
        usage=sum((each.total_usage for each in totals), NO_USAGE),
        cost=sum((each.total_cost for each in totals), NO_COST),
        left_out=max(0, wanted - len(told)),
        runs=told,
    )


def drivers_of(registry: Registry) -> tuple[DriverInfo, ...]:
    """Return the drivers that have joined."""
    return tuple(
        DriverInfo(
            driver_id=driver.hello.driver_id,
            host=driver.hello.host,
            pid=driver.hello.pid,
            version=driver.hello.version,
            live_runs=sum(run.live for run in registry.every_run() if run.driver is driver),
            warm_idle=driver.leases.idle,
            held=driver.leases.held,
        )
        for driver in registry.drivers()
    )


def _by_level(roots: list[Run], *, ended: bool) -> Iterator[Run]:
    """Yield the runs of all trees, upper levels first."""
    level = roots
    while level:
        yield from (run for run in level if ended or run.live)
        level = [child for run in level for child in run.children if ended or child.live or child.live_below]
