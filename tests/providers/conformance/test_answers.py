"""What every provider makes of an answer, however it is cut, framed and ended: cases P01 to P03, P06, P10 to P12, K08."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.messages.content import ToolCallBlock
from runtree.messages.model import ModelEvent, ToolCallDelta
from runtree.providers.fold import UNKNOWN_USAGE
from tests.kit.wires.check import check_calls, expected, merged, message_of, response_of, unsigned
from tests.kit.wires.families import FAMILIES, UNARY, Family
from tests.kit.wires.script import USAGE, Called, Said, Script
from tests.kit.wires.scripts import ANSWERS, ARGUMENTS, CALL, CALLING, ONLY_THOUGHT, PLAIN

names = pytest.mark.parametrize("name", ANSWERS)


def stream(family: Family, script: Script) -> list[ModelEvent]:
    return family.decode(family.wire.frames(script))


@names
def test_an_answer_is_told_and_folded(family: Family, name: str) -> None:
    script = ANSWERS[name]
    events = stream(family, script)
    response = response_of(events)
    message = response.message
    assert events[0].kind == "started"
    assert unsigned(merged(events)) == expected(script)
    assert (message.text, message.reasoning) == (script.text, script.reasoning)
    assert [(call.call_id, call.tool_name) for call in message.tool_calls] == [
        (call.call_id, call.name) for call in script.calls
    ]
    assert (response.finish_reason, message.finish_reason) == (script.finish, script.finish)
    assert response.usage.model_copy(update={"cache_write_tokens": None}) == USAGE
    assert (response.model, message.model) == ("m-1", "m-1")
    assert message.provider == family.model().profile.provider


@names
def test_p01_any_cut_gives_the_same(family: Family, name: str) -> None:
    body = b"".join(family.wire.frames(ANSWERS[name]))
    whole = family.decode([body])
    # Each provider's own fixtures are cut at every byte; these differ in little of theirs.
    for at in range(1, len(body), len(body) // 150):
        events = family.decode([body[:at], body[at:]])
        assert (merged(events), events[-1]) == (merged(whole), whole[-1]), f"cut at {at}"


@names
def test_p01_byte_by_byte(family: Family, name: str) -> None:
    for body in (b"".join(family.wire.frames(ANSWERS[name])), family.wire.body(ANSWERS[name])):
        events, whole = family.decode(_pieces(body, list(range(len(body))))), family.decode([body])
        assert (merged(events), events[-1]) == (merged(whole), whole[-1])


@given(st.sampled_from(FAMILIES), st.sampled_from(list(ANSWERS)), st.lists(st.integers(0, 3000), max_size=12))
def test_p01_any_cuts_give_the_same(family: Family, name: str, cuts: list[int]) -> None:
    body = b"".join(family.wire.frames(ANSWERS[name]))
    events, whole = family.decode(_pieces(body, cuts)), family.decode([body])
    assert (merged(events), events[-1]) == (merged(whole), whole[-1])


def _pieces(body: bytes, cuts: list[int]) -> Iterator[bytes]:
    start = 0
    for end in sorted({min(cut, len(body)) for cut in cuts} | {len(body)}):
        yield body[start:end]
        start = end


@pytest.mark.parametrize(
    "old, new", [(b"\n", b"\r\n"), (b"\n", b"\r"), (b"data: ", b"data:")], ids=["crlf", "cr", "no-space"]
)
def test_p02_framing(family: Family, old: bytes, new: bytes) -> None:
    frames = family.wire.frames(CALLING)
    events, whole = family.decode(frame.replace(old, new) for frame in frames), family.decode(frames)
    assert (merged(events), events[-1]) == (merged(whole), whole[-1])


def test_p02_no_newline_at_the_end(family: Family) -> None:
    body = b"".join(family.wire.frames(CALLING))
    assert response_of(family.decode([body.rstrip(b"\n")])) == response_of(family.decode([body]))


def test_p03_comments_are_ignored(family: Family) -> None:
    frames = family.wire.frames(CALLING)
    noisy = [
        part for frame in frames for part in (b": PROCESSING\n\n", b": keep-alive\n", b"id: 7\nretry: 10\n", frame)
    ]
    assert response_of(family.decode(noisy)) == response_of(family.decode(frames))


@names
def test_p06_json_in_place_of_a_stream(family: Family, name: str) -> None:
    script = ANSWERS[name]
    for request in (UNARY, None):
        body = family.wire.body(script)
        events = family.decode([body], request) if request else family.decode([b"\n\n", body])
        assert merged(events) == merged(stream(family, script))
        assert response_of(events) == response_of(stream(family, script))


@pytest.mark.parametrize("family", [each for each in FAMILIES if "no_ids" in each.wire.abilities], ids=str)
def test_p10_missing_ids_are_made_up(family: Family) -> None:
    script = Script([Called(None, "now", ("{}",)), Called(None, "now", ("{}",))], "tool_calls")
    ids: list[str] = []
    for _ in range(20):
        for events in (stream(family, script), family.decode([family.wire.body(script)])):
            ids += [call.call_id for call in response_of(events).message.tool_calls]
            told = {event.call_id for event in events if isinstance(event, ToolCallDelta)}
            assert told == set(ids[-2:])
    assert len(set(ids)) == len(ids) == 80


@pytest.mark.parametrize("pieces, arguments", [((), {}), (("",), {}), (("{}",), {}), (("{", "}"), {})])
def test_p11_calls_without_arguments(family: Family, pieces: tuple[str, ...], arguments: dict[str, object]) -> None:
    (call,) = _calls(family, Called("call_1", "now", pieces))
    assert (call.arguments, call.arguments_json) == (arguments, "{}")


def test_p11_arguments_in_one_piece(family: Family) -> None:
    (call,) = _calls(family, Called("call_1", "get_weather", whole=ARGUMENTS))
    assert call.arguments == ARGUMENTS


@pytest.mark.parametrize("pieces", [("{city: ", "x}"), ("[1]",), ('"x"',), ('{"a": 1} {',), ("{'a': 1}",)])
def test_p11_what_is_no_object_is_kept_and_not_run(family: Family, pieces: tuple[str, ...]) -> None:
    (call,) = _calls(family, Called("call_1", "get_weather", pieces))
    assert (call.arguments, call.arguments_json, call.truncated) == (None, "".join(pieces), False)


def _calls(family: Family, call: Called) -> tuple[ToolCallBlock, ...]:
    return response_of(stream(family, Script([call], "tool_calls"))).message.tool_calls


def test_p12_length_inside_a_call(family: Family) -> None:
    half = Called(CALL.call_id, CALL.name, CALL.pieces[:1])
    response = response_of(stream(family, Script([Said(("So: ",)), half], "length")))
    assert (response.finish_reason, response.message.text) == ("length", "So: ")
    (call,) = response.message.tool_calls
    assert (call.arguments, call.truncated) == (None, True)


def test_p12_length_in_the_text(family: Family) -> None:
    response = response_of(stream(family, Script([Said(("So: ",))], "length")))
    assert (response.finish_reason, response.message.text) == ("length", "So: ")


def test_k08_only_reasoning(family: Family) -> None:
    message = response_of(stream(family, ONLY_THOUGHT)).message
    assert (message.text, message.reasoning) == ("", ONLY_THOUGHT.reasoning)


def test_u01_usage_that_nobody_reported_is_unknown(family: Family) -> None:
    script = Script(PLAIN.parts, usage=None)
    for events in (stream(family, script), family.decode([family.wire.body(script)])):
        assert response_of(events).usage == UNKNOWN_USAGE


def test_other_choices_of_the_script_are_checked(family: Family) -> None:
    """The checks themselves see a call that was not told."""
    events = stream(family, CALLING)
    untold = [event for event in events if not isinstance(event, ToolCallDelta)]
    assert message_of(untold) is not None
    with pytest.raises(AssertionError, match="not told"):
        check_calls(untold)
