"""What becomes of a chat completions answer, however it is cut: cases P01 to P16."""

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.messages.model import Completed, Failed, ModelEvent, ReasoningDelta, TextDelta, ToolCallDelta
from runtree.messages.transcript import AssistantMessage
from runtree.providers.chat.dialects import GENERIC
from runtree.providers.chat.stream import ChatStream
from runtree.providers.decoder import AnswerDecoder
from runtree.providers.fold import Fold

from .answers import CASES, Case, call, chunk, stream


def decode(reads: Iterable[bytes], *, think_tags: bool = False) -> list[ModelEvent]:
    decoder = AnswerDecoder(ChatStream(GENERIC.model_copy(update={"think_tags": think_tags}), "asked-for"))
    events: list[ModelEvent] = []
    for read in reads:
        events += decoder.feed(read)
    return events + decoder.finish()


def merge(events: Iterable[ModelEvent]) -> list[tuple[object, ...]]:
    """The events with neighbouring pieces of the same thing put together, ids of our own making left out."""
    merged: list[tuple[object, ...]] = []
    for event in events:
        match event:
            case TextDelta():
                item: tuple[object, ...] = ("text", None, event.text)
            case ReasoningDelta():
                item = ("reasoning", event.index, event.text)
            case ToolCallDelta():
                item = ("call", event.tool_name, event.arguments)
            case _:
                item = (event.kind, None, "")
        if merged and merged[-1][:2] == item[:2] and item[0] in ("text", "reasoning"):
            item = (*item[:2], f"{merged.pop()[2]}{item[2]}")
        merged.append(item)
    return merged


def message_of(events: list[ModelEvent]) -> AssistantMessage | None:
    last = events[-1]
    assert isinstance(last, Completed | Failed)
    return last.response.message if isinstance(last, Completed) else last.partial


def check(case: Case, events: list[ModelEvent]) -> None:
    last, message = events[-1], message_of(events)
    assert [event for event in events if isinstance(event, Completed | Failed)] == [last]
    assert (message.text if message else "") == case.text
    assert (message.reasoning if message else "") == case.reasoning
    calls = message.tool_calls if message else ()
    assert [(block.tool_name, block.arguments) for block in calls] == [(name, args) for _, name, args in case.calls]
    for block, (call_id, _, _) in zip(calls, case.calls, strict=True):
        assert block.call_id == call_id or (call_id is None and block.call_id.startswith("call_"))
    assert len({block.call_id for block in calls}) == len(calls)
    if isinstance(last, Failed):
        assert last.error.code == case.failure
        assert all(block.arguments is None and block.truncated for block in calls)
    else:
        assert isinstance(last, Completed)
        assert case.failure is None, last
        assert last.response.finish_reason == case.finish == last.response.message.finish_reason
        usage = last.response.usage
        assert (usage.input_tokens, usage.output_tokens) == case.usage
    check_pieces(events, message)


def check_pieces(events: list[ModelEvent], message: AssistantMessage | None) -> None:
    """The events say what the message says."""
    fold = Fold()
    for event in events:
        fold.add(event)
    pieces = fold.message("stop")
    assert pieces.text == (message.text if message else "")
    assert pieces.reasoning == (message.reasoning if message else "")
    if message is not None:
        told = [(block.call_id, block.tool_name, block.arguments_json) for block in pieces.tool_calls]
        assert told == [(block.call_id, block.tool_name, block.arguments_json or "{}") for block in message.tool_calls]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_answer_in_one_read(case: Case) -> None:
    """P02-P15."""
    check(case, decode([case.body]))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_p01_answer_byte_by_byte(case: Case) -> None:
    check(case, decode(case.body[at : at + 1] for at in range(len(case.body))))


@given(st.sampled_from(CASES), st.lists(st.integers(0, 2000), max_size=12))
def test_p01_any_cuts_give_the_same_events(case: Case, cuts: list[int]) -> None:
    assert merge(decode(_pieces(case.body, cuts))) == merge(decode([case.body]))


def _pieces(body: bytes, cuts: list[int]) -> Iterator[bytes]:
    ends = sorted({min(cut, len(body)) for cut in cuts} | {len(body)})
    start = 0
    for end in ends:
        yield body[start:end]
        start = end


@pytest.mark.parametrize("case", CASES, ids=str)
def test_p05_a_stream_that_ends_anywhere_ends_in_one_terminal_event(case: Case) -> None:
    """Whatever is cut off, a call is only run if it is whole and the answer was finished."""
    for end in range(len(case.body)):
        events = decode([case.body[:end]])
        last = events[-1]
        assert isinstance(last, Completed | Failed), f"cut at {end}"
        if isinstance(last, Failed) and last.error.code == "protocol" and case.name != "web-page":
            assert last.error.retryable


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_random_bytes_end_in_one_terminal_event(reads: list[bytes]) -> None:
    _ends_once(decode(reads))


_ODD: list[object] = [
    None,
    "",
    "x",
    0,
    1,
    -1,
    1e400,
    True,
    [],
    {},
    [None],
    ["x"],
    [[1]],
    [{}],
    {"text": None},
    {"code": "x"},
    {"total_cost": "x"},
]
_JSON = st.sampled_from(_ODD)
_FIELDS = ["id", "model", "choices", "usage", "error", "object", "x_groq"]
_CHOICE = ["index", "delta", "message", "finish_reason", "usage", "error"]
_DELTA = ["content", "reasoning", "reasoning_details", "tool_calls", "refusal", "function_call"]
_FRAGMENT = ["index", "id", "function", "extra_content"]


def _objects(names: list[str], values: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    return st.dictionaries(st.sampled_from(names), values, max_size=4)


_FRAGMENTS = st.lists(_objects(_FRAGMENT, _JSON | _objects(["name", "arguments"], _JSON)), max_size=2)
_DELTAS = _objects(_DELTA, _JSON | _FRAGMENTS)
_CHUNKS = _objects(_FIELDS, _JSON | st.lists(_objects(_CHOICE, _JSON | _DELTAS), max_size=2))


@given(st.lists(_CHUNKS, max_size=5), st.booleans())
def test_p07_fields_of_any_type_are_no_crash(chunks: list[dict[str, object]], done: bool) -> None:
    _ends_once(decode([stream(*chunks, done=done)]))


def _ends_once(events: list[ModelEvent]) -> None:
    terminal = [event for event in events if isinstance(event, Completed | Failed)]
    assert terminal == [events[-1]]


def test_p09_the_call_is_told_at_its_first_name() -> None:
    chunks = [chunk(call(0, "c1", "", "")), chunk(call(0, None, "get", '{"a"')), chunk(call(0, None, "get", ": 1}"))]
    events = [event for event in decode([stream(*chunks)]) if isinstance(event, ToolCallDelta)]
    assert [(event.call_id, event.tool_name, event.arguments) for event in events] == [
        ("c1", "get", '{"a"'),
        ("c1", "get", ": 1}"),
    ]


def test_p10_made_up_ids_are_never_the_same() -> None:
    body = stream(chunk(call(None, None, "get", "{}")), chunk(finish="stop"))
    messages = [message_of(decode([body])) for _ in range(50)]
    assert len({message.tool_calls[0].call_id for message in messages if message}) == 50


def test_p11_what_is_no_json_keeps_its_words() -> None:
    message = message_of(decode([stream(chunk(call(0, "c1", "get", "{city: x}")), chunk(finish="tool_calls"))]))
    assert message is not None
    (block,) = message.tool_calls
    assert (block.arguments, block.arguments_json, block.truncated) == (None, "{city: x}", False)


def test_p12_a_call_cut_by_the_length_is_marked() -> None:
    message = message_of(decode([stream(chunk(call(0, "c1", "get", '{"a')), chunk(finish="length"))]))
    assert message is not None
    assert message.tool_calls[0].truncated


@pytest.mark.parametrize("cut", range(1, 8))
def test_p16_think_tags_cut_anywhere(cut: int) -> None:
    text = "<think>hm</think>x <thin"
    pieces = [text[at : at + cut] for at in range(0, len(text), cut)]
    events = decode([stream(*(chunk({"content": piece}) for piece in pieces), chunk(finish="stop"))], think_tags=True)
    message = message_of(events)
    assert message is not None
    assert (message.reasoning, message.text) == ("hm", "x <thin")
    check_pieces(events, message)


def test_p16_think_tags_stay_in_the_text_by_default() -> None:
    message = message_of(decode([stream(chunk({"content": "<think>hm</think>x"}), chunk(finish="stop"))]))
    assert message is not None
    assert (message.reasoning, message.text) == ("", "<think>hm</think>x")


def test_blocks_stand_in_the_order_in_which_they_came() -> None:
    chunks = [
        chunk({"reasoning": "a"}),
        chunk({"content": "b"}),
        chunk(call(0, "c1", "get", "{}")),
        chunk({"reasoning": "c"}),
        chunk({"content": "d"}),
        chunk(finish="tool_calls"),
    ]
    message = message_of(decode([stream(*chunks)]))
    assert message is not None
    assert [block.kind for block in message.content] == ["thinking", "text", "tool_call", "thinking", "text"]


def test_details_of_the_answer_are_kept() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "cost": 0.0012}
    last = decode([stream(chunk({"content": "x"}, model="m-2"), chunk(finish="eos", usage=usage))])[-1]
    assert isinstance(last, Completed)
    response = last.response
    assert (response.model, response.response_id, response.finish_reason_raw) == ("m-2", "chatcmpl-1", "eos")
    assert response.cost is not None
    assert str(response.cost.amount) == "0.0012"


def test_extras_of_a_call_are_kept() -> None:
    delta = call(0, "c1", "get", "{}")
    delta["tool_calls"][0]["extra_content"] = {"signature": "s=="}
    message = message_of(decode([stream(chunk(delta), chunk(finish="tool_calls"))]))
    assert message is not None
    assert message.tool_calls[0].extras == {"extra_content": {"signature": "s=="}}
