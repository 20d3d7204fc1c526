"""Every dialect by one table: reasoning in, reasoning back, fields of the request, usage. Cases P15, K02, K03, K06, U02."""

from typing import Any

import pytest

from runtree.messages.content import ImageBlock, TextBlock, ThinkingBlock, ToolCallBlock
from runtree.messages.model import Completed, ModelSettings
from runtree.messages.transcript import AssistantMessage, ToolMessage, ToolResult, UserMessage
from runtree.providers.chat import dialects as known
from runtree.providers.chat.profile import ChatProfile

from ..answers import chunk, stream
from .conversation import TOOL, answer_of, body, decode, echoed, results_of, turn
from .rows import PLAIN, ROWS, Row, call_of

_SETTINGS = ModelSettings(
    temperature=PLAIN["temperature"],
    top_p=PLAIN["top_p"],
    stop=tuple(PLAIN["stop"]),
    seed=PLAIN["seed"],
    parallel_tool_calls=PLAIN["parallel_tool_calls"],
    max_output_tokens=5,
    reasoning_effort="high",
)


def test_every_dialect_has_a_row() -> None:
    assert {row.profile.provider for row in ROWS} == {profile.provider for profile in known.DIALECTS}


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_p15_k02_reasoning_comes_in_and_goes_back(row: Row) -> None:
    said = answer_of(row.profile, *row.deltas, {"content": "x"}, call_of(row), finish="tool_calls", model=row.model)
    assert (said.reasoning, said.text) == ("hm" if row.deltas else "", "x")
    (sent,) = echoed(row.profile, *turn(said), model=row.model)
    function = {"name": "get", "arguments": "{}"}
    calls = [{"id": row.call_id, "type": "function", "function": function}]
    assert sent == {"role": "assistant", "content": "x", "tool_calls": calls, **row.echo}


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_fields_of_the_request(row: Row) -> None:
    sent = body(row.profile, model=row.model, settings=_SETTINGS, tools=(TOOL,), tool_choice="required")
    rest = {name: value for name, value in sent.items() if name not in ("messages", "tools", "model", "stream")}
    assert rest == row.expected
    assert (sent["model"], sent["stream"], len(sent["tools"])) == (row.model, True, 1)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_bare_request_says_nothing_that_was_not_asked_for(row: Row) -> None:
    sent = body(row.profile, model=row.model, settings=ModelSettings(stream=False))
    assert set(sent) - {"reasoning_format"} == {"model", "messages"}


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_u02_usage_counts_reasoning_once(row: Row) -> None:
    def count(total: int) -> tuple[int | None, int | None]:
        details = {"completion_tokens_details": {"reasoning_tokens": 3}}
        usage = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": total, **details}
        last = decode([stream(chunk({"content": "x"}, "stop", usage=usage))], row.profile, row.model)[-1]
        assert isinstance(last, Completed)
        assert last.response.usage.input_tokens == 10
        return last.response.usage.output_tokens, last.response.usage.reasoning_tokens

    assert count(14) == row.usage
    assert count(17) == row.beside


def _output(profile: ChatProfile, **usage: Any) -> tuple[int | None, int | None]:
    raw = {"prompt_tokens": 10, "completion_tokens": 4, **usage}
    last = decode([stream(chunk({"content": "x"}, "stop", usage=raw))], profile)[-1]
    assert isinstance(last, Completed)
    return last.response.usage.output_tokens, last.response.usage.reasoning_tokens


def test_u02_what_the_total_has_more_is_reasoning_only_where_the_profile_says_so() -> None:
    assert _output(known.GEMINI, total_tokens=20) == (10, 6)
    assert _output(known.GENERIC, total_tokens=20) == (4, None)


def test_u02_reasoning_beside_the_completion_without_a_total() -> None:
    details = {"reasoning_tokens": 3}
    assert _output(known.XAI, completion_tokens_details=details) == (7, 3)
    assert _output(known.GENERIC, completion_tokens_details=details) == (4, 3)


def test_u02_more_reasoning_than_completion_is_told_as_it_came() -> None:
    details = {"reasoning_tokens": 49}
    assert _output(known.VERCEL, total_tokens=14, completion_tokens_details=details) == (4, 49)


@pytest.mark.parametrize(
    "profile, model, settings, expected",
    [
        (known.DEEPSEEK, "m", {"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}),
        (known.DEEPSEEK, "m", {"reasoning_effort": "minimal"}, {"reasoning_effort": "low", "thinking": {"type": "enabled"}}),
        (known.QWEN, "m", {"reasoning_effort": "none"}, {"enable_thinking": False}),
        (known.QWEN, "m", {"reasoning_budget": 9}, {"enable_thinking": True, "thinking_budget": 9}),
        (known.QWEN, "qwen3-8b", {"reasoning_effort": "high", "stream": False}, {"enable_thinking": False}),
        (known.OPENROUTER, "m", {"reasoning_budget": 9, "reasoning_effort": "low"}, {"reasoning": {"max_tokens": 9}}),
        (known.MOONSHOT, "kimi-k2.5", {"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}),
        (known.OPENAI, "gpt-5.2", {"reasoning_effort": "none", "temperature": 1.0}, {"reasoning_effort": "none", "temperature": 1.0}),
        (known.GEMINI, "m", {"reasoning_budget": 9}, {"extra_body": {"google": {"thinking_config": {"thinking_budget": 9}}}}),
        (known.GENERIC, "m", {"reasoning_budget": 9}, {}),
        (known.DEEPSEEK, "m", {"extra_body": {"thinking": None}}, {"thinking": None}),
    ],
)  # fmt: skip
def test_effort_in_the_words_of_the_server(
    profile: ChatProfile, model: str, settings: dict[str, Any], expected: dict[str, Any]
) -> None:
    sent = body(profile, model=model, settings=ModelSettings(**{"stream": False, **settings}))
    assert {name: value for name, value in sent.items() if name not in ("model", "messages")} == expected


def test_a_choice_that_cant_be_asked_for() -> None:
    sent = body(known.ZAI, tools=(TOOL,), tool_choice="none")
    assert not {"tools", "tool_choice"} & set(sent)
    assert "tool_choice" not in body(known.ZAI, tools=(TOOL,), tool_choice="required")
    thoughtless = ModelSettings(reasoning_effort="none")
    sent = body(known.DEEPSEEK, tools=(TOOL,), tool_choice="required", settings=thoughtless)
    assert sent["tool_choice"] == "required"


def _shown(profile: ChatProfile) -> list[dict[str, Any]]:
    calls = (
        ToolCallBlock(call_id="c1", tool_name="look", arguments={}),
        ToolCallBlock(call_id="c2", tool_name="get", arguments={}),
    )
    image = ToolResult(
        call_id="c1", tool_name="look", outcome="ok", content=(TextBlock(text="seen "), ImageBlock(data="AA"))
    )
    other = ToolResult(call_id="c2", tool_name="get", outcome="ok", content=(TextBlock(text="1"),))
    sent: list[dict[str, Any]] = body(profile, AssistantMessage(content=calls), ToolMessage(results=(image, other)))[
        "messages"
    ]
    return sent[1:]  # fmt: skip


def test_images_of_results_follow_all_results() -> None:
    first, second, third = _shown(known.GENERIC)
    assert first["content"] == "seen [an image, which is shown in the next message]"
    assert (second["role"], second["content"]) == ("tool", "1")
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    assert third == {"role": "user", "content": [{"type": "text", "text": "From the result of look:"}, url]}


@pytest.mark.parametrize("profile", [known.DEEPSEEK, known.MISTRAL], ids=lambda profile: profile.provider)
def test_images_of_results_where_they_cant_be_shown(profile: ChatProfile) -> None:
    first, second = _shown(profile)
    assert first["content"] == "seen [an image, which this model can't be shown]"
    assert second["role"] == "tool"


def test_images_of_the_user_where_they_cant_be_shown() -> None:
    message = UserMessage(content=(TextBlock(text="what? "), ImageBlock(data="AA")))
    assert body(known.DEEPSEEK, message)["messages"][0]["content"].startswith("what? [an image")
    assert len(body(known.MISTRAL, message)["messages"][0]["content"]) == 2


@pytest.mark.parametrize(
    "profile, content", [(known.GENERIC, None), (known.OLLAMA, ""), (known.MOONSHOT, "no such key")]
)
def test_content_of_a_message_that_only_calls(profile: ChatProfile, content: str | None) -> None:
    said = AssistantMessage(content=(ToolCallBlock(call_id="c1", tool_name="get", arguments={}),))
    (sent,) = echoed(profile, *turn(said))
    assert sent.get("content", "no such key") == content


def test_k08_an_answer_of_reasoning_only() -> None:
    said = answer_of(known.MOONSHOT, {"reasoning_content": "hm"})
    assert (said.reasoning, said.text) == ("hm", "")
    assert echoed(known.MOONSHOT, UserMessage.of("hi"), said) == []
    thought = AssistantMessage(content=(ThinkingBlock(text="hm", provider="sglang"),))
    assert echoed(known.SGLANG, thought) == [{"role": "assistant", "content": "", "reasoning_content": "hm"}]


def test_what_is_wanted_with_turns_of_tools_only() -> None:
    plain = answer_of(known.DEEPSEEK, {"reasoning_content": "a"}, {"content": "x"})
    calling = answer_of(known.DEEPSEEK, {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "get"}}]})
    last = answer_of(known.DEEPSEEK, {"reasoning_content": "c"}, {"content": "z"})
    sent = echoed(known.DEEPSEEK, *turn(plain), *turn(calling), last, UserMessage.of("more"))
    assert [message.get("reasoning_content") for message in sent] == [None, "", "c"]
    since = known.SGLANG.model_copy(update={"provider": "deepseek", "replay_turns": "since_user"})
    assert [message.get("reasoning_content") for message in echoed(since, *turn(plain), *turn(calling), last)] == [None, None, "c"]  # fmt: skip


def test_kimi_ids_come_again_in_each_turn() -> None:
    """Ids that count within a turn are repeated as they came, in the call and in its result."""
    said = answer_of(
        known.MOONSHOT, {"tool_calls": [{"index": 0, "id": "functions.get:0", "function": {"name": "get"}}]}
    )
    sent = body(known.MOONSHOT, *turn(said), *turn(said))["messages"]
    assert [message["tool_calls"][0]["id"] for message in sent if "tool_calls" in message] == ["functions.get:0"] * 2
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ["functions.get:0"] * 2
    elsewhere = body(known.OPENAI, *turn(said), *turn(said))["messages"]
    ids = [message["tool_calls"][0]["id"] for message in elsewhere if "tool_calls" in message]
    assert len(set(ids)) == 2
    assert [message["tool_call_id"] for message in elsewhere if message["role"] == "tool"] == ids
    assert results_of(said).results[0].call_id == "functions.get:0"
