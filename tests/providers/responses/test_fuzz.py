"""Whatever a server sends, it ends in one terminal event, and no call that was not whole can be run."""

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from runtree.messages.model import Completed, Failed, ModelEvent

from .answers import Event, frame
from .cases import CASES, Case
from .reading import decode, ends_once, message_of, replayed

_ODD: list[object] = [None, "", "x", 0, 1, -1, 1e400, True, [], {}, [None], ["x"], [[1]], [{}], {"text": None}]
_VALUES = st.sampled_from(_ODD)
_TYPES = st.sampled_from(["reasoning", "message", "function_call", "custom_tool_call", "web_search_call", "", None, 3])
_STATUS: st.SearchStrategy[object] = st.sampled_from(
    ["completed", "incomplete", "failed", "in_progress", "cancelled", "", None, 3, []]
)
_PARTS = st.lists(
    st.fixed_dictionaries(
        {}, optional={"type": st.sampled_from(["output_text", "refusal"]), "text": _VALUES, "refusal": _VALUES}
    )
    | _VALUES,
    max_size=2,
)
_ITEMS = st.fixed_dictionaries(
    {"type": _TYPES},
    optional={
        "id": _VALUES,
        "status": _STATUS,
        "content": _PARTS | _VALUES,
        "summary": _PARTS | _VALUES,
        "encrypted_content": _VALUES,
        "arguments": _VALUES | st.sampled_from(["{}", '{"a', '{"a": 1}']),
        "input": _VALUES,
        "call_id": _VALUES,
        "name": _VALUES,
    },
)
_RESPONSES = st.fixed_dictionaries(
    {},
    optional={
        "status": _STATUS,
        "output": st.lists(_ITEMS | _VALUES, max_size=3) | _VALUES,
        "usage": st.dictionaries(st.sampled_from(["input_tokens", "output_tokens", "input_tokens_details"]), _VALUES)
        | _VALUES,
        "error": _VALUES | st.fixed_dictionaries({"code": _VALUES, "message": _VALUES, "headers": _VALUES}),
        "incomplete_details": st.fixed_dictionaries({"reason": _VALUES}) | _VALUES,
        "model": _VALUES,
        "id": _VALUES,
    },
)
_KINDS = [
    *(f"response.{name}" for name in ("created", "completed", "incomplete", "failed", "queued", "cancelled", "done")),
    *(f"response.output_item.{name}" for name in ("added", "done")),
    *(
        f"response.{name}"
        for kind in ("output_text", "refusal", "reasoning_text", "reasoning_summary_text", "function_call_arguments")
        for name in (f"{kind}.delta", f"{kind}.done")
    ),
    "response.custom_tool_call_input.delta",
    "response.custom_tool_call_input.done",
    "error",
    "x",
]
_EVENTS: st.SearchStrategy[Event] = st.fixed_dictionaries(
    {"type": st.sampled_from(_KINDS) | _VALUES},
    optional={
        "output_index": st.integers(0, 2) | _VALUES,
        "item_id": _VALUES,
        "summary_index": st.integers(0, 1) | _VALUES,
        "delta": _VALUES | st.sampled_from(['{"a', '": 1}']),
        "arguments": _VALUES,
        "input": _VALUES,
        "item": _ITEMS | _VALUES,
        "response": _RESPONSES | _VALUES,
        "error": _VALUES,
    },
)


def _is_sound(events: Sequence[ModelEvent]) -> None:
    ends_once(events)
    last, message = events[-1], message_of(events)
    calls = message.tool_calls if message else ()
    assert len({call.call_id for call in calls}) == len(calls)
    for call in calls:
        assert call.call_id
        assert call.tool_name
        assert call.arguments is None or not call.truncated
        if call.arguments is not None:
            assert json.loads(call.arguments_json) == call.arguments
    if isinstance(last, Completed) and last.response.message.content:
        json.dumps(replayed(last.response.message))


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_random_bytes(reads: list[bytes]) -> None:
    _is_sound(decode(reads))


@given(st.lists(_EVENTS, max_size=7))
def test_p07_fields_of_any_type(events: list[Event]) -> None:
    _is_sound(decode([b"".join(frame(event, named=False) for event in events)]))


@given(_RESPONSES | _ITEMS)
def test_p07_bodies_of_any_shape(body: Event) -> None:
    _is_sound(decode([json.dumps(body).encode()]))


@given(st.sampled_from(CASES), st.integers(0, 5000), st.binary(max_size=6), st.integers(0, 6))
def test_damaged_answers(case: Case, at: int, noise: bytes, dropped: int) -> None:
    """Bytes are put in, left out, or cut off at any point."""
    body = case.body
    at = min(at, len(body))
    _is_sound(decode([body[:at] + noise + body[at + dropped :]]))
    assert isinstance(decode([body[:at]])[-1], Completed | Failed)
