"""Whatever a server sends ends in a valid answer or a typed failure, and no half of a call can be run: cases P05, P07, P11, P12."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtree.messages.model import Completed, Failed, ModelEvent
from runtree.messages.transcript import AssistantMessage
from runtree.providers.chat import dialects as known
from runtree.providers.chat.profile import ChatProfile

from ..answers import call, chunk, stream
from ..test_chat_stream import check_pieces
from .conversation import body, decode, message_of, turn

_TOLERANT = known.GENERIC.model_copy(update={"think_tags": True, "kept_fields": ("extra_content", "odd")})
PROFILES = st.sampled_from([*known.DIALECTS, _TOLERANT])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def _object(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with any of these fields, each of the right shape or of any other."""
    return st.fixed_dictionaries({}, optional={name: field | _JSON for name, field in fields.items()})


_WORDS = st.sampled_from(["", "a", "<think>", "</think>", '{"a"', ": 1}", "{}", "null"])
_SUMMARIES = st.lists(_object(type=_WORDS, text=_WORDS, signature=_WORDS, data=_WORDS), max_size=2)
_PARTS = st.lists(
    _object(
        type=st.sampled_from(["text", "thinking", "reasoning"]), text=_WORDS, thinking=_SUMMARIES, summary=_SUMMARIES
    ),
    max_size=2,
)
_DETAILS = st.lists(
    _object(
        type=st.sampled_from(["reasoning.text", "reasoning.summary", "reasoning.encrypted"]),
        index=st.integers(0, 1),
        text=_WORDS,
        summary=_WORDS,
        data=_WORDS,
        signature=_WORDS,
        id=_WORDS,
    ),
    max_size=2,
)
_CALLS = st.lists(
    _object(
        index=st.integers(0, 1),
        id=_WORDS,
        function=_object(name=st.sampled_from(["get", "put", ""]), arguments=_WORDS),
        extra_content=_object(google=_JSON),
    ),
    max_size=2,
)
_DELTAS = _object(
    content=_WORDS | _PARTS,
    reasoning=_WORDS,
    reasoning_content=_WORDS,
    reasoning_details=_DETAILS,
    reasoning_opaque=_WORDS,
    extra_content=_object(google=_JSON),
    tool_calls=_CALLS,
    odd=_JSON,
)
_USAGE = _object(
    prompt_tokens=st.integers(-1, 9),
    completion_tokens=st.integers(-1, 9),
    total_tokens=st.integers(-1, 20),
    completion_tokens_details=_object(reasoning_tokens=st.integers(-1, 9)),
)
_CHOICES = st.lists(
    _object(
        delta=_DELTAS,
        message=_DELTAS,
        finish_reason=st.sampled_from(["stop", "tool_calls", "length", "error"]),
        usage=_USAGE,
    ),
    max_size=2,
)
_CHUNKS = _object(choices=_CHOICES, usage=_USAGE, x_groq=_object(usage=_USAGE))


def _sound(events: list[ModelEvent], profile: ChatProfile) -> None:
    """One terminal event, the same said by pieces and whole, a message that can be kept and sent again, and whole calls only."""
    last = events[-1]
    assert [event for event in events if isinstance(event, Completed | Failed)] == [last]
    message = message_of(events)
    if isinstance(last, Completed):
        check_pieces(events, message)
    if message is None:
        return
    for block in message.tool_calls:
        assert block.arguments is None or isinstance(json.loads(block.arguments_json), dict)
    assert AssistantMessage.from_json(message.to_json()).to_json() == message.to_json()
    json.dumps(body(profile, *turn(message)))


@settings(max_examples=100)
@given(chunks=st.lists(_CHUNKS, max_size=5), done=st.booleans(), profile=PROFILES, data=st.data())
def test_any_json_in_any_cut(
    chunks: list[dict[str, Any]], done: bool, profile: ChatProfile, data: st.DataObject
) -> None:
    whole = stream(*chunks, done=done)
    _sound(decode([whole], profile), profile)
    end = data.draw(st.integers(0, len(whole)))
    _sound(decode([whole[:end]], profile), profile)


@settings(max_examples=100)
@given(body=_CHUNKS | _JSON, profile=PROFILES)
def test_any_json_as_one_body(body: Any, profile: ChatProfile) -> None:
    _sound(decode([json.dumps(body).encode()], profile), profile)


@settings(max_examples=100)
@given(
    st.lists(
        st.binary(max_size=40) | st.sampled_from([b"data: ", b"\n\n", b"{", b'{"choices":[{"delta":']), max_size=8
    ),
    PROFILES,
)
def test_any_bytes(reads: list[bytes], profile: ChatProfile) -> None:
    _sound(decode(reads, profile), profile)


@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), profile=PROFILES)
def test_one_wrong_byte(place: int, byte: int, profile: ChatProfile) -> None:
    deltas = [{"reasoning": "hm"}, {"content": "x"}, call(0, "c1", "get", '{"city": '), call(0, None, None, '"Bern"}')]
    good = stream(*map(chunk, deltas), chunk(finish="tool_calls"))
    place %= len(good)
    _sound(decode([good[:place] + bytes([byte]) + good[place + 1 :]], profile), profile)


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_p12_half_a_call_is_marked_for_every_reader(finish: str) -> None:
    deltas = [call(0, "c1", "get", '{"city": "Be')]
    last = decode([stream(*map(chunk, deltas), chunk(finish=finish))], known.GENERIC)[-1]
    assert isinstance(last, Completed)
    (block,) = last.response.message.tool_calls
    assert (block.arguments, block.truncated) == (None, True)
