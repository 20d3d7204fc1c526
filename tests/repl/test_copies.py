"""The copy of the variables that is made after a cell: it never costs the cell what it did."""

import pytest

from runtree.messages import ReplPolicy
from tests.repl.sessions import Bench, good, only, sandboxes, values

MEMORY = 64_000_000


@pytest.mark.parametrize(
    "value, size",
    [
        ("'a' * 30_000_000", 30_000_000),
        ("{'k': 'a' * 30_000_000}", 1),
        ("['a' * 1_000_000 + str(i) for i in range(30)]", 30),
    ],
)
async def test_variables_too_large_to_be_copied_last_while_their_process_does(value: str, size: int) -> None:
    async with Bench().session(ReplPolicy(memory_bytes=MEMORY)) as session:
        result = await good(session, f"x = {value}\n'done'")
        assert (result.value, result.variables_changed, result.variables_kept) == ("done", ("x",), True)
        pid = only(sandboxes())
        assert await values(session, "len(x)") == [size]
        assert only(sandboxes()) == pid


async def test_a_copy_that_does_not_fit_loses_the_variables_and_not_the_cell() -> None:
    async with Bench().session(ReplPolicy(memory_bytes=MEMORY)) as session:
        result = await good(session, "deep = [[['a' * 30_000_000]]]\n'done'")
        assert (result.value, result.variables_kept) == ("done", False)
        assert session.variables == {}
        assert await values(session, "'deep' in locals()", "x = 1", "x") == [False, None, 1]
