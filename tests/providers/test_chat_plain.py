"""The short way of chunks that say one thing comes to the same as the long way (P01, P05, P09)."""

from typing import Any

import pydantic_core
from hypothesis import given
from hypothesis import strategies as st

from runtree.messages.model import ModelEvent
from runtree.providers.chat.dialects import GENERIC
from runtree.providers.chat.stream import ChatStream

BEGIN = {"id": "a", "choices": [{"index": 0, "delta": {"role": "assistant"}}]}
CALL = {"index": 0, "id": "c1", "function": {"name": "find", "arguments": ""}}


class LongWay(ChatStream):
    """Sends everything the long way."""

    def _take_plain(self, field: str, value: Any) -> ModelEvent | None:
        return None


nothing: st.SearchStrategy[Any] = st.sampled_from([None, "", [], {}, 0, False])
text = st.sampled_from(["a", " b", "{", "}", '"x":1'])
function = st.fixed_dictionaries({"arguments": text | nothing | st.just({"a": 1})}, optional={"name": text | nothing})
fragment: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"index": st.sampled_from([0, 1, True, 0.0, None, []]), "function": function | nothing},
    optional={"id": st.sampled_from([None, "", 0, "c1", "c2"]), "type": text, "extra_content": nothing | text},
)
calls = st.lists(st.just(CALL) | fragment, max_size=2) | text | st.just({"a": 1})
delta = st.fixed_dictionaries(
    {},
    optional={
        "role": text,
        "content": text | nothing | st.just([{"type": "text", "text": "t"}]),
        "reasoning_content": text | nothing | st.just([{"text": "r"}]),
        "reasoning": text | nothing,
        "tool_calls": calls | nothing,
        "refusal": nothing,
        "unknown": nothing | text,
    },
)
choice = st.fixed_dictionaries(
    {"index": st.sampled_from([0, None, 1]), "delta": delta | nothing},
    optional={
        "finish_reason": st.sampled_from([None, "stop"]),
        "usage": nothing | st.just({"prompt_tokens": 1, "completion_tokens": 2}),
    },
)
chunk = st.fixed_dictionaries(
    {"choices": st.lists(choice, max_size=2, min_size=1) | nothing},
    optional={"usage": nothing | st.just({"prompt_tokens": 3, "completion_tokens": 1}), "error": nothing},
)
usual = st.sampled_from(
    [{"content": "a"}, {"reasoning_content": "r", "content": None}, {"tool_calls": [CALL]}, {"role": "assistant"}]
    + [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in ('{"a"', ":1}", "")]
)


@given(st.lists(usual.map(lambda said: {"choices": [{"index": 0, "delta": said}]}) | chunk, max_size=8), st.booleans())
def test_p01_the_short_way_says_the_same(chunks: list[dict[str, Any]], think_tags: bool) -> None:
    profile = GENERIC.model_copy(update={"think_tags": think_tags})
    short, long = ChatStream(profile), LongWay(profile)
    for each in [BEGIN, *chunks]:
        data = pydantic_core.to_json(each)
        assert _plain(short.feed(data)) == _plain(long.feed(data))
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    data = pydantic_core.to_json(end)
    assert _plain(short.feed(data) + short.finish()) == _plain(long.feed(data) + long.finish())


def _plain(events: list[ModelEvent]) -> list[Any]:
    """Events without the ids that are made up here, which are never the same."""
    return [_without_ids(event.model_dump(mode="json")) for event in events]


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: None if name == "call_id" else _without_ids(each) for name, each in value.items()}
    return [_without_ids(each) for each in value] if isinstance(value, list) else value
