"""A conversation as the messages protocol wants it, and what of it goes back to whom: cases K02 to K06, K09, P11."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.messages.content import (
    ContentBlock,
    ImageBlock,
    ProviderDataBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from runtree.messages.model import ModelRequest, ModelSettings
from runtree.messages.transcript import AssistantMessage, Message, ToolMessage, ToolOutcome, ToolResult, UserMessage
from runtree.providers.anthropic.profile import ANTHROPIC, ANTHROPIC_COMPATIBLE, DEEPSEEK, KIMI, ZAI, AnthropicProfile
from runtree.providers.anthropic.request import build_call
from runtree.providers.chat.dialects import DIALECTS
from runtree.providers.profile import ModelProfile
from runtree.providers.responses import profile as responses_profile
from tests.kit.wires.check import response_of

from .answers import SERVER_CALL, SERVER_RESULT, served
from .test_stream import decode

IMAGE = ImageBlock(data="AAAA", media_type="image/jpeg")


def body(messages: tuple[Message, ...], profile: AnthropicProfile = ANTHROPIC, **options: Any) -> dict[str, Any]:
    return build_call(ModelRequest(messages=messages, **options), "claude-sonnet-4-5", profile).body


def sent(*messages: Message, profile: AnthropicProfile = ANTHROPIC) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in body(messages, profile)["messages"]]


def said(*blocks: ContentBlock, finish: Any = "stop") -> AssistantMessage:
    return AssistantMessage(content=blocks, finish_reason=finish)


def called(call_id: str, **fields: Any) -> ToolCallBlock:
    return ToolCallBlock(call_id=call_id, tool_name="f", **{"arguments": {}, "provider": "anthropic", **fields})


def result(call_id: str, *content: ContentBlock, outcome: ToolOutcome = "ok") -> ToolResult:
    return ToolResult(call_id=call_id, tool_name="f", outcome=outcome, content=content)


def plain(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_texts_and_images() -> None:
    blocks = (
        TextBlock(text=""),
        TextBlock(text=" \n"),
        TextBlock(text="see"),
        IMAGE,
        ImageBlock(url="https://x/y.png"),
    )
    sources = [
        {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"},
        {"type": "url", "url": "https://x/y.png"},
    ]
    images = [{"type": "image", "source": source} for source in sources]
    assert sent(UserMessage(content=blocks)) == [("user", [plain("see"), *images])]
    blind = ANTHROPIC.model_copy(update={"images": False})
    assert sent(UserMessage(content=(IMAGE,)), profile=blind)[0][1][0]["type"] == "text"


def test_sides_alternate_and_nothing_is_empty() -> None:
    messages: list[Message] = [
        UserMessage.of("a"),
        UserMessage.of(""),
        said(TextBlock(text="")),
        UserMessage.of("b"),
        said(TextBlock(text="c")),
    ]
    assert sent(*messages, said(TextBlock(text="d")), UserMessage.of("e")) == [
        ("user", [plain("a"), plain("b")]),
        ("assistant", [plain("c"), plain("d")]),
        ("user", [plain("e")]),
    ]


def test_results_come_first_and_in_one_message() -> None:
    results = [ToolMessage(results=(result("a", TextBlock(text="1")),)), ToolMessage(results=(result("b"),))]
    conversation: list[Message] = [
        UserMessage.of("x"),
        said(called("a"), called("b")),
        results[0],
        UserMessage.of("and"),
        results[1],
    ]
    assert sent(*conversation)[2] == (
        "user",
        [
            {"type": "tool_result", "tool_use_id": "a", "content": [plain("1")]},
            {"type": "tool_result", "tool_use_id": "b"},
            plain("and"),
        ],
    )


def test_a_result_without_its_call_is_left_out() -> None:
    assert sent(UserMessage.of("x"), ToolMessage(results=(result("a"),)), UserMessage.of("y")) == [
        ("user", [plain("x"), plain("y")])
    ]


@pytest.mark.parametrize(
    "outcome, content, expected",
    [
        ("error", (TextBlock(text="no"),), [plain("no")]),
        ("timeout", (), [plain("timeout")]),
        ("invalid", (TextBlock(text=""),), [plain("invalid")]),
        ("cancelled", (IMAGE,), [plain("[an image, which can't be shown in a failed result]")]),
    ],
)
def test_failed_results_say_something_in_text(outcome: ToolOutcome, content: Any, expected: Any) -> None:
    ((_, _), (_, _), (_, [block])) = sent(
        UserMessage.of("x"), said(called("a")), ToolMessage(results=(result("a", *content, outcome=outcome),))
    )
    assert block == {"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": expected}


def test_images_in_results() -> None:
    block = sent(UserMessage.of("x"), said(called("a")), ToolMessage(results=(result("a", IMAGE),)))[2][1][0]
    assert block["content"][0]["source"]["media_type"] == "image/jpeg"


def test_p11_arguments_that_are_no_object_are_wrapped() -> None:
    bad = called("a", arguments=None, arguments_json='{"x"')
    assert sent(UserMessage.of("x"), said(bad), ToolMessage(results=(result("a"),)))[1][1] == [
        {"type": "tool_use", "id": "a", "name": "f", "input": {"invalid_json": '{"x"'}}
    ]


def test_ids_of_other_providers_fit_and_stay_apart() -> None:
    """Kimi's ids hold a `.` and a `:` and begin anew with every turn."""
    turn = (said(called("functions.f:0", provider="moonshot")), ToolMessage(results=(result("functions.f:0"),)))
    first, second = sent(UserMessage.of("x"), *turn, *turn)[1:5:2]
    ids = [first[1][0]["id"], second[1][0]["id"]]
    assert len(set(ids)) == 2
    assert all(call_id.isalnum() for call_id in ids)
    assert [block["tool_use_id"] for _, [block] in sent(UserMessage.of("x"), *turn, *turn)[2:5:2]] == ids


THOUGHT = ThinkingBlock(text="Hm", signature="1=", provider="anthropic", extras={"note": 1})
HIDDEN = RedactedThinkingBlock(data="EmwK", provider="anthropic")
KEPT = ProviderDataBlock(provider="anthropic", data={"type": "x", "n": 1.5})
CITED = TextBlock(text="x", extras={"citations": [{"url": "u"}]}, provider="anthropic")
CALL = called("a", extras={"caller": {"type": "direct"}})
OWN = said(THOUGHT, HIDDEN, KEPT, CITED, CALL, finish="tool_calls")
RESULT = ToolMessage(results=(result("a"),))


def test_k02_k06_its_own_is_sent_back_as_it_was() -> None:
    assert sent(UserMessage.of("x"), OWN, RESULT)[1][1] == [
        {"type": "thinking", "thinking": "Hm", "signature": "1=", "note": 1},
        {"type": "redacted_thinking", "data": "EmwK"},
        {"type": "x", "n": 1.5},
        {"type": "text", "text": "x", "citations": [{"url": "u"}]},
        {"type": "tool_use", "id": "a", "name": "f", "input": {}, "caller": {"type": "direct"}},
    ]


def test_k03_k05_what_another_made_is_left_out_whole() -> None:
    assert sent(UserMessage.of("x"), OWN, RESULT, profile=ANTHROPIC_COMPATIBLE)[1][1] == [
        plain("x"),
        {"type": "tool_use", "id": "a", "name": "f", "input": {}},
    ]


def test_k04_thinking_without_a_signature_is_never_sent() -> None:
    for signature in (None, ""):
        unsigned = ThinkingBlock(text="Hm", signature=signature, provider="anthropic")
        assert sent(UserMessage.of("x"), said(unsigned, CALL), RESULT)[1][1][0]["type"] == "tool_use"


def test_a_profile_may_take_unsigned_thinking_back() -> None:
    unsigned = (
        ThinkingBlock(text="Hm", provider=DEEPSEEK.provider),
        ThinkingBlock(text="", provider=DEEPSEEK.provider),
    )
    assert sent(UserMessage.of("x"), said(*unsigned, CALL), RESULT, profile=DEEPSEEK)[1][1][0] == {
        "type": "thinking",
        "thinking": "Hm",
    }


def test_k09_thinking_that_was_refused_is_left_out_whole() -> None:
    first, second = (
        m["content"] for m in body((UserMessage.of("x"), OWN, RESULT, OWN, RESULT), thinking_from=3)["messages"][1::2]
    )
    assert [block["type"] for block in first] == ["x", "text", "tool_use"]
    assert [block["type"] for block in second] == ["thinking", "redacted_thinking", "x", "text", "tool_use"]


@pytest.mark.parametrize(
    "messages, thinks",
    [
        ((UserMessage.of("x"),), True),
        ((UserMessage.of("x"), OWN, RESULT), True),
        ((UserMessage.of("x"), said(CALL), RESULT), False),
        ((UserMessage.of("x"), OWN, RESULT, said(called("b")), ToolMessage(results=(result("b"),))), True),
        ((UserMessage.of("x"), said(CALL), RESULT, UserMessage.of("y")), False),
        ((UserMessage.of("x"), said(CALL), RESULT, UserMessage.of("y"), OWN, RESULT), True),
        ((UserMessage.of("x"), OWN, RESULT, UserMessage.of("y"), said(CALL), RESULT), False),
        ((UserMessage.of("x"), said(CALL), RESULT, said(TextBlock(text="z")), UserMessage.of("y")), True),
    ],
)
def test_k09_a_turn_that_began_without_thinking_goes_on_without(messages: Any, thinks: bool) -> None:
    """With a budget the provider refuses a turn whose first message does not begin with thinking."""
    assert ("thinking" in body(messages, settings=ModelSettings(reasoning_effort="low"))) is thinks


def test_a_paused_message_is_repeated_as_it_is() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "x "},
        SERVER_CALL,
        SERVER_RESULT,
        {"type": "text", "text": "y "},
    ]
    message = response_of(decode([served(blocks, "pause_turn")])).message
    assert sent(UserMessage.of("x"), message) == [("user", [plain("x")]), ("assistant", blocks)]


def test_the_last_message_of_the_assistant_ends_in_words() -> None:
    assert sent(UserMessage.of("x"), said(TextBlock(text="y "), TextBlock(text=" \n"), THOUGHT))[1][1] == [plain("y")]
    assert len(sent(UserMessage.of("x"), said(THOUGHT))) == 1
    assert sent(UserMessage.of("x"), said(TextBlock(text="y ")), UserMessage.of("z"))[1][1] == [plain("y ")]


def test_what_a_model_said_before_another_took_over_is_void() -> None:
    switch = ProviderDataBlock(provider="anthropic", data={"type": "fallback", "from": "a", "to": "b"})
    message = said(THOUGHT, TextBlock(text="x"), called("void"), switch, THOUGHT, CALL)
    results = ToolMessage(results=(result("void"), result("a")))
    _, (_, blocks), (_, answers) = sent(UserMessage.of("x"), message, results)
    assert [block["type"] for block in blocks] == ["text", "fallback", "thinking", "tool_use"]
    assert [block["tool_use_id"] for block in answers] == ["a"]


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9)
_ARGUMENTS = st.dictionaries(_TEXT, st.integers() | st.booleans() | st.none() | _TEXT, max_size=2)
_BLOCK = st.one_of(
    st.builds(
        lambda text, signature: {"type": "thinking", "thinking": text, "signature": signature},
        st.just("") | _TEXT,
        _TEXT,
    ),
    st.builds(lambda data: {"type": "redacted_thinking", "data": data}, _TEXT),
    st.builds(lambda text: {"type": "text", "text": text}, _TEXT),
    st.builds(lambda data: {"type": "new_kind", "data": data, "n": [1, 2.5, None]}, _TEXT),
    st.builds(
        lambda name, value: {"type": "tool_use", "name": name, "input": value}, st.sampled_from(["f", "g"]), _ARGUMENTS
    ),
)
_TURN = st.lists(_BLOCK, min_size=1, max_size=5).filter(lambda turn: any(block["type"] == "tool_use" for block in turn))


@given(st.tuples(_TURN, _TURN, _TURN), st.integers(0, 2**32), st.integers(1, 9))
def test_k02_three_turns_come_back_byte_for_byte(turns: Any, seed: int, piece: int) -> None:
    """Any signatures, any order, streamed in any cut."""
    dice = random.Random(seed)
    messages: list[Message] = [UserMessage.of("go")]
    expected = []
    for number, turn in enumerate(turns):
        blocks = [
            {**block, "id": f"toolu_{number}_{at}"} if block["type"] == "tool_use" else block
            for at, block in enumerate(turn)
        ]
        expected.append(blocks)
        stream = served(blocks, "tool_use", piece=piece)
        ends = sorted(dice.sample(range(len(stream)), 8))
        reads = [stream[begin:end] for begin, end in zip([0, *ends], [*ends, len(stream)], strict=True)]
        message = response_of(decode(reads)).message
        messages.append(AssistantMessage.from_json(message.to_json()))
        messages.append(ToolMessage(results=tuple(result(call.call_id) for call in message.tool_calls)))
        assert [blocks for role, blocks in sent(*messages) if role == "assistant"] == expected


def test_k05_what_other_protocols_of_a_vendor_keep_with_a_block_does_not_come_here() -> None:
    """Their extras would be refused as unknown fields: no profile of this protocol shares its family with one of another."""
    ours = {profile.provider for profile in (ANTHROPIC, ANTHROPIC_COMPATIBLE, DEEPSEEK, KIMI, ZAI)}
    assert len(ours) == 5
    theirs = {
        each.provider for each in (*DIALECTS, *vars(responses_profile).values()) if isinstance(each, ModelProfile)
    }
    assert len(theirs) > 20
    assert not ours & theirs
