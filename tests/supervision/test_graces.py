"""Graces of many runs: the same kills at the same times as a look at every run would find, and no look at every run."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from .world import World

RUNS = ("root", "a", "b", "aa", "ab", "ba")
PARENTS = {"root": None, "a": "root", "b": "root", "aa": "a", "ab": "a", "ba": "b"}

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["cancel", "end", "lose", "kill", "wait"]), st.sampled_from(RUNS), st.floats(0, 5, width=16)
    ),
    max_size=25,
)


@settings(deadline=None)
@given(STEPS)
def test_s3_graces_end_when_a_look_at_every_run_says_so(steps: list[tuple[str, str, float]]) -> None:
    world = World()
    for name in RUNS:
        world.start(PARENTS[name], name)
    for step, name, amount in steps:
        run = world.run(name)
        if step == "cancel":
            world.cancel(name, grace=amount)
        elif step == "end" and not run.live_below:
            world.end(name)
        elif step == "lose":
            world.lose(name)
        elif step == "kill" and run.forced:
            world.kill(name)
        elif step == "wait":
            flagged = [run for run in map(world.run, RUNS) if run.live and run.flag is not None and not run.forced]
            waiting = [run for run in flagged if run.flag is not None and not run.live_below]
            ends = {run.run_id: run.flag.since + run.flag.grace for run in waiting if run.flag is not None}
            assert world.registry.next_kill_time() == min(ends.values(), default=None)
            now = world.now + amount
            due = {name for name, end in ends.items() if end <= now}
            gone = {name for name in due if world.run(name).lost is not None}
            assert set(world.condemned(now)) == due - gone
            assert all(not world.run(name).live for name in gone)


def test_a_cancel_of_ten_thousand_runs_looks_at_each_only_a_few_times() -> None:
    world = World()
    world.start(None, "root")
    names = [f"r{number}" for number in range(10_000)]
    world.admit("root", *names)
    began = time.process_time()
    world.cancel("root", grace=5.0)
    for number, name in enumerate(names):
        world.now = number / 10_000
        world.end(name)
        assert not world.registry.condemn_due(world.now)
        assert world.registry.next_kill_time() is not None
    # A look at every run at each of the ends takes a minute.
    assert time.process_time() - began < 10
