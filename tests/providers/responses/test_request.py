"""What is sent: the body of a responses call, and what of a history goes back to whom (T2, T3, K02 to K06)."""

from collections.abc import Sequence
from typing import Any

import pytest

from runtree.messages.content import (
    ContentBlock,
    ImageBlock,
    ProviderDataBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from runtree.messages.errors import ConfigurationError
from runtree.messages.model import ModelRequest, ModelSettings, OutputSchema, ToolDefinition
from runtree.messages.transcript import AssistantMessage, ToolMessage, ToolResult, UserMessage
from runtree.providers.responses.profile import (
    AZURE,
    CODEX,
    DEEPSEEK,
    GENERIC,
    OPENAI,
    PROFILES,
    XAI,
    ResponsesProfile,
    at,
)
from runtree.providers.responses.request import build_body

from .answers import Event, answer, call, message, reasoning, refusal, search, stream, text, thought
from .reading import completed, decode, replayed, results, sent

HI = UserMessage.of("hi")
TOOL = ToolDefinition(name="get", description="Gets.", parameters={"type": "object"})
PIXEL = ImageBlock(data="AAAA")


def body_of(profile: ResponsesProfile = OPENAI, model: str = "gpt-5", **request: Any) -> dict[str, Any]:
    return build_body(ModelRequest(**{"messages": (HI,), **request}), model, profile)


def said_by(*items: Event, profile: ResponsesProfile = OPENAI) -> AssistantMessage:
    return completed(decode([stream(*answer(*items))], profile))


def with_content(message: AssistantMessage, content: Sequence[ContentBlock]) -> AssistantMessage:
    return message.model_copy(update={"content": tuple(content)})


def idless(*items: Event) -> list[Event]:
    return [{name: value for name, value in item.items() if name not in ("id", "status")} for item in items]


def test_the_least_that_is_sent() -> None:
    assert body_of(model="gpt-4o") == {
        "model": "gpt-4o",
        "input": [{"role": "user", "content": "hi"}],
        "store": False,
        "stream": True,
    }


def test_everything_that_is_sent() -> None:
    settings = ModelSettings(
        max_output_tokens=9, reasoning_effort="low", parallel_tool_calls=False, extra_body={"service_tier": "flex"}
    )
    schema = OutputSchema(name="shape", parameters={"type": "object"})
    request = ModelRequest(
        messages=(HI,),
        instructions="Be brief.",
        tools=(TOOL,),
        tool_choice="required",
        output_schema=schema,
        settings=settings,
    )
    asked = settings.model_copy(update={"reasoning_summary": "detailed"})
    body = build_body(request.model_copy(update={"settings": asked}), "gpt-5", OPENAI, summary="auto")
    assert body["reasoning"]["summary"] == "detailed"
    assert build_body(request, "gpt-5", OPENAI, summary="auto") == {
        "model": "gpt-5",
        "input": [{"role": "user", "content": "hi"}],
        "instructions": "Be brief.",
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "tools": [
            {
                "type": "function",
                "name": "get",
                "description": "Gets.",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "text": {"format": {"type": "json_schema", "name": "shape", "schema": {"type": "object"}, "strict": False}},
        "max_output_tokens": 9,
        "service_tier": "flex",
    }


@pytest.mark.parametrize(
    "profile, model, effort, sampling",
    [
        (OPENAI, "gpt-4.1-mini", None, True),
        (OPENAI, "gpt-5-chat-latest", None, True),
        (OPENAI, "gpt-5-mini", None, False),
        (OPENAI, "gpt-5.1", "none", True),
        (OPENAI, "o4-mini", None, False),
        (OPENAI, "a-name-to-come", None, False),
        (GENERIC, "some-model", None, True),
        (GENERIC, "some-model", "low", False),
        (GENERIC, "openai/gpt-5-mini", None, False),
        (XAI, "grok-4.3", None, True),
        (CODEX, "gpt-4o", None, False),
    ],
)
def test_sampling_is_left_out_where_it_is_refused(
    profile: ResponsesProfile, model: str, effort: str | None, sampling: bool
) -> None:
    body = body_of(profile, model, settings=ModelSettings(temperature=0.1, top_p=0.5, reasoning_effort=effort))
    assert ("temperature" in body, "top_p" in body) == (sampling, sampling)


@pytest.mark.parametrize(
    "profile, model, included",
    [
        (OPENAI, "gpt-5", True),
        (OPENAI, "gpt-4o", False),
        (AZURE, "my-deployment", False),
        (AZURE, "o3-mini", True),
        (XAI, "grok-4", True),
        (XAI, "grok-4-fast-non-reasoning", False),
        (DEEPSEEK, "deepseek-v4-flash", False),
        (GENERIC, "some-model", False),
        (GENERIC, "openai/o3", True),
    ],
)
def test_encrypted_reasoning_is_asked_of_models_that_reason(
    profile: ResponsesProfile, model: str, included: bool
) -> None:
    assert ("include" in body_of(profile, model)) is included


def test_what_a_backend_insists_on_and_refuses() -> None:
    body = body_of(CODEX, settings=ModelSettings(max_output_tokens=5))
    assert body["instructions"]
    assert "max_output_tokens" not in body
    assert body_of(CODEX, instructions="Mine.")["instructions"] == "Mine."


@pytest.mark.parametrize("messages", [(), (UserMessage(content=()),), (UserMessage.of(""),)])
def test_nothing_to_send_is_refused(messages: tuple[UserMessage, ...]) -> None:
    with pytest.raises(ConfigurationError, match="nothing to send"):
        body_of(messages=messages)


def test_profiles_are_found_by_their_address() -> None:
    assert at("https://api.openai.com/v1/") is OPENAI
    assert at("https://api.x.ai/v1") is XAI
    assert at("http://localhost:8000/v1") is GENERIC
    assert len({profile.provider for profile in PROFILES}) == len(PROFILES)


def test_images_are_shown_to_those_who_can_see() -> None:
    said = UserMessage(content=(TextBlock(text="see"), PIXEL, ImageBlock(url="https://x.example/y.png")))
    parts = [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
        {"type": "input_image", "image_url": "https://x.example/y.png", "detail": "auto"},
    ]
    assert sent(said) == [{"role": "user", "content": parts}]
    blind = sent(said, profile=OPENAI.model_copy(update={"images": False}))
    assert blind[0]["content"].startswith("see[an image")


def test_images_in_the_result_of_a_tool() -> None:
    asked = said_by(call())
    result = ToolResult(call_id="call_1", tool_name="get", outcome="ok", content=(TextBlock(text="a"), PIXEL))
    answered = ToolMessage(results=(result,))
    output = sent(HI, asked, answered)[-1]
    assert output["output"][1] == {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}
    blind = sent(HI, asked, answered, profile=OPENAI.model_copy(update={"image_results": False}))[-1]
    assert blind == {
        "type": "function_call_output",
        "call_id": "call_1",
        "output": "a[an image, which this model can't be shown]",
    }


ITEMS = [
    reasoning("a", "b", number=1),
    search(),
    reasoning(number=2, status="completed"),
    message("x", text("y", annotations=[{"type": "url_citation", "url": "u"}]), refusal("z"), phase="commentary"),
    message(number=2),
    call('{"a" :  1}', namespace="n"),
    call("", call_id="call_2", number=2),
    call("{no json", call_id="call_3", number=3),
    {
        "type": "custom_tool_call",
        "id": "ct_1",
        "call_id": "call_4",
        "name": "sql",
        "input": 'say "é"',
        "status": "completed",
    },
]


def test_k02_k06_what_this_provider_made_goes_back_as_it_was_served() -> None:
    said = said_by(*ITEMS)
    assert replayed(said) == ITEMS
    assert replayed(AssistantMessage.from_json(said.to_json())) == ITEMS


def test_results_name_their_calls() -> None:
    said = said_by(*ITEMS)
    outputs = sent(HI, said, results(said))[-4:]
    assert [output["call_id"] for output in outputs] == ["call_1", "call_2", "call_3", "call_4"]
    assert [output["type"] for output in outputs] == [*["function_call_output"] * 3, "custom_tool_call_output"]


def test_k05_another_provider_gets_the_words_and_the_calls() -> None:
    items = sent(HI, said_by(*ITEMS), profile=AZURE)
    assert items[1:] == [
        {"role": "assistant", "content": "x"},
        {"role": "assistant", "content": "y"},
        {"role": "assistant", "content": "z"},
        {"type": "function_call", "call_id": "call_1", "name": "get", "arguments": '{"a" :  1}'},
        {"type": "function_call", "call_id": "call_2", "name": "get", "arguments": "{}"},
        {"type": "function_call", "call_id": "call_3", "name": "get", "arguments": '{"invalid_json":"{no json"}'},
        {"type": "function_call", "call_id": "call_4", "name": "sql", "arguments": '{"input":"say \\"é\\""}'},
    ]


def test_k05_what_others_made_is_left_out_or_put_into_plain_words() -> None:
    said = AssistantMessage(
        content=(
            ThinkingBlock(text="hm", signature="s", provider="anthropic"),
            ProviderDataBlock(provider="anthropic", data={"type": "server_tool_use"}),
            TextBlock(text="x", extras={"citations": []}, provider="anthropic"),
            ToolCallBlock(call_id="functions.get:0", tool_name="get", arguments={}, provider="moonshot"),
            ToolCallBlock(call_id="c" * 65, tool_name="get", arguments={}, extras={"item": 1}, provider="openai"),
        )
    )
    words, first, second, *outputs = sent(HI, said, results(said))[1:]
    assert words == {"role": "assistant", "content": "x"}
    assert [each["call_id"] for each in outputs] == [first["call_id"], second["call_id"]]
    for each in (first, second):
        assert set(each) == {"type", "call_id", "name", "arguments"}
        assert 0 < len(each["call_id"]) <= 64
        assert ":" not in each["call_id"]


def test_k03_a_model_that_does_not_reason_is_sent_no_reasoning() -> None:
    said = said_by(reasoning("hm"), message("x"), search(), call())
    assert sent(HI, said, model="gpt-4o")[1:] == idless(message("x"), call())
    assert sent(HI, said)[1:] == [reasoning("hm"), message("x"), search(), call()]


def test_k04_k09_a_refused_history_goes_without_reasoning_and_without_the_ids_bound_to_it() -> None:
    said = said_by(reasoning("hm"), search(), call())
    later = said_by(reasoning("so", number=2), call(call_id="call_2", number=2))
    history = (HI, said, results(said), later)
    assert sent(*history, thinking_from=3)[1:] == [
        *idless(call()),
        {"type": "function_call_output", "call_id": "call_1", "output": ""},
        reasoning("so", number=2),
        call(call_id="call_2", number=2),
    ]


def test_k04_ids_go_only_with_the_reasoning_they_were_made_with() -> None:
    """Somebody has left thinking out of the message itself."""
    said = said_by(reasoning("hm"), search(), message("x"), call())
    bare = with_content(said, [block for block in said.content if not isinstance(block, ThinkingBlock)])
    assert replayed(bare) == idless(message("x"), call())


def test_k04_reasoning_goes_only_with_what_it_led_to() -> None:
    cut = said_by(message("x"), reasoning("hm"))
    assert replayed(cut) == [message("x")]
    edited = with_content(cut, [*cut.content, TextBlock(text="and so on")])
    assert replayed(edited) == [message("x"), {"role": "assistant", "content": "and so on"}]


def test_reasoning_that_is_only_kept_by_the_provider_is_not_sent_unless_it_keeps_it() -> None:
    items = [reasoning(encrypted=None), message("x"), reasoning("b", number=2), call()]
    said = said_by(*items)
    assert replayed(said) == [*idless(message("x")), reasoning("b", number=2), call()]
    assert replayed(said, store=True) == items


def test_reasoning_in_plain_text_goes_back_where_it_is_taken() -> None:
    items = [thought("hm"), call()]
    assert replayed(said_by(*items, profile=DEEPSEEK), profile=DEEPSEEK, model="deepseek-v4-flash") == items
    assert replayed(said_by(*items)) == idless(call())


def test_t3_the_transcript_is_untouched() -> None:
    said = said_by(*ITEMS)
    before = said.to_json()
    for profile in (OPENAI, AZURE):
        replayed(said, profile=profile)
    assert said.to_json() == before


def test_k01_old_messages_have_no_extras() -> None:
    old = AssistantMessage.from_json(
        '{"kind": "assistant", "content": [{"kind": "text", "text": "x"}, {"kind": "thinking", "text": "hm"}]}'
    )
    assert sent(HI, old)[1:] == [{"role": "assistant", "content": "x"}]
    assert "signature" not in old.to_json()


def test_extra_fields_are_merged_as_they_are() -> None:
    body = body_of(settings=ModelSettings(extra_body={"store": True, "input": "mine", "include": []}))
    assert (body["store"], body["input"], body["include"]) == (True, "mine", [])
