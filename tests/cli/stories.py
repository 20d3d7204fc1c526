"""Streams for the views: what a small tree says, from its start to its end."""

from collections.abc import Iterator
from typing import Any, TypeVar

from runtree.messages import (
    NO_COST,
    NO_USAGE,
    Cost,
    Custom,
    Failure,
    Item,
    ModelDelta,
    ReplCall,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    StreamItem,
    ToolCallCompleted,
    ToolCallStarted,
    TurnStarted,
    Usage,
    UsageUpdated,
)

I = TypeVar("I", bound=Item)  # noqa: E741

ROOT = "01HZ0000000000000000LEAD01"
FIRST = "01HZ0000000000000000AAAA02"
SECOND = "01HZ0000000000000000BBBB03"

SPENT = Usage(input_tokens=1000, output_tokens=204, model_calls=1)
PAID = Cost(amount="0.0123")  # type: ignore[arg-type]


class Teller:
    """Stamps and numbers items like the runs of one tree."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self.time = 100.0

    def item(self, item_type: type[I], run_id: str = ROOT, parent: str | None = None, **fields: Any) -> I:
        """Return the next item of a run."""
        seq = self._next.get(run_id, 0)
        self._next[run_id] = seq + 1
        self.time += 0.5
        depth = 0 if parent is None else 1
        stamp: dict[str, Any] = {"run_id": run_id, "parent_run_id": parent, "root_run_id": ROOT, "depth": depth}
        return item_type(**stamp, seq=seq, time=self.time, **fields)


def fan_out() -> Iterator[StreamItem]:
    """A lead with two sub-agents: one completes, one fails."""
    teller = Teller()
    yield teller.item(RunStarted, agent="lead", model="plan")
    yield teller.item(TurnStarted, turn=1)
    yield teller.item(ModelDelta, text="I ask two.\nThen I join.")
    yield teller.item(ToolCallStarted, call_id="a", tool_name="reader")
    yield teller.item(ToolCallStarted, call_id="b", tool_name="reader")
    for run_id, call in ((FIRST, "a"), (SECOND, "b")):
        yield teller.item(RunStarted, run_id, ROOT, agent="reader", model="small", call_id=call)
        yield teller.item(TurnStarted, run_id, ROOT, turn=1)
    yield teller.item(ToolCallStarted, FIRST, ROOT, call_id="r", tool_name="read_file")
    yield teller.item(ToolCallCompleted, FIRST, ROOT, call_id="r", tool_name="read_file", outcome="ok", duration=0.25)
    yield teller.item(ModelDelta, FIRST, ROOT, text="The sea ")
    yield teller.item(ModelDelta, FIRST, ROOT, text="rises.")
    yield teller.item(
        UsageUpdated, FIRST, ROOT, usage=SPENT, cost=PAID, total_usage=SPENT, total_cost=PAID
    )  # fmt: skip
    yield teller.item(
        RunCompleted, FIRST, ROOT, output="The sea rises.", usage=SPENT, cost=PAID, total_usage=SPENT, total_cost=PAID
    )
    yield teller.item(
        ToolCallCompleted, call_id="a", tool_name="reader", outcome="ok", duration=2.0, child_run_id=FIRST
    )
    unknown = Usage(precision="unknown", model_calls=1)
    yield teller.item(
        RunFailed,
        SECOND,
        ROOT,
        error=Failure(code="timeout", message="silent for 30 s"),
        usage=unknown,
        cost=Cost(precision="unknown"),
    )
    yield teller.item(
        ToolCallCompleted,
        call_id="b",
        tool_name="reader",
        outcome="error",
        duration=3.0,
        child_run_id=SECOND,
        message="silent for 30 s",
    )
    total, cost = SPENT + unknown, PAID + Cost(precision="unknown")
    yield teller.item(
        RunCompleted, output="done", usage=NO_USAGE, cost=NO_COST, total_usage=total, total_cost=cost, duration=9.5
    )


def cancelled_alone() -> Iterator[StreamItem]:
    """A run that is cancelled while it speaks."""
    teller = Teller()
    yield teller.item(RunStarted, agent="lead")
    yield teller.item(ModelDelta, text="half a sent")
    yield teller.item(RunCancelled, reason="user", forced=True, duration=1.0)


def cells() -> Iterator[StreamItem]:
    """A run that writes two programs; the first asks a model twice and calls a tool, the second answers."""
    teller = Teller()
    call: dict[str, Any] = {"session_id": "s", "cell": 1, "call_kind": "model_query_batched"}
    yield teller.item(RunStarted, agent="coder")
    yield teller.item(ModelDelta, text="```python\nfind()\n```\n")
    yield teller.item(ReplCall, phase="started", call_id="1", **call)
    yield teller.item(ReplCall, phase="started", call_id="2", **call)
    tool: dict[str, Any] = {**call, "call_id": "3", "call_kind": "tool_call", "name": "add"}
    yield teller.item(ReplCall, phase="started", **tool)
    yield teller.item(ToolCallStarted, call_id="t", tool_name="add")
    yield teller.item(Custom, name="progress", data={"done": 0.5})
    yield teller.item(ToolCallCompleted, call_id="t", tool_name="add", outcome="ok", duration=0.1)
    yield teller.item(ReplCall, phase="completed", outcome="ok", elapsed=0.1, **tool)
    yield teller.item(ReplCall, phase="completed", call_id="1", outcome="ok", elapsed=0.2, **call)
    yield teller.item(
        ReplCall, phase="completed", call_id="2", outcome="error", elapsed=0.3, message="busy\nnow", **call
    )
    yield teller.item(Custom, name="repl_cell", data={"cell": 1, "stdout": "one\ntwo\n", "value": "7", "elapsed": 0.4})
    yield teller.item(ModelDelta, text="```python\nanswer(1)\n```\n")
    yield teller.item(Custom, name="repl_cell", data={"cell": 2, "answered": True, "elapsed": 0.1})
    yield teller.item(RunCompleted, output="line 1\nline 2", usage=NO_USAGE, cost=NO_COST, duration=2.0)
