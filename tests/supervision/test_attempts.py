"""What follows the loss of a run's process: another attempt or the end (S7, S9, X10, X11, Y13)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.messages import NO_COST, NO_USAGE, Failure, Limits, Usage
from runtree.messages.control import Admitted, CancelOrder, RetireOrder, RunReport
from runtree.messages.loss import LossReport, LossVerdict

from .world import DRIVER, World, spent


def tree(**fields: Any) -> World:
    """r0 with the children a and b, and a1 below a; each may lose a process."""
    world = World()
    fields = {"max_attempts": 2, **fields}
    world.start(None, "r0", **fields)
    for parent, name in (("r0", "a"), ("r0", "b"), ("a", "a1")):
        world.start(parent, name, **fields)
    return world


def next_of(verdict: LossVerdict) -> Admitted:
    assert verdict.again is not None
    return verdict.again


def failure_of(verdict: LossVerdict) -> Failure:
    assert verdict.again is None
    assert verdict.error is not None
    return verdict.error


def test_s7_a_lost_leaf_has_another_attempt() -> None:
    world = tree()
    first = world.run("b").lease
    world.now = 3.0
    verdict = world.lose_for_good("b")
    again = next_of(verdict)
    assert (again.stamp.run_id, again.stamp.attempt, again.stamp.parent_run_id) == ("b", 2, "r0")
    assert again.lane == world.run("b").lane
    assert again.actor is None
    assert (first.actor, again.actor_name) == ("run:agent:b", "run:agent:b:2")
    assert again.lease > first.number
    run = world.run("b")
    assert (run.status, run.flag, run.error, run.ended) == ("pending", None, None, None)
    assert world.run("r0").live_below == 3
    assert world.run("r0").admitted_runs == 4
    assert world.registry.stopped("b", 1) == "it is over"
    assert world.registry.stopped("b", 2) is None
    assert world.registry.begin("b", 1) is not None
    assert world.registry.begin("b", 2) is None
    world.end("b", attempt=2)
    record = run.record()
    assert (record.status, record.attempt, record.started) == ("completed", 2, 0.0)
    [lost] = record.lost_attempts
    assert (lost.attempt, lost.started, lost.ended, lost.reason) == (1, 0.0, 3.0, "killed")


def test_s7_a_warm_actor_takes_the_next_attempt_and_the_lost_one_is_replaced() -> None:
    world = World()
    leases = world.registry.driver(DRIVER).leases
    for actor in ("w1", "w2"):
        leases.offer(actor)
    lost = world.start(None, "r0", max_attempts=2).actor
    again = next_of(world.lose_for_good("r0"))
    assert again.actor not in {lost, None}
    assert [order.actor for order in world.orders(DRIVER) if isinstance(order, RetireOrder)] == [lost]
    assert (leases.idle, leases.held) == (0, 1)
    # The late end of the lost process gives nothing back.
    world.end("r0", attempt=1)
    assert (leases.idle, leases.held) == (0, 1)


def test_s7_an_agent_that_wants_a_process_of_its_own_gets_a_cold_one() -> None:
    world = World()
    world.start(None, "r0", max_attempts=2, poolable=False)
    world.registry.driver(DRIVER).leases.offer("warm")
    assert next_of(world.lose_for_good("r0")).actor is None


def test_y13_a_repeated_loss_has_the_same_answer() -> None:
    world = tree()
    report = world.lose("b")
    verdict = world.judge(report)
    assert world.judge(report) == verdict
    world.registry.begin("b", 2)
    world.lose("b")
    assert world.judge(report) == verdict
    assert world.run("b").works(2)


def test_s7_attempts_are_used_up() -> None:
    world = tree(max_attempts=3)
    next_of(world.lose_for_good("b"))
    world.registry.begin("b", 2)
    assert next_of(world.lose_for_good("b", 2)).actor_name == "run:agent:b:3"
    failure = failure_of(world.lose_for_good("b", 3))
    assert failure.code == "lost"
    assert "max_attempts=3 are used up" in failure.message
    assert world.run("b").record().attempt == 3
    assert world.run("b").error == failure


def test_s7_one_attempt_is_no_other() -> None:
    world = tree(max_attempts=1)
    failure = failure_of(world.lose_for_good("b"))
    assert (failure.code, failure.retryable) == ("lost", True)
    assert "max_attempts" not in failure.message


def test_n_a_preempted_attempt_does_not_count() -> None:
    world = tree()
    for attempt in (1, 2, 3):
        next_of(world.lose_for_good("b", attempt, preempted=True))
    next_of(world.lose_for_good("b", 4))
    assert failure_of(world.lose_for_good("b", 5)).code == "lost"
    assert [lost.preempted for lost in world.run("b").record().lost_attempts] == [True, True, True, False]


def test_s7_a_loss_that_may_have_had_an_effect_twice_is_in_doubt() -> None:
    failure = failure_of(tree().lose_for_good("b", in_doubt="pay"))
    assert (failure.code, failure.retryable) == ("in_doubt", False)
    assert "tool pay" in failure.message
    assert "idempotency_key" in failure.message


def test_s7_what_no_other_process_would_serve_better_is_not_repeated() -> None:
    world = tree()
    error = Failure(code="version_mismatch", message="another version")
    assert failure_of(world.lose_for_good("b", error=error)) == error
    assert world.run("b").error == error


def test_s7_a_kill_by_the_supervisor_is_a_cancel() -> None:
    world = tree()
    world.cancel("b", grace=1.0)
    assert world.condemned(1.0) == ["b"]
    verdict = world.lose_for_good("b")
    assert (verdict.status, verdict.forced, verdict.again) == ("cancelled", True, None)
    assert failure_of(verdict).code == "cancelled"


@pytest.mark.parametrize("when", ["before", "between"])
def test_c04_a_cancelled_run_has_no_other_attempt(when: str) -> None:
    world = tree()
    if when == "before":
        world.cancel("b")
    report = world.lose("b")
    if when == "between":
        world.cancel("r0")
        assert not world.orders("run:agent:b"), "there is nobody to tell"
    assert world.judge(report).status == "cancelled"
    assert world.run("b").status == "cancelled"


def test_c04_a_cancel_reaches_the_next_attempt_before_it_begins() -> None:
    world = tree()
    next_of(world.lose_for_good("b"))
    assert "b" in world.cancel("r0")
    assert world.registry.stopped("b", 2) == "user"
    assert [order.attempt for order in world.orders("run:agent:b:2") if isinstance(order, CancelOrder)] == [2]
    assert world.judge(world.lose("b", 2)).status == "cancelled"


def test_s7_a_deadline_that_has_passed_leaves_no_time_for_another() -> None:
    world = tree(limits=Limits(deadline=10))
    world.now = 10.0
    assert "deadline" in failure_of(world.lose_for_good("b")).message


def test_x11_children_of_a_lost_run_end_first_and_are_not_started_again() -> None:
    world = tree()
    report = world.lose("a")
    assert world.told("a1")
    assert not world.told("b")
    assert world.run("a").live
    child = world.lose_for_good("a1")
    assert child.status == "cancelled"
    verdict = world.judge(report)
    assert next_of(verdict).stamp.attempt == 2
    assert verdict.below == ("a1",)
    assert [lane.lane for lane in verdict.lanes] == ["a"]
    assert world.run("r0").live_below == 2


def test_s7_a_run_whose_sub_tree_can_not_be_ended_is_not_started_again() -> None:
    assert "below" in failure_of(tree().lose_for_good("a")).message


def test_s7_a_lost_run_does_nothing_until_it_is_judged() -> None:
    world = tree()
    world.lose("b")
    assert world.refused("b", "b1").code == "cancelled"
    assert world.reserve("b")[1].granted_model_calls == 0
    assert world.registry.begin("b", 1) is not None
    world.end("b", tokens=5)
    assert world.run("b").live, "its process was only out of reach: it is too late for its end"
    assert world.run("b").usage.tokens == 5, "but what it used counts"


def test_s7_what_a_process_of_an_earlier_attempt_still_asks_is_refused() -> None:
    world = tree()
    world.admit("b", "b1", number=7)
    world.reserve("b", number=8, model_calls=0, tool_calls=1)
    world.end("b1")
    world.lose_for_good("b")
    world.registry.begin("b", 2)
    assert world.refused("b", "b1", number=7, attempt=1).code == "cancelled"
    assert world.reserve("b", number=8, attempt=1, model_calls=0, tool_calls=1)[1].granted_tool_calls == 0
    # The new process counts its calls from the start.
    (admission,) = world.admit("b", "b2", number=7, attempt=2).admissions
    assert isinstance(admission, Admitted)
    assert world.reserve("b", number=8, attempt=2, model_calls=0, tool_calls=1)[1].granted_tool_calls == 1


def test_s7_lanes_and_children_of_earlier_attempts_are_closed_already() -> None:
    world = tree()
    world.start("a1", "a2")
    world.lose("a")
    for name in ("a2", "a1"):
        world.lose_for_good(name)
    assert set(world.lose_for_good("a").below) == {"a1", "a2"}
    world.registry.begin("a", 2)
    world.admit("a", "new", attempt=2)
    world.end("new")
    verdict = world.lose_for_good("a", 2)
    assert [lane.lane for lane in verdict.lanes] == ["a"]


def test_s9_accounts_of_lost_attempts_stay_counted() -> None:
    world = tree()
    world.report("b", 10, number=40)
    verdict = world.lose_for_good("b")
    assert next_of(verdict).spent.usage.tokens == 10
    assert next_of(verdict).spent.total_usage.precision == "unknown", "it may have used more than it could tell"
    # The reports of the new process start from zero, and its numbers too; those of the old one are ignored.
    world.registry.report(RunReport(run_id="b", attempt=2, number=1, **spent(3)), 0.0)
    world.report("b", 500, number=900)
    assert world.run("b").usage.tokens == 13
    assert world.run("r0").totals().total_usage.tokens == 13
    world.end("b", tokens=4, attempt=2)
    record = world.run("b").record()
    assert record.usage.tokens == 14
    assert str(record.cost.amount) == "0.14"
    assert [lost.usage.tokens for lost in record.lost_attempts] == [10]


def test_d4_an_end_that_readers_have_seen_counts_over_all_attempts() -> None:
    world = tree()
    world.report("b", 10)
    world.lose_for_good("b")
    world.registry.begin("b", 2)
    world.lose("b", 2)
    world.end("b", tokens=25, attempt=2, from_stream=True)
    assert world.run("b").status == "completed"
    assert world.run("b").usage.tokens == 25
    assert world.run("r0").tokens == 25


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["start", "report", "end", "lose", "judge", "cancel", "time", "stale"]),
        st.integers(0, 30),
        st.integers(0, 1000),
    ),
    max_size=60,
)


class Losses:
    """A tree to which things happen."""

    def __init__(self, max_attempts: int) -> None:
        self.world = World()
        self.max_attempts = max_attempts
        self.world.start(None, "r0", limits=Limits(max_depth=None), max_attempts=max_attempts)
        self.names = ["r0"]
        self.reports: list[LossReport] = []

    def happen(self, event: str, name: str, number: int, tokens: int) -> None:
        world = self.world
        attempt = world.run(name).stamp.attempt
        if event == "start":
            self.start(name, attempt)
        elif event == "report":
            world.registry.report(RunReport(run_id=name, attempt=attempt, number=number, **spent(tokens)), 0.0)
        elif event == "stale":
            world.registry.report(RunReport(run_id=name, attempt=attempt - 1, number=10**6, **spent(tokens)), 0.0)
            world.end(name, attempt=attempt - 1)
        elif event == "end":
            world.end(name, tokens, attempt=attempt)
        elif event == "lose":
            self.reports.append(world.lose(name, attempt))
        elif event == "judge" and self.reports:
            self.judge(self.reports.pop(number % len(self.reports)))
        elif event == "cancel":
            world.cancel(name)
        elif event == "time":
            self.pass_time()

    def start(self, parent: str, attempt: int) -> None:
        run = self.world.run(parent)
        if run.works(attempt) and run.flag is None:
            self.names.append(f"r{len(self.names)}")
            self.world.admit(parent, self.names[-1], attempt=attempt, max_attempts=self.max_attempts)
            self.world.registry.begin(self.names[-1], 1)

    def judge(self, report: LossReport) -> None:
        run = self.world.run(report.run_id)
        flagged, decided = run.flag is not None, run.verdicts.get(report.attempt)
        verdict = self.world.judge(report)
        assert self.world.judge(report) == verdict
        assert decided in (None, verdict)
        if verdict.again is not None and decided is None:
            assert not flagged
            assert not any(self.world.run(name).live for name in verdict.below)

    def pass_time(self) -> None:
        for due in self.world.condemned(self.world.now + 2.5):
            self.world.kill(due)

    def end(self) -> None:
        self.world.cancel("r0", grace=0.0)
        for _ in self.names:
            self.pass_time()
        assert not any(self.world.run(name).live for name in self.names)
        assert self.world.registry.driver(DRIVER).leases.held == 0

    def check(self) -> None:
        for name in self.names:
            check(self.world, name, self.max_attempts)


@given(STEPS, st.integers(1, 3))
def test_s7_any_losses_at_any_moment(steps: list[tuple[str, int, int]], max_attempts: int) -> None:
    """Totals are sums, attempts stay in their bound, what is flagged never starts again, and in the end nothing lives."""
    losses = Losses(max_attempts)
    for number, (event, index, tokens) in enumerate(steps):
        losses.happen(event, losses.names[index % len(losses.names)], number, tokens)
        losses.check()
    losses.end()
    losses.check()


def check(world: World, top: str, max_attempts: int) -> None:
    run = world.run(top)
    usage, cost = NO_USAGE, NO_COST
    for record in world.registry.ledger(top):
        usage, cost = usage + record.usage, cost + record.cost
    totals = run.totals()
    assert (totals.total_usage.tokens, totals.total_cost) == (usage.tokens, cost)
    assert totals.total_usage.precision == usage.precision
    assert run.tokens == usage.tokens
    assert run.live_below == sum(each.live for each in run.subtree()[1:])
    assert run.stamp.attempt == len(run.lost_attempts) + 1 <= max_attempts
    lost = sum((each.usage for each in run.lost_attempts), Usage(input_tokens=0, output_tokens=0))
    assert run.usage.tokens == lost.tokens + run.attempt_usage.tokens
