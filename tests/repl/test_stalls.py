"""Evaluation does not block the event loop."""

import asyncio
from collections.abc import Awaitable

import pytest

from runtree.messages import ReplPolicy
from tests.repl.sessions import Bench, good

ROUNDS = 10
"""Rounds of the loop beside a cell that a blocked one would not make; `benchmarks/repl.py` measures the longest stall."""


async def rounds_beside(work: Awaitable[object]) -> int:
    """Return how many rounds the event loop makes while the work is done."""
    task, rounds = asyncio.ensure_future(work), 0
    while not task.done():
        # Not without a pause: a loop that spins keeps Python's lock from the worker's thread.
        await asyncio.wait([task], timeout=0.001)
        rounds += 1
    await task
    return rounds


@pytest.mark.parametrize(
    "code",
    [
        "sum(range(3_000_000))",
        "for i in range(100_000): print('a line', i)",
        "x = 'a' * 50_000_000\nlen(x)",
        "[[i] for i in range(100_000)]",
    ],
)
async def test_e5_while_a_cell_computes_prints_and_returns(code: str) -> None:
    async with Bench().session(ReplPolicy(output_bytes=10_000_000)) as session:
        assert await rounds_beside(good(session, code)) > ROUNDS


async def test_e5_while_100_mb_are_handed_over() -> None:
    text = "All work. " * 10_000_000

    async def hand_over() -> None:
        async with Bench().session(inputs={"context": text}) as session:
            await good(session, "assert context.count('work') == 10_000_000")

    assert await rounds_beside(hand_over()) > ROUNDS
