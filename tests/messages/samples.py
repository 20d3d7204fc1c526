"""Stream items for tests: one of every kind, and strategies that make sequences of them."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from runtree.messages import (
    NO_COST,
    NO_USAGE,
    AssistantMessage,
    AssistantMessageItem,
    AttemptDiscarded,
    Custom,
    Failure,
    Item,
    ItemsDropped,
    ModelDelta,
    ReplCall,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    TextBlock,
    ThinkingBlock,
    ToolCallArgsDelta,
    ToolCallBlock,
    ToolCallCompleted,
    ToolCallStarted,
    ToolProgress,
    TurnStarted,
    UsageUpdated,
    Waiting,
)

STAMP: dict[str, Any] = {"run_id": "run", "parent_run_id": "parent", "root_run_id": "root", "depth": 1, "attempt": 2}

ANSWER = AssistantMessage(
    content=(ThinkingBlock(text="why"), TextBlock(text="it is"), ToolCallBlock(call_id="c1", tool_name="find")),
)

BODIES: Sequence[tuple[type[Item], dict[str, Any]]] = (
    (RunStarted, {"agent": "lead", "model": "m", "tags": {"team": "red"}}),
    (TurnStarted, {"turn": 1}),
    (ModelDelta, {"text": "line\nbreak\u2028 and more"}),
    (ModelDelta, {"reasoning": "hm"}),
    (ToolCallStarted, {"call_id": "c1", "tool_name": "find"}),
    (ToolCallArgsDelta, {"call_id": "c1", "tool_name": "find", "delta": '{"q":'}),
    (ToolProgress, {"call_id": "c1", "tool_name": "find", "message": "half", "fraction": 0.5}),
    (ToolCallCompleted, {"call_id": "c1", "tool_name": "find", "outcome": "ok", "duration": 0.25}),
    (AssistantMessageItem, {"message": ANSWER}),
    (UsageUpdated, {"usage": NO_USAGE, "cost": NO_COST, "total_usage": NO_USAGE, "total_cost": NO_COST}),
    (AttemptDiscarded, {"scope": "model_call", "discarded_attempt": 1, "first_seq": 0, "last_seq": 3}),
    (ReplCall, {"session_id": "s", "phase": "completed", "call_kind": "model_query", "elapsed": 0.1, "outcome": "ok"}),
    (Waiting, {"what": "budget", "detail": "openai:gpt-5", "duration": 1.5}),
    (Custom, {"name": "note", "data": {"any": ["json", None, 1.5]}}),
    (RunCompleted, {"output": {"answer": 42}}),
    (RunFailed, {"error": Failure(code="timeout", message="too slow")}),
    (RunCancelled, {"reason": "user", "forced": True}),
)


def one_of_every_kind() -> list[Item]:
    """Return consecutive items of every kind, a gap of dropped ones included."""
    items = [item_type(**STAMP, seq=seq, time=1.0, **fields) for seq, (item_type, fields) in enumerate(BODIES)]
    after = len(items)
    return [*items, ItemsDropped(**STAMP, seq=after + 4, time=1.0, count=5, first_seq=after, last_seq=after + 4)]


@st.composite
def item_runs(draw: st.DrawFn) -> list[Item]:
    """Items of one run without a hole in their numbers, as one frame carries them."""
    seq = draw(st.integers(0, 1_000_000))
    items: list[Item] = []
    for width in draw(st.lists(st.integers(0, 5), min_size=1, max_size=30)):
        if width:
            last = seq + width - 1
            items.append(ItemsDropped(**STAMP, seq=last, count=width, first_seq=seq, last_seq=last))
            seq = last + 1
        else:
            item_type, fields = draw(st.sampled_from(BODIES))
            if item_type is ModelDelta:
                fields = {"text": draw(st.text(st.characters(exclude_categories=["Cs"])))}
            stamped: dict[str, Any] = {**STAMP, **fields, "seq": seq, "time": draw(st.floats(0, 1e10))}
            items.append(item_type(**stamped))
            seq += 1
    return items


def numbers_of(items: Sequence[Item]) -> list[int]:
    """Return every number the items account for, dropped ones included."""
    numbers: list[int] = []
    for item in items:
        numbers += range(item.first_seq, item.last_seq + 1) if isinstance(item, ItemsDropped) else [item.seq]
    return numbers
