"""S6: a supervisor that was killed and restarted answers as one that never was."""

import itertools
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from runtree.actors.supervision import registry as registry_module
from runtree.actors.supervision.leases import Packing
from runtree.actors.supervision.mailboxes import Mailboxes
from runtree.actors.supervision.registry import Registry
from runtree.actors.supervision.restored import pending_kills, restored
from runtree.actors.supervision.saved import Batch
from runtree.actors.supervision.store import Store
from runtree.messages import Limits, ModelLimit
from runtree.messages.control import AdmitRequest, CancelOrder, ChildRequest, EndReport, RunReport
from runtree.messages.errors import RuntreeError
from runtree.messages.loss import LossReport
from runtree.messages.reservations import ReserveReply, ReserveRequest, SlotRequest, ThrottleReport
from runtree.messages.result import RunInfo, RunStatus

from .world import hello, spent

IDENTITY: Final = {"supervisor": "s", "version": "v", "wire_version": "1"}
DRIVERS: Final = ("d0", "d1")
BOUNDS: Final = (
    None,
    Limits(max_runs=3),
    Limits(max_tool_calls=4, max_tokens=50),
    Limits(max_depth=1, deadline=60),
    Limits(max_parallel=2, max_model_calls=3),
    Limits(max_parallel=1, max_tokens=60, deadline=5),
)
MODEL: Final = "acme:m"
LIMITED: Final = {MODEL: ModelLimit(concurrency=2, requests_per_minute=5, tokens_per_minute=120)}


class Twin:
    """A registry, and what its processes have seen; it may be restarted."""

    def __init__(self, folder: Path, *, mortal: bool) -> None:
        self._path = folder / "store.db"
        self._restarts = itertools.count(1)
        self._seen: dict[str, int] = {}
        self.mailboxes = Mailboxes()
        self.registry = Registry("test", self.mailboxes)
        self._store = Store.open(self._path, IDENTITY)[0] if mortal else None

    def restart(self, now: float) -> None:
        """Lose everything but the store."""
        if self._store is None:
            return
        self._store.close()
        self._store, saved = Store.open(self._path, IDENTITY)
        self.mailboxes = Mailboxes(start=1_000_000 * next(self._restarts))
        self.registry = restored("test", self.mailboxes, saved, now)
        assert not self.mailboxes.changes, "what was restored has not changed"

    def do(self, method: str, *args: Any) -> Any:
        """Call a method, write what it changed, and return its answer as a plain value."""
        try:
            answer = getattr(self, method, None) or getattr(self.registry, method)
            answer = answer(*args)
        except RuntreeError as error:
            answer = str(error)
        changes = self.mailboxes.changes.take()
        if self._store is not None and changes:
            self._store.write(Batch.of(changes))
        return answer

    def poll(self, process: str) -> list[Any]:
        """Collect orders and acknowledge the last ones."""
        reply = self.mailboxes.collect(process, self._seen.get(process, 0))
        self._seen[process] = reply.version
        return list(reply.orders)

    def cancelled(self, *args: Any) -> list[str]:
        """Cancel; returns names."""
        return [run.run_id for run in self.registry.cancel(*args)]

    def passed(self, now: float) -> list[str]:
        """Let the time pass; returns the names of those to be killed."""
        self.registry.advance(now)
        return sorted(kill.run.run_id for kill in self.registry.condemn_due(now))

    def killed_of(self, run_id: str, now: float) -> None:
        """Report a condemned run's actor as killed."""
        run = self.registry.find(run_id)
        if run is not None and run.forced:
            self.registry.killed(run, now)

    def offered(self, driver_id: str, actor: str, now: float) -> None:
        """Add a warm actor."""
        self.registry.driver(driver_id).leases.offer(actor, now)

    def began(self, run_id: str) -> str | None:
        """Begin a run."""
        flag = self.registry.begin(run_id, 1)
        return None if flag is None else flag.reason

    def seen_of(self, now: float) -> dict[str, Any]:
        """Return all that can be asked."""
        registry = self.registry
        return {
            "runs": [_plain(info) for info in registry.runs(ended=True)],
            "ledgers": [registry.ledger(run.run_id) for run in registry.runs(ended=True) if run.parent_run_id is None],
            "kill": registry.next_kill_time(),
            "kills": sorted(kill.run.run_id for kill in pending_kills(registry)),
            "live": +registry.tally.live,
            "leases": {
                driver.hello.driver_id: (driver.leases.idle, driver.leases.held, driver.leases.numbers(), driver.trees)
                for driver in registry.drivers()
            },
            "below": {run.run_id: (run.live_below, run.admitted_runs, run.tokens) for run in registry.every_run()},
            "kept": registry._ended_trees,
            "budgets": {run.run_id: registry.budget(run.run_id) for run in registry.every_run()},
            "work": {
                run.run_id: (run.at_work, set(run.reservations), set(run.waiting)) for run in registry.every_run()
            },
            "waits": {run.run_id: (run.wants_slot is None, set(run.postponed)) for run in registry.every_run()},
            "next": registry.next_time(now),
            "models": {
                gate.key: (gate.used(now), gate.in_flight)
                for gate in registry._allowances.models.gates()
                if gate.in_flight or any(gate.used(now))
            },
            "paused": registry._allowances.models.paused(now),
        }


def _plain(info: RunInfo) -> RunInfo:
    return info.model_copy(update={"progress": 0.0})


NUMBER = st.integers(0, 40)
ATTEMPT = st.sampled_from([1, 1, 1, 2])
COMMAND = st.one_of(
    st.tuples(st.just("root"), st.sampled_from(DRIVERS), st.sampled_from(BOUNDS), st.booleans()),
    st.tuples(st.just("child"), NUMBER, st.sampled_from(BOUNDS), st.integers(1, 3)),
    st.tuples(st.just("began"), NUMBER),
    st.tuples(st.just("report"), NUMBER, ATTEMPT, st.integers(0, 30)),
    st.tuples(st.just("reserve"), NUMBER, st.integers(1, 40), st.integers(0, 2)),
    st.tuples(st.just("reserve"), NUMBER, st.integers(1, 40), st.integers(0, 2)),
    st.tuples(st.just("settle"), NUMBER, st.integers(0, 50), st.integers(0, 30)),
    st.tuples(st.just("slot"), NUMBER, st.booleans()),
    st.tuples(
        st.just("end"), NUMBER, st.sampled_from(["completed", "failed", "cancelled"]), st.booleans(), st.booleans()
    ),
    st.tuples(st.just("lose"), NUMBER, ATTEMPT),
    st.tuples(st.just("judge"), NUMBER, ATTEMPT),
    st.tuples(st.just("cancel"), NUMBER, st.sampled_from([0.5, 2.0])),
    st.tuples(st.just("pass"), st.sampled_from([1.0, 5.0, 60.0])),
    st.tuples(st.just("throttle"), st.sampled_from([1.0, 7.5])),
    st.tuples(st.just("killed"), NUMBER),
    st.tuples(st.just("offer"), st.sampled_from(DRIVERS)),
    st.tuples(st.just("poll"), NUMBER),
    st.tuples(st.just("leave"), st.sampled_from(DRIVERS)),
    st.tuples(st.just("again"), NUMBER),
    st.tuples(st.just("restart")),
)


class Script:
    """Turns commands into calls, the same for both."""

    def __init__(self) -> None:
        self.now = 100.0
        self.runs: list[str] = []
        self._drivers: dict[str, str] = {}
        self.calls: list[tuple[Any, ...]] = []
        self._numbers = itertools.count(1)
        self._reserved: list[tuple[str, int]] = []

    def call(self, command: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the call of a command; `None` where there is nothing to call."""
        self.now += 0.25
        name, *args = command
        if name in {"root", "offer", "leave", "pass", "throttle"}:
            return getattr(self, f"_{name}")(*args)  # type: ignore[no-any-return]
        if not self.runs:
            return None
        if name == "again":
            return self.calls[args[0] % len(self.calls)] if self.calls else None
        call: tuple[Any, ...] = getattr(self, f"_{name}")(self.runs[args[0] % len(self.runs)], *args[1:])
        if name in {"child", "report", "reserve", "settle", "slot", "end", "lose", "judge"}:
            self.calls.append(call)
        return call

    def _root(self, driver: str, limits: Limits | None, poolable: bool) -> tuple[Any, ...]:
        self.runs.append(f"r{len(self.runs)}")
        self._drivers[self.runs[-1]] = driver
        child = ChildRequest(run_id=self.runs[-1], agent="agent", limits=limits, poolable=poolable)
        return "admit", AdmitRequest(driver_id=driver, children=(child,)), self.now

    def _child(self, parent: str, limits: Limits | None, count: int) -> tuple[Any, ...]:
        names = [f"r{len(self.runs) + index}" for index in range(count)]
        self.runs += names
        driver = self._drivers[parent]
        self._drivers.update(dict.fromkeys(names, driver))
        children = tuple(ChildRequest(run_id=name, agent="agent", limits=limits, max_attempts=2) for name in names)
        number = next(self._numbers)
        request = AdmitRequest(driver_id=driver, parent_run_id=parent, number=number, children=children)
        return "admit", request, self.now

    def _began(self, run_id: str) -> tuple[Any, ...]:
        return "began", run_id

    def _report(self, run_id: str, attempt: int, tokens: int) -> tuple[Any, ...]:
        report = RunReport(run_id=run_id, attempt=attempt, number=next(self._numbers), **spent(tokens))
        return "report", report, self.now

    def _reserve(self, run_id: str, tokens: int, tools: int) -> tuple[Any, ...]:
        number = next(self._numbers)
        self._reserved.append((run_id, number))
        request = ReserveRequest(
            run_id=run_id,
            attempt=1,
            number=number,
            model_calls=1,
            tool_calls=tools,
            model=MODEL,
            output_tokens=tokens,
        )
        return "reserve", request, self.now

    def _settle(self, run_id: str, index: int, tokens: int) -> tuple[Any, ...]:
        number = 0
        if self._reserved:
            run_id, number = self._reserved[index % len(self._reserved)]
        fields = {"run_id": run_id, "attempt": 1, "number": next(self._numbers), **spent(tokens)}
        return "report", RunReport(**fields, settled={number: tokens}), self.now

    def _slot(self, run_id: str, waiting: bool) -> tuple[Any, ...]:
        request = SlotRequest(run_id=run_id, attempt=1, number=next(self._numbers), waiting=waiting)
        return "slot", request, self.now

    def _end(self, run_id: str, status: RunStatus, reusable: bool, from_stream: bool) -> tuple[Any, ...]:
        number = next(self._numbers)
        report = EndReport(
            run_id=run_id,
            attempt=1,
            number=number,
            status=status,
            reusable=reusable,
            from_stream=from_stream,
            **spent(number),
        )
        return "end", report, self.now

    def _lose(self, run_id: str, attempt: int) -> tuple[Any, ...]:
        return "lose", LossReport(run_id=run_id, attempt=attempt, reason="killed"), self.now

    def _judge(self, run_id: str, attempt: int) -> tuple[Any, ...]:
        return "judge", LossReport(run_id=run_id, attempt=attempt, reason="killed"), self.now

    def _cancel(self, run_id: str, grace: float) -> tuple[Any, ...]:
        return "cancelled", run_id, "user", grace, self.now

    def _pass(self, seconds: float) -> tuple[Any, ...]:
        self.now += seconds
        return "passed", self.now

    def _throttle(self, seconds: float) -> tuple[Any, ...]:
        return "throttle", ThrottleReport(model=MODEL, seconds=seconds), self.now

    def _killed(self, run_id: str) -> tuple[Any, ...]:
        return "killed_of", run_id, self.now

    def _offer(self, driver: str) -> tuple[Any, ...]:
        return "offered", driver, f"w{next(self._numbers)}", self.now

    def _poll(self, run_id: str) -> tuple[Any, ...]:
        return "poll", f"run:agent:{run_id}"

    def _leave(self, driver: str) -> tuple[Any, ...]:
        return "leave", driver, self.now, "gone"


@settings(max_examples=30, phases=[Phase.generate, Phase.shrink])
@given(commands=st.lists(COMMAND, min_size=5, max_size=40))
def test_s6_restarts_change_no_answer(commands: list[tuple[Any, ...]]) -> None:
    with (
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as two,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(registry_module, "KEPT_TREES", 2)
        immortal, mortal = twins = (Twin(Path(one), mortal=False), Twin(Path(two), mortal=True))
        script = Script()
        for twin, driver in itertools.product(twins, DRIVERS):
            twin.do("join", hello(driver, model_limits=LIMITED), script.now)
        for command in commands:
            if command[0] == "restart":
                mortal.restart(script.now)
            elif (call := script.call(command)) is not None:
                assert mortal.do(*call) == immortal.do(*call)
                for process in DRIVERS:
                    assert mortal.do("poll", process) == immortal.do("poll", process)
        mortal.restart(script.now)
        assert mortal.seen_of(script.now) == immortal.seen_of(script.now)
        for process in (*DRIVERS, *(f"run:agent:{name}" for name in script.runs)):
            assert mortal.poll(process) == immortal.poll(process)


def twin(folder: Path, **limit: int) -> Twin:
    found = Twin(folder, mortal=True)
    found.do("join", hello("d0", model_limits={MODEL: ModelLimit(**limit)} if limit else {}), 0.0)
    return found


def ask(found: Twin, number: int, tokens: int, now: float, attempt: int = 1) -> ReserveReply:
    request = ReserveRequest(
        run_id="r", attempt=attempt, number=number, model_calls=1, model=MODEL, output_tokens=tokens
    )
    reply = found.do("reserve", request, now)
    assert isinstance(reply, ReserveReply)
    return reply


def settle(found: Twin, number: int, tokens: int, now: float) -> None:
    report = RunReport(run_id="r", attempt=1, number=100 + number, settled={number: tokens}, **spent(tokens))
    found.do("report", report, now)


def admit(found: Twin, name: str, parent: str | None = None, **fields: Any) -> None:
    child = ChildRequest(run_id=name, agent="agent", **fields)
    found.do("admit", AdmitRequest(driver_id="d0", parent_run_id=parent, children=(child,)), 0.0)


def test_s6_graces_go_on_where_they_were(tmp_path: Path) -> None:
    found = twin(tmp_path)
    admit(found, "r")
    admit(found, "c", "r")
    found.do("cancelled", "r", "user", 2.0, 10.0)
    found.restart(11.0)
    assert found.registry.next_kill_time() == 12.0
    assert found.do("passed", 12.0) == ["c"]
    assert [order.reason for order in found.poll("run:agent:r") if isinstance(order, CancelOrder)] == ["user"]


def test_s6_a_kill_that_was_under_way_is_known_after_a_restart(tmp_path: Path) -> None:
    found = twin(tmp_path)
    admit(found, "r")
    found.do("cancelled", "r", "user", 0.0, 1.0)
    found.do("passed", 1.0)
    found.restart(2.0)
    (kill,) = pending_kills(found.registry)
    assert kill.pending
    found.do("killed_of", "r", 3.0)
    assert not pending_kills(found.registry)


def test_s6_packed_actors_keep_their_runs_and_their_room(tmp_path: Path) -> None:
    found = twin(tmp_path)
    admit(found, "r")
    for name in ("a", "b"):
        admit(found, name, "r", runs_per_actor=3, agent_key="key")
    shared = found.registry.get("a").lease.actor
    found.restart(1.0)
    leases = found.registry.driver("d0").leases
    assert leases.held == 3
    admit(found, "c", "r", runs_per_actor=3, agent_key="key")
    assert found.registry.get("c").lease.actor == found.registry.get("b").lease.actor == shared
    assert found.registry.get("c").lease.number == 4
    lent = leases.lent(shared)
    assert lent is not None
    assert lent.packing == Packing("r", "key", 3)
    found.do("cancelled", "a", "user", 1.0, 2.0)
    assert not found.do("passed", 3.0), "those beside the run have its grace"
    found.restart(3.0)
    assert found.registry.next_kill_time() == 4.0
    assert found.do("passed", 4.0) == ["a"]
    assert [found.registry.get(name).preempted for name in "abc"] == [False, True, True]


def test_s6_a_driver_that_died_meanwhile_is_not_given_up_for_its_silence(tmp_path: Path) -> None:
    found = twin(tmp_path)
    found.restart(500.0)
    assert found.registry.driver("d0").seen == 500.0


def test_s10_a_restart_does_not_begin_a_new_minute(tmp_path: Path) -> None:
    found = twin(tmp_path, requests_per_minute=2)
    admit(found, "r")
    for number, now in ((1, 10.0), (2, 20.0)):
        assert ask(found, number, 10, now).granted_model_calls
        settle(found, number, 10, now)
    found.restart(30.0)
    assert ask(found, 3, 10, 30.0).waits_for == "model_limit"
    assert found.registry.next_time(30.0) == 70.0
    found.restart(75.0)
    found.do("passed", 75.0)
    assert ask(found, 3, 10, 75.0).granted_model_calls, "the time that passed without a supervisor counts"
    assert ask(found, 4, 10, 75.0).waits_for == "model_limit"
    found.do("passed", 80.0)
    assert ask(found, 4, 10, 80.0).granted_model_calls


def test_s10_tokens_of_a_minute_are_known_after_a_restart_settled_or_open(tmp_path: Path) -> None:
    found = twin(tmp_path, tokens_per_minute=100)
    admit(found, "r")
    ask(found, 1, 60, 10.0)
    settle(found, 1, 30, 11.0)
    ask(found, 2, 50, 12.0)
    found.restart(13.0)
    assert ask(found, 3, 40, 13.0).waits_for == "model_limit"
    settle(found, 2, 20, 14.0)
    assert ask(found, 3, 40, 14.0).granted_model_calls, "the call under way counted at its bound until it was settled"
    found.restart(15.0)
    assert ask(found, 4, 20, 15.0).waits_for == "model_limit"


def test_s10_a_pause_outlasts_the_supervisor_and_ends_by_the_clock(tmp_path: Path) -> None:
    found = twin(tmp_path, concurrency=3)
    admit(found, "r")
    found.do("throttle", ThrottleReport(model=MODEL, seconds=30.0), 10.0)
    found.restart(20.0)
    assert ask(found, 1, 10, 20.0).waits_for == "model_limit"
    assert found.registry.next_time(20.0) == 40.0
    found.restart(41.0)
    assert ask(found, 2, 10, 41.0).waits_for == "model_limit", "behind the first"
    found.do("passed", 41.0)
    assert ask(found, 1, 10, 41.0).granted_model_calls


def test_s10_an_attempt_counts_beside_the_calls_of_the_lost_one(tmp_path: Path) -> None:
    """Attempts number their calls anew."""
    found = twin(tmp_path, requests_per_minute=2)
    admit(found, "r", max_attempts=2)
    ask(found, 1, 10, 10.0)
    report = LossReport(run_id="r", attempt=1, reason="killed")
    found.do("lose", report, 11.0)
    found.do("judge", report, 11.0)
    assert ask(found, 1, 10, 12.0, attempt=2).granted_model_calls
    found.restart(13.0)
    assert ask(found, 2, 10, 13.0, attempt=2).waits_for == "model_limit"


def test_s10_the_store_keeps_no_calls_that_have_ceased_to_count(tmp_path: Path) -> None:
    found = twin(tmp_path, requests_per_minute=1)
    admit(found, "r")
    for number in range(1, 6):
        assert ask(found, number, 10, number * 61.0).granted_model_calls
        settle(found, number, 10, number * 61.0)
    assert found._store is not None
    found._store.close()
    found._store, saved = Store.open(tmp_path / "store.db", IDENTITY)
    assert [call.number for call in saved.calls] == [5]


def test_s10_where_no_minute_is_bounded_no_call_is_written(tmp_path: Path) -> None:
    found = Twin(tmp_path, mortal=False)
    found.do("join", hello("d0", model_limits={MODEL: ModelLimit(concurrency=2)}), 0.0)
    admit(found, "r")
    assert found.registry.reserve(
        ReserveRequest(run_id="r", attempt=1, number=1, model_calls=1, model=MODEL), 1.0
    ).granted_model_calls
    assert found.mailboxes.changes.runs
    assert not found.mailboxes.changes.calls
