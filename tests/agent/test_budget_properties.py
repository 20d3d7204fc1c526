"""Whatever tree, whatever limits, whatever fails and is cancelled: never over a limit, nothing left reserved, and it ends (S8, S12)."""

import time
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from runtree.actors.agent import Agent, Retry, tool
from runtree.messages.content import ToolCallBlock
from runtree.messages.failure import Failure
from runtree.messages.ids import new_call_id
from runtree.messages.limits import Limits, ModelLimit
from runtree.messages.model import ModelRequest
from runtree.messages.usage import NO_USAGE
from runtree.providers import RetryPolicy
from tests.kit.host import MemoryHost, MemorySupervisor, MemoryTree
from tests.kit.metered import MeteredModel, profile

QUICK = Retry(RetryPolicy(initial=0.001, maximum=0.001, max_retry_after=0.001))

failures = st.sampled_from(
    [
        Failure(code="overloaded", message="busy", retryable=True),
        Failure(code="rate_limit", message="slow", retryable=True, retry_after=0.001),
        Failure(code="transport", message="cut", retryable=True),
        Failure(code="provider", message="broken"),
    ]
)
counts = st.none() | st.integers(1, 12)
limits = st.builds(
    Limits,
    max_cost=st.none() | st.integers(1, 8),
    max_tokens=st.none() | st.integers(300, 4000),
    max_model_calls=counts,
    max_tool_calls=counts,
    max_runs=st.none() | st.integers(1, 10),
    max_parallel=st.none() | st.integers(1, 3),
    max_depth=st.none() | st.integers(0, 3),
)


@tool
async def work() -> str:
    """Works."""
    return "ok"


@st.composite
def agents(draw: st.DrawFn, depth: int = 3) -> Agent:
    """Draw an agent with what is below it: what its model says turn by turn, over and over."""
    below = draw(st.lists(agents(depth - 1), max_size=2)) if depth else []
    below = [
        below_agent
        for number, below_agent in enumerate(below)
        if below_agent.name not in {b.name for b in below[:number]}
    ]
    names = ["work", *(each.name for each in below)]
    turns = draw(st.lists(st.lists(st.sampled_from(names), max_size=3) | failures, min_size=1, max_size=3))

    def answer(number: int, _: ModelRequest) -> Any:
        turn = turns[number % len(turns)]
        if isinstance(turn, Failure) or not turn:
            return turn or "fine"
        arguments: dict[str, dict[str, Any]] = {"work": {}}
        return [
            ToolCallBlock(call_id=new_call_id(), tool_name=name, arguments=arguments.get(name, {"input": "x"}))
            for name in turn
        ]

    model = MeteredModel(answer, output=draw(st.none() | st.integers(0, 100)), profile=profile())
    return Agent(
        f"agent{depth}{draw(st.integers(0, 9))}",
        model,
        tools=[work],
        agents=below,
        middleware=[QUICK],
        max_turns=3,
        limits=draw(st.none() | limits),
        max_parallel=draw(st.none() | st.integers(1, 2)),
    )


def check_bounds(tree: MemoryTree, *, over: bool) -> None:
    """Check every bound of every run; once all is over, nothing is reserved."""
    for run_id in tree.hosts:
        for line in tree.registry.budget(run_id).lines:
            assert line.settled + line.reserved <= line.allowed, line
            assert not (over and line.reserved), line


@settings(deadline=None, max_examples=60)
@given(agents(), limits, st.none() | st.integers(0, 300), st.booleans(), st.booleans())
async def test_s8_s12_u08_u09_any_tree_under_any_limits(
    root: Agent, bounds: Limits, point: int | None, whole: bool, crowded: bool
) -> None:
    steps = 0

    def step(host: MemoryHost, _: str) -> None:
        nonlocal steps
        steps += 1
        if steps == point:
            tree.cancel(tree.root.stamp.run_id if whole else host.stamp.run_id, "at any point")
        if steps % 13 == 0:
            check_bounds(tree, over=False)

    supervisor = MemorySupervisor({profile().key: ModelLimit(concurrency=2)} if crowded else None)
    tree = MemoryTree(root, limits=bounds, step=step, supervisor=supervisor)
    with anyio.fail_after(15):
        result = await tree.execute()
    check_bounds(tree, over=True)
    runs = [tree.registry.get(run_id) for run_id in tree.hosts]
    assert not any(run.live for run in runs)
    assert sum((run.usage for run in runs), NO_USAGE).tokens == result.total_usage.tokens
    assert tree.registry.next_kill_time() is None
    if crowded:
        again = MemoryTree(Agent("again", MeteredModel()), supervisor=supervisor)
        began = time.monotonic()
        assert (await again.execute()).status == "completed"
        assert time.monotonic() - began < 5, "no call is counted as under way any more"
