"""What goes back to the family that said it, byte for byte, and to no other: cases K02 to K06."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from runtree.messages.content import RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolCallBlock
from runtree.messages.transcript import AssistantMessage, Message, UserMessage
from runtree.providers.chat import dialects as known
from runtree.providers.chat.profile import ChatProfile

from .conversation import body, echoed, results_of, turn
from .spoken import REPLAYING, TURNS, Replaying, Segment, calls_of, say, text_between


def _conversation(dialect: Replaying, turns: Sequence[Sequence[Segment]]) -> list[Message]:
    messages: list[Message] = [UserMessage.of("hi")]
    for name, spoken in zip("abc", turns, strict=True):
        said = say(dialect.profile, spoken, name, dialect.model, dialect.speak)
        # Through the journal and back.
        messages += [AssistantMessage.from_json(said.to_json()), results_of(said)]
    return messages


@pytest.mark.parametrize("dialect", REPLAYING, ids=str)
@settings(max_examples=25)
@given(turns=st.lists(TURNS, min_size=3, max_size=3))
def test_k02_k06_three_turns_go_back_as_they_came(dialect: Replaying, turns: list[list[Segment]]) -> None:
    messages = _conversation(dialect, turns)
    sent = echoed(dialect.profile, *messages, model=dialect.model)
    for name, spoken, message in zip("abc", turns, sent, strict=True):
        expected = {"tool_calls": calls_of(spoken, name), **dialect.expect(spoken)}
        text = text_between(spoken)
        content = expected.pop("content", text or message.get("content", "absent"))
        assert message.pop("content", "absent") == content
        assert message == {"role": "assistant", **expected}


@pytest.mark.parametrize("dialect", REPLAYING, ids=str)
@settings(max_examples=5)
@given(turns=st.lists(TURNS, min_size=3, max_size=3))
def test_histories_only_grow(dialect: Replaying, turns: list[list[Segment]]) -> None:
    """What was sent once is sent in the same words with every later request of the turn, as caches and signatures need it."""
    messages = _conversation(dialect, turns)
    whole = body(dialect.profile, *messages, model=dialect.model)["messages"]
    for size in (3, 5):
        before = body(dialect.profile, *messages[:size], model=dialect.model)["messages"]
        assert whole[: len(before)] == before


def _marked(family: str) -> AssistantMessage:
    extras: dict[str, JsonValue] = {"extra_content": {"e": "E#"}, "reasoning_details": [{"text": "R#"}]}
    return AssistantMessage(
        content=(
            ThinkingBlock(text="R#1", signature="S#", extras=extras, provider=family),
            RedactedThinkingBlock(data="R#2", provider=family),
            TextBlock(text="said", extras=extras, provider=family),
            ToolCallBlock(call_id="id:1", tool_name="get", arguments={}, extras=extras, provider=family),
            ToolCallBlock(call_id="id:2", tool_name="get", arguments={}, provider=family),
        )
    )


@pytest.mark.parametrize("profile", known.DIALECTS, ids=lambda profile: profile.provider)
@pytest.mark.parametrize("family", ["openai", "anthropic", "deepseek", "openrouter", "gemini", "mistral"])
def test_k03_k05_what_others_thought_stays_here(profile: ChatProfile, family: str) -> None:
    if family == profile.provider:
        family = "someone else"
    messages = turn(_marked(family))
    sent = body(profile, *messages, model="kimi-k2.5", thinking_from=0)
    text = json.dumps(sent)
    assert not [mark for mark in ("R#", "S#", "E#") if mark in text]
    _, said, *results = sent["messages"]
    assert said["content"] == "said"
    ids = [call["id"] for call in said["tool_calls"]]
    assert [result["tool_call_id"] for result in results] == ids
    assert len(set(ids)) == 2
    assert all(map(profile.call_ids.fits, ids))
    assert messages == turn(_marked(family))


def test_foreign_calls_have_the_dummy_where_a_signature_is_wanted() -> None:
    (sent,) = echoed(known.GEMINI, *turn(_marked("deepseek")))
    dummy = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert [call.get("extra_content") for call in sent["tool_calls"]] == [dummy, None]


def test_mistral_is_sent_ids_of_nine() -> None:
    (sent,) = echoed(known.MISTRAL, *turn(_marked("openai")))
    assert all(len(call["id"]) == 9 and call["id"].isalnum() for call in sent["tool_calls"])


@pytest.mark.parametrize("profile", known.DIALECTS, ids=lambda profile: profile.provider)
def test_k09_nothing_of_what_was_refused_is_sent_again(profile: ChatProfile) -> None:
    """Messages before `thinking_from` go without thinking, signatures and extras, also to the family that made them."""
    family = profile.provider
    messages = [*turn(_marked(family)), *turn(_marked(family))]
    first, *_, second = echoed(profile, *messages, thinking_from=3)
    assert not [mark for mark in ("R#", "S#", "E#") if mark in json.dumps(first)]
    assert "E#" in json.dumps(second)


def test_k04_no_empty_signature_is_sent() -> None:
    block = ThinkingBlock(text="hm", signature="", provider="databricks")
    (sent,) = echoed(known.DATABRICKS, AssistantMessage(content=(block, TextBlock(text="x"))))
    assert "signature" not in json.dumps(sent)


def test_a_switch_in_the_middle_and_back() -> None:
    """Each family finds its own reasoning again, and only that."""
    deepseek, sglang = (
        AssistantMessage(content=(ThinkingBlock(text=f"by {name}", provider=name), ToolCallBlock(call_id=f"{name}-1", tool_name="get", arguments={}, provider=name)))
        for name in ("deepseek", "sglang")
    )  # fmt: skip
    messages = [*turn(deepseek), *turn(sglang), *turn(deepseek)]
    by_deepseek = [message.get("reasoning_content") for message in echoed(known.DEEPSEEK, *messages)]
    by_sglang = [message.get("reasoning_content") for message in echoed(known.SGLANG, *messages)]
    assert by_deepseek == ["by deepseek", "", "by deepseek"]
    assert by_sglang == [None, "by sglang", None]
