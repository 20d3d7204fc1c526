"""What a request becomes on the wire of the chat completions protocol: cases K03, K05, K06 among others."""

from typing import Any

from runtree.messages.content import ImageBlock, RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolCallBlock
from runtree.messages.model import ModelRequest, ModelSettings, OutputSchema, ToolDefinition
from runtree.messages.transcript import AssistantMessage, Message, ToolMessage, ToolResult, UserMessage
from runtree.providers.chat.dialects import GENERIC, LLAMA_CPP, MISTRAL, OPENAI
from runtree.providers.chat.profile import ChatProfile
from runtree.providers.chat.request import build_body

TOOL = ToolDefinition(name="get", description="Gets.", parameters={"type": "object", "properties": {}})


def body(profile: ChatProfile = GENERIC, *messages: Message, **fields: Any) -> dict[str, Any]:
    return build_body(ModelRequest(messages=messages or (UserMessage.of("hi"),), **fields), "m-1", profile)


def test_settings_under_the_names_of_the_profile() -> None:
    settings = ModelSettings(
        max_output_tokens=5, temperature=0.0, stop=("x",), seed=1, reasoning_effort="low", stream=False
    )
    common = {"temperature": 0.0, "stop": ["x"], "seed": 1, "reasoning_effort": "low", "model": "m-2"}
    for profile, name in ((OPENAI, "max_completion_tokens"), (GENERIC, "max_tokens")):
        sent = body(profile, settings=settings, model="m-2")
        assert sent == {"messages": [{"role": "user", "content": "hi"}], name: 5, **common}


def test_extra_fields_come_last() -> None:
    assert body(settings=ModelSettings(extra_body={"stream_options": None, "x": 1}))["stream_options"] is None


def test_instructions_in_the_role_of_the_profile() -> None:
    assert body(OPENAI, instructions="be")["messages"][0] == {"role": "developer", "content": "be"}
    assert body(GENERIC, instructions="be")["messages"][0] == {"role": "system", "content": "be"}


def test_tools() -> None:
    settings = ModelSettings(parallel_tool_calls=False)
    sent = body(tools=(TOOL,), tool_choice="required", settings=settings)
    function = {"name": "get", "description": "Gets.", "parameters": {"type": "object", "properties": {}}}
    assert sent["tools"] == [{"type": "function", "function": function}]
    assert (sent["tool_choice"], sent["parallel_tool_calls"]) == ("required", False)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body(tool_choice="none", settings=settings))


def test_output_schema_only_where_it_is_native() -> None:
    schema = OutputSchema(name="answer", parameters={"type": "object"})
    assert body(OPENAI, output_schema=schema)["response_format"]["json_schema"]["name"] == "answer"
    assert "response_format" not in body(GENERIC, output_schema=schema)


def test_a_turn_with_tools() -> None:
    calls = (
        ToolCallBlock(call_id="c1", tool_name="get", arguments_json='{"a": 1}', arguments={"a": 1}),
        ToolCallBlock(call_id="c2", tool_name="get", arguments_json="{oops", arguments=None),
    )
    image = ToolResult(
        call_id="c2", tool_name="get", outcome="ok", content=(TextBlock(text="b"), ImageBlock(data="AA"))
    )
    results = (ToolResult(call_id="c1", tool_name="get", outcome="ok", content=(TextBlock(text="a"),)), image)
    sent = body(GENERIC, AssistantMessage(content=calls), ToolMessage(results=results))["messages"]
    assert sent[0]["content"] is None
    assert [call["function"]["arguments"] for call in sent[0]["tool_calls"]] == ['{"a": 1}', '{"invalid_json":"{oops"}']
    assert sent[1] == {"role": "tool", "tool_call_id": "c1", "content": "a"}
    assert sent[2]["tool_call_id"] == "c2"
    assert sent[2]["content"].startswith("b[an image")


def test_k03_k05_reasoning_goes_back_only_where_it_came_from() -> None:
    said = AssistantMessage(
        content=(
            ThinkingBlock(text="own", provider="llama.cpp"),
            ThinkingBlock(text="foreign", provider="other"),
            RedactedThinkingBlock(data="xx", provider="other"),
            TextBlock(text="a"),
        )
    )
    assert body(LLAMA_CPP, said)["messages"] == [{"role": "assistant", "content": "a", "reasoning_content": "own"}]
    assert body(GENERIC, said)["messages"] == [{"role": "assistant", "content": "a"}]


def test_k06_extras_of_a_call_go_back_only_where_they_came_from() -> None:
    call = ToolCallBlock(
        call_id="c1", tool_name="get", arguments={}, extras={"extra_content": {"s": 1}}, provider="llama.cpp"
    )
    said = AssistantMessage(content=(call,))
    assert body(LLAMA_CPP, said)["messages"][0]["tool_calls"][0]["extra_content"] == {"s": 1}
    assert "extra_content" not in body(GENERIC, said)["messages"][0]["tool_calls"][0]


def test_k06_extras_of_another_protocol_of_the_same_family_stay_here() -> None:
    """OpenAI speaks two protocols: a conversation may begin with one and go on with the other."""
    extras: dict[str, Any] = {"item": {"type": "message", "id": "msg_1"}, "after": 1}
    call = ToolCallBlock(call_id="c1", tool_name="get", arguments={}, extras=extras, provider="openai")
    said = AssistantMessage(content=(TextBlock(text="a", extras=extras, provider="openai"), call))
    sent = body(OPENAI, said)["messages"][0]
    assert set(sent) == {"role", "content", "tool_calls"}
    assert set(sent["tool_calls"][0]) == {"id", "type", "function"}


def test_an_answer_without_words_is_still_a_message() -> None:
    assert body(GENERIC, AssistantMessage(content=()))["messages"] == [{"role": "assistant", "content": ""}]


def test_who_may_speak_after_the_results_of_tools() -> None:
    """Mistral takes only the assistant there; the user goes on with a history whose calls were cancelled."""
    call = ToolCallBlock(call_id="abcdefghi", tool_name="get", arguments={})
    result = ToolResult(call_id="abcdefghi", tool_name="get", outcome="cancelled")
    messages = (
        UserMessage.of("hi"),
        AssistantMessage(content=(call,)),
        ToolMessage(results=(result,)),
        UserMessage.of("go on"),
    )
    for profile, roles in (
        (MISTRAL, ["user", "assistant", "tool", "assistant", "user"]),
        (OPENAI, ["user", "assistant", "tool", "user"]),
    ):
        sent = build_body(ModelRequest(messages=messages), "m-1", profile)["messages"]
        assert [message["role"] for message in sent] == roles
        assert all(message.get("content") or message.get("tool_calls") or message["role"] == "tool" for message in sent)
