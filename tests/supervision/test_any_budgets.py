"""Any tree, any limits, any order of events: never over a limit, nobody waits in vain, nothing is left behind (U07-U09, S12, X13)."""

from decimal import Decimal
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtree.actors.supervision.records import Run
from runtree.actors.supervision.scopes import Scope
from runtree.messages import Cost, Limits, ModelLimit
from runtree.messages.control import RunReport
from runtree.messages.reservations import ReserveRequest

from .test_accounts import check_totals
from .world import World

MODEL = "acme:m1"
PICK = st.integers(0, 1000)
AMOUNT = st.integers(0, 40)
BOUNDS = st.builds(
    Limits,
    max_cost=st.none() | st.sampled_from([Decimal("0.50"), Decimal("1.00")]),
    max_tokens=st.none() | st.integers(20, 120),
    max_model_calls=st.none() | st.integers(1, 5),
    max_tool_calls=st.none() | st.integers(1, 5),
    max_parallel=st.none() | st.integers(1, 3),
    max_depth=st.none(),
)


class AnyBudgets(RuleBasedStateMachine):
    """Trees of one driver, whose runs do what agents do, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(watched=False, model_limits={MODEL: ModelLimit(concurrency=3, requests_per_minute=30)})
        self.names = 0
        self.numbers = 0
        self.overrun = False
        self.asked: dict[tuple[str, int], ReserveRequest] = {}

    @property
    def runs(self) -> list[Run]:
        """All runs."""
        return list(self.world.registry._runs.values())

    def pick(self, index: int, runs: list[Run]) -> Run:
        """Return one of some runs."""
        return runs[index % len(runs)]

    def live(self) -> list[Run]:
        """Return those at work."""
        return [run for run in self.runs if run.live and run.lost is None]

    def new_name(self) -> str:
        self.names += 1
        return f"r{self.names}"

    def new_number(self) -> int:
        self.numbers += 1
        return 10_000 + self.numbers

    @rule(bounds=BOUNDS)
    def start(self, bounds: Limits) -> None:
        if self.names < 25:
            self.world.start(None, self.new_name(), limits=bounds)

    @rule(index=PICK, bounds=st.none() | BOUNDS, count=st.integers(1, 3), attempts=st.integers(1, 2))
    @precondition(lambda self: self.live())
    def fan_out(self, index: int, bounds: Limits | None, count: int, attempts: int) -> None:
        parent = self.pick(index, self.live())
        if self.names < 25:
            names = [self.new_name() for _ in range(count)]
            attempt = parent.stamp.attempt
            self.world.admit(parent.run_id, *names, limits=bounds, max_attempts=attempts, attempt=attempt)

    @rule(index=PICK)
    @precondition(lambda self: self.live())
    def begin(self, index: int) -> None:
        run = self.pick(index, self.live())
        self.world.registry.begin(run.run_id, run.stamp.attempt)

    @rule(
        index=PICK,
        entering=AMOUNT,
        leaving=AMOUNT,
        tools=st.integers(0, 3),
        calls=st.integers(0, 1),
        priced=st.booleans(),
    )
    @precondition(lambda self: self.live())
    def reserve(self, index: int, entering: int, leaving: int, tools: int, calls: int, priced: bool) -> None:
        run = self.pick(index, self.live())
        unpriced: dict[str, Any] = {} if priced else {"input_cost": None, "output_price": None}
        self.world.reserve(
            run.run_id, leaving, number=self.new_number(), attempt=run.stamp.attempt, input_tokens=entering,
            model_calls=calls, tool_calls=tools, model=MODEL, **unpriced,
        )  # fmt: skip

    @rule(index=PICK)
    @precondition(lambda self: any(run.waiting or run.reservations for run in self.live()))
    def ask_again(self, index: int) -> None:
        run = self.pick(index, [run for run in self.live() if run.waiting or run.reservations])
        if run.waiting:
            request = next(iter(run.waiting.values())).request
        else:
            request = next(iter(run.reservations.values())).request
        assert isinstance(request, ReserveRequest)
        reply = self.world.registry.reserve(request, self.world.now)
        assert (reply.waits_for is not None) == bool(run.waiting)

    @rule(index=PICK, used=AMOUNT, sent=st.booleans())
    @precondition(lambda self: any(run.reservations for run in self.live()))
    def settle(self, index: int, used: int, sent: bool) -> None:
        run = self.pick(index, [run for run in self.live() if run.reservations])
        number, reservation = self.pick_reservation(run)
        tools = reservation.reply.granted_tool_calls
        calls = reservation.reply.granted_model_calls if sent else 0
        tokens = min(used, reservation.tokens) if calls else 0
        self.report(run, number, tokens, calls, tools if sent else 0, priced=bool(reservation.cost))

    @rule(index=PICK)
    @precondition(lambda self: any(run.waiting for run in self.live()))
    def take_back(self, index: int) -> None:
        run = self.pick(index, [run for run in self.live() if run.waiting])
        self.report(run, next(iter(run.waiting)), 0, 0, 0)

    @rule(index=PICK)
    @precondition(lambda self: any(run.reservations for run in self.live()))
    def bill_more(self, index: int) -> None:
        run = self.pick(index, [run for run in self.live() if run.reservations])
        number, reservation = self.pick_reservation(run)
        if reservation.reply.granted_model_calls:
            self.overrun = True
            self.report(run, number, reservation.tokens + 60, 1, reservation.reply.granted_tool_calls, priced=True)
            exceeded = [scope for scope in run.scopes if any(scope.overrun())]
            assert all(scope.run.flag is not None or not scope.run.live for scope in exceeded)
            assert all(scope.run.overrun for scope in exceeded)

    @rule(index=PICK, waiting=st.booleans())
    @precondition(lambda self: self.live())
    def slot(self, index: int, waiting: bool) -> None:
        run = self.pick(index, self.live())
        if run.stamp.attempt == 1:
            self.world.slot(run.run_id, waiting=waiting, number=self.new_number())

    @rule(index=PICK)
    @precondition(lambda self: self.live())
    def end(self, index: int) -> None:
        self.end_of(self.pick(index, self.live()))

    @rule(index=PICK)
    @precondition(lambda self: self.live())
    def lose(self, index: int) -> None:
        run = self.pick(index, self.live())
        self.world.lose(run.run_id, run.stamp.attempt)

    @rule(index=PICK)
    @precondition(lambda self: any(run.lost is not None for run in self.runs))
    def judge(self, index: int) -> None:
        run = self.pick(index, [run for run in self.runs if run.lost is not None])
        assert run.lost is not None
        self.world.judge(run.lost)

    @rule(index=PICK)
    @precondition(lambda self: self.live())
    def cancel(self, index: int) -> None:
        self.world.cancel(self.pick(index, self.live()).run_id)

    @rule(seconds=st.integers(0, 30))
    def wait(self, seconds: int) -> None:
        for name in self.world.condemned(self.world.now + seconds):
            self.world.kill(name)
        self.world.advance(self.world.now)

    def pick_reservation(self, run: Run) -> Any:
        return next(iter(run.reservations.items()))

    def report(self, run: Run, number: int, tokens: int, calls: int, tools: int, *, priced: bool = False) -> None:
        usage, cost = run.reported
        more = {
            "input_tokens": (usage.input_tokens or 0) + tokens,
            "model_calls": usage.model_calls + calls,
            "tool_calls": usage.tool_calls + tools,
        }
        amount = (cost.amount or Decimal(0)) + (Decimal(tokens) / 100 if priced else 0)
        report = RunReport(
            run_id=run.run_id, attempt=run.stamp.attempt, number=self.new_number(), settled={number: tokens},
            usage=usage.model_copy(update=more), cost=Cost(amount=amount),
        )  # fmt: skip
        self.world.registry.report(report, self.world.now)

    def end_of(self, run: Run) -> None:
        usage, cost = run.reported
        self.world.end(
            run.run_id, attempt=run.stamp.attempt, usage=usage, cost=cost, number=self.new_number(),
        )  # fmt: skip

    @invariant()
    def never_over_a_limit(self) -> None:
        if self.overrun:
            return
        for scope in self.scopes():
            for line in scope.lines():
                if line.limit != "max_runs":
                    assert line.settled + line.reserved <= line.allowed, line

    @invariant()
    def what_is_reserved_is_what_runs_have_reserved(self) -> None:
        for scope in self.scopes():
            if scope not in scope.run.scopes:
                continue
            below = [each for run in scope.run.subtree() for each in run.reservations.values()]
            assert scope.tokens == sum(each.tokens for each in below)
            assert scope.cost == sum((each.cost or Decimal(0) for each in below), Decimal(0))
            assert scope.model_calls == sum(each.reply.granted_model_calls for each in below)
            assert scope.tool_calls == sum(each.reply.granted_tool_calls for each in below)

    @invariant()
    def slots_are_those_of_runs_at_work(self) -> None:
        for scope in self.scopes():
            working = [run for run in scope.run.subtree() if run.at_work]
            assert scope.limits.max_parallel is None or scope.working == len(working)
            forced = any(run.flag is not None or run.stamp.attempt > 1 for run in scope.run.subtree())
            if scope.limits.max_parallel is not None and not forced:
                assert scope.working <= scope.limits.max_parallel

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        for run in self.runs:
            if not run.live or run.lost is not None or run.flag is not None:
                assert not run.waiting
                assert run.wants_slot is None
                assert not run.postponed
        for scope in self.scopes():
            if scope.slots.head() is not None:
                assert scope.full
            if scope.line.head() is not None:
                assert scope.tokens or scope.cost or scope.model_calls

    @invariant()
    def totals_are_the_sums_of_runs(self) -> None:
        for run in self.runs:
            if run.parent is None:
                check_totals(self.world, run.run_id)

    def scopes(self) -> list[Scope]:
        """Return all bounds."""
        return [scope for run in self.runs for scope in run.bounds if scope.run is run]

    def teardown(self) -> None:
        """Let everything go on to its end: calls end, runs end, and nothing is left."""
        for _ in range(2000):
            self.wait(1)
            lost = [run for run in self.runs if run.lost is not None]
            live = self.live()
            if not lost and not live:
                break
            for run in lost:
                if run.lost is not None:
                    self.world.judge(run.lost)
            for run in live:
                for number in list(run.reservations):
                    self.report(run, number, 0, 0, 0)
            for run in reversed(live):
                if run.live and not run.waiting and not run.postponed and not run.live_below and run.wants_slot is None:
                    self.end_of(run)
                elif run.postponed and run.at_work and run.stamp.attempt == 1:
                    self.world.slot(run.run_id, waiting=True, number=self.new_number())
        assert not self.live(), [(run.run_id, run.waiting, run.postponed, run.wants_slot) for run in self.live()]
        for scope in self.scopes():
            assert not any((scope.tokens, scope.cost, scope.model_calls, scope.tool_calls, scope.working))
        for run in self.runs:
            assert not any((run.reservations, run.waiting, run.postponed, run.wants_slot, run.at_work))


TestAnyBudgets = AnyBudgets.TestCase
TestAnyBudgets.settings = settings(deadline=None, max_examples=60, stateful_step_count=40, phases=[Phase.generate])
