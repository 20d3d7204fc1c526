"""Answers of each dialect, in any cut and cut off anywhere: cases P01, P05, P13 to P16, K06, K07, U01."""

import pytest

from runtree.messages.model import Completed, Failed, ModelEvent, SignatureDelta
from runtree.providers.chat.profile import ChatProfile
from runtree.providers.fold import Fold

from ..answers import CASES, chunk, stream
from ..test_chat_stream import check_pieces, merge
from .conversation import answer_of, decode, echoed, message_of
from .fixtures import FIXTURES, Fixture, told
from .payloads import payloads


@pytest.mark.parametrize("fixture", FIXTURES, ids=str)
def test_answer(fixture: Fixture) -> None:
    """K07: what is said twice is told once."""
    _check(fixture, decode([fixture.body], fixture.profile))


@pytest.mark.parametrize("fixture", FIXTURES, ids=str)
def test_p01_byte_by_byte(fixture: Fixture) -> None:
    reads = (fixture.body[at : at + 1] for at in range(len(fixture.body)))
    _check(fixture, decode(reads, fixture.profile))


def _check(fixture: Fixture, events: list[ModelEvent]) -> None:
    last = events[-1]
    assert isinstance(last, Completed), last
    message = last.response.message
    assert told(message) == fixture.blocks
    assert last.response.finish_reason == fixture.finish
    assert (last.response.usage.input_tokens, last.response.usage.output_tokens) == fixture.usage
    check_pieces(events, message)
    fold = Fold()
    for event in events:
        fold.add(event)
    signatures = [block[2] for block in told(fold.message("stop")) if block[0] == "thinking" and block[2]]
    assert signatures == [block[2] for block in fixture.blocks if block[0] == "thinking" and block[2]]


@pytest.mark.parametrize("fixture", [*FIXTURES, *CASES], ids=str)
def test_p01_every_cut_feeds_the_same_payloads(fixture: Fixture) -> None:
    body = fixture.body
    whole = payloads([body])
    for at in range(len(body) + 1):
        assert payloads([body[:at], body[at:]]) == whole, f"cut at {at}"


@pytest.mark.parametrize("fixture", FIXTURES, ids=str)
def test_p01_cuts_around_each_event_give_the_same_events(fixture: Fixture) -> None:
    body = fixture.body
    whole = merge(decode([body], fixture.profile))
    ends = [at for at in range(len(body)) if body[at : at + 1] in b"\r\n"]
    for at in {cut + by for cut in ends for by in (-1, 0, 1)}:
        assert merge(decode([body[:at], body[at:]], fixture.profile)) == whole, f"cut at {at}"


@pytest.mark.parametrize("fixture", FIXTURES, ids=str)
def test_p05_cut_off_anywhere(fixture: Fixture) -> None:
    """What is cut off ends in one terminal event; only an answer that was finished completes, and then its calls are whole."""
    for end in range(0, len(fixture.body), 3):
        events = decode([fixture.body[:end]], fixture.profile)
        last = events[-1]
        assert [event for event in events if isinstance(event, Completed | Failed)] == [last]
        if isinstance(last, Failed):
            assert last.error.retryable
        else:
            assert told(message_of(events)) == fixture.blocks


def _details(fixture: str) -> list[dict[str, object]] | None:
    (found,) = (one for one in FIXTURES if one.name == fixture)
    message = message_of(decode([found.body], found.profile))
    assert message is not None
    (sent,) = echoed(found.profile, message)
    details: list[dict[str, object]] | None = sent.get("reasoning_details")
    return details


def test_k06_details_go_back_merged_and_in_order() -> None:
    signed = {"type": "reasoning.text", "format": "anthropic-claude-v1"}
    assert _details("openrouter-text-mirrored-and-signed") == [
        {**signed, "index": 0, "text": "Grüße", "signature": "s1=="}
    ]
    first, second = (
        {**signed, "index": 0, "text": "a", "signature": "s1"},
        {**signed, "index": 1, "text": "b", "signature": "s2"},
    )
    assert _details("openrouter-two-thoughts-around-text") == [first, second]
    assert _details("openrouter-two-thoughts-side-by-side") == [first, second]
    hidden = {"type": "reasoning.encrypted", "data": "AAA", "format": "openai-responses-v1", "index": 0}
    assert _details("openrouter-encrypted-only") == [{**hidden, "id": "rs_1"}]
    assert _details("openrouter-encrypted-with-the-call") == [{**hidden, "id": "c1"}]
    assert _details("details-without-mirror") is None


def test_ciphertexts_of_two_ids_are_never_joined() -> None:
    profile = FIXTURES[0].profile
    parts = [{"type": "reasoning.encrypted", "index": 0, "id": name, "data": name} for name in ("c1", "c2")]
    (sent,) = echoed(profile, answer_of(profile, {"reasoning_details": [parts[0]]}, {"reasoning_details": [parts[1]]}))
    assert sent["reasoning_details"] == parts


def test_details_of_a_failed_answer_are_kept() -> None:
    profile = FIXTURES[0].profile
    part = {"type": "reasoning.text", "index": 0, "text": "hm", "signature": "s1"}
    events = decode([stream(chunk({"reasoning_details": [part]}), {"error": {"message": "no", "code": 502}})], profile)
    message = message_of(events)
    assert told(message) == [("thinking", "hm", "s1")]


def test_signatures_are_told_before_the_end() -> None:
    (fixture,) = (one for one in FIXTURES if one.name == "openrouter-two-thoughts-around-text")
    events = decode([fixture.body], fixture.profile)
    told_signatures = [(event.signature, event.index) for event in events if isinstance(event, SignatureDelta)]
    assert told_signatures == [("s1", 0), ("s2", 1)]


def _extras(profile: ChatProfile, *deltas: dict[str, object]) -> list[dict[str, object]]:
    return echoed(profile, answer_of(profile, *deltas))


def test_k06_gemini_extras_of_a_message_and_of_calls_go_back_where_they_stood() -> None:
    profile = next(one for one in FIXTURES if one.name == "gemini-signed-call").profile
    on_message, on_call = {"google": {"thought_signature": "m"}}, {"google": {"thought_signature": "c"}}
    calls = [
        {
            "id": name,
            "function": {"name": "get", "arguments": "{}"},
            **({"extra_content": on_call} if name == "f1" else {}),
        }
        for name in ("f1", "f2")
    ]
    (sent,) = _extras(profile, {"content": "x"}, {"content": "", "extra_content": on_message}, {"tool_calls": calls})
    assert (sent["content"], sent["extra_content"]) == ("x", on_message)
    assert [call.get("extra_content") for call in sent["tool_calls"]] == [on_call, None]  # type: ignore[attr-defined]
    (alone,) = _extras(profile, {"tool_calls": calls[:1], "extra_content": on_message})
    assert alone["extra_content"] == on_message
