"""What a call of the messages protocol is made of: size, sampling, tools, thinking and answers of a shape."""

from typing import Any

import pytest

from runtree.messages.model import ModelRequest, ModelSettings, OutputSchema, ToolDefinition
from runtree.messages.transcript import UserMessage
from runtree.providers.anthropic.profile import ANTHROPIC, ANTHROPIC_COMPATIBLE, INTERLEAVED_BETA, AnthropicProfile
from runtree.providers.anthropic.request import Call, build_call

HI = (UserMessage.of("hi"),)
TOOL = ToolDefinition(name="now", description="The time.", parameters={"properties": {"zone": {"type": "string"}}})
OLD, MIDDLE, NEW, ALWAYS = "claude-sonnet-4-5-20250929", "claude-opus-4-6", "claude-sonnet-5", "claude-fable-5"


def built(model: str = "m-1", profile: AnthropicProfile = ANTHROPIC, *, request: Any = None, **settings: Any) -> Call:
    fields = {"messages": HI, **(request or {})}
    return build_call(ModelRequest(**fields, settings=ModelSettings(**settings)), model, profile)


def body(model: str = "m-1", **options: Any) -> dict[str, Any]:
    return built(model, **options).body


def test_the_least_that_is_sent() -> None:
    said = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert built() == Call({"model": "m-1", "max_tokens": 16_000, "messages": said, "stream": True})
    assert "stream" not in body(stream=False)
    assert [body(OLD, stream=streamed)["max_tokens"] for streamed in (True, False)] == [32_000, 21_333]
    assert body(request={"model": "m-2"})["model"] == "m-2"


def test_everything_that_can_be_asked_for() -> None:
    request = {"instructions": "Be brief.", "tools": (TOOL,), "tool_choice": "required"}
    sent = body(
        request=request,
        max_output_tokens=50,
        temperature=0.5,
        top_p=0.9,
        stop=("END", " "),
        seed=3,
        parallel_tool_calls=False,
        extra_body={"top_k": 5, "metadata": {"user_id": "u"}},
    )
    schema = {"properties": {"zone": {"type": "string"}}, "type": "object"}
    assert sent["tools"] == [{"name": "now", "description": "The time.", "input_schema": schema}]
    assert sent["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert (sent["system"], sent["max_tokens"], sent["stop_sequences"]) == ("Be brief.", 50, ["END"])
    assert (sent["temperature"], sent["top_p"], sent["top_k"], sent["metadata"]) == (0.5, 0.9, 5, {"user_id": "u"})
    assert "seed" not in sent


@pytest.mark.parametrize(
    "choice, parallel, expected",
    [
        ("auto", None, None),
        ("auto", True, None),
        ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
        ("required", None, {"type": "any"}),
    ],
)
def test_tool_choice(choice: str, parallel: bool | None, expected: Any) -> None:
    request = {"tools": (TOOL,), "tool_choice": choice}
    assert body(request=request, parallel_tool_calls=parallel).get("tool_choice") == expected
    assert "tool_choice" not in body(request={"tool_choice": choice}), "without tools there is nothing to choose"


def test_tools_of_the_server_stand_beside_ours() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    assert [tool["name"] for tool in body(request={"tools": (TOOL,)}, extra_body={"tools": [search]})["tools"]] == [
        "now",
        "web_search",
    ]
    assert body(extra_body={"tools": [search]})["tools"] == [search]
    sent = body(NEW, reasoning_effort="low", extra_body={"output_config": {"task_budget": 1}})
    assert sent["output_config"] == {"effort": "low", "task_budget": 1}


@pytest.mark.parametrize(
    "model, settings, thinking, effort",
    [
        (OLD, {}, None, None),
        (OLD, {"reasoning_effort": "none"}, None, None),
        (OLD, {"reasoning_effort": "low"}, {"type": "enabled", "budget_tokens": 6_400}, None),
        (OLD, {"reasoning_effort": "minimal"}, {"type": "enabled", "budget_tokens": 1_024}, None),
        (OLD, {"reasoning_budget": 5_000}, {"type": "enabled", "budget_tokens": 5_000}, None),
        (OLD, {"reasoning_budget": 10}, {"type": "enabled", "budget_tokens": 1_024}, None),
        (
            OLD,
            {"reasoning_budget": 9_000, "max_output_tokens": 2_000},
            {"type": "enabled", "budget_tokens": 1_999},
            None,
        ),
        (OLD, {"reasoning_budget": 9_000, "max_output_tokens": 1_024}, None, None),
        ("anthropic/claude-opus-4.1", {"reasoning_budget": 2_000}, {"type": "enabled", "budget_tokens": 2_000}, None),
        ("claude-sonnet-4-20250514", {"reasoning_budget": 2_000}, {"type": "enabled", "budget_tokens": 2_000}, None),
        ("claude-3-5-haiku-latest", {"reasoning_effort": "high"}, None, None),
        (MIDDLE, {}, None, None),
        (MIDDLE, {"reasoning_effort": "high"}, {"type": "adaptive"}, "high"),
        (MIDDLE, {"reasoning_effort": "xhigh"}, {"type": "adaptive"}, "high"),
        (MIDDLE, {"reasoning_effort": "max"}, {"type": "adaptive"}, "max"),
        (MIDDLE, {"reasoning_budget": 3_000}, {"type": "enabled", "budget_tokens": 3_000}, None),
        ("claude-opus-4-8", {}, None, None),
        ("claude-opus-4-7", {"reasoning_budget": 3_000}, {"type": "adaptive", "display": "summarized"}, "low"),
        (NEW, {}, {"type": "adaptive", "display": "summarized"}, None),
        (NEW, {"reasoning_effort": "minimal"}, {"type": "adaptive", "display": "summarized"}, "low"),
        (NEW, {"reasoning_effort": "off"}, {"type": "disabled"}, None),
        (NEW, {"reasoning_budget": 20_000}, {"type": "adaptive", "display": "summarized"}, "high"),
        (NEW, {"reasoning_budget": 90_000}, {"type": "adaptive", "display": "summarized"}, "xhigh"),
        (NEW, {"reasoning_effort": "turbo"}, {"type": "adaptive", "display": "summarized"}, "turbo"),
        ("claude-opus-5-20260720", {"reasoning_effort": "none"}, {"type": "disabled"}, None),
        (ALWAYS, {"reasoning_effort": "none"}, {"type": "adaptive", "display": "summarized"}, "low"),
        ("claude-opus-5-5", {"reasoning_effort": "none"}, {"type": "adaptive", "display": "summarized"}, "low"),
        ("m-1", {"reasoning_budget": 2_000}, {"type": "enabled", "budget_tokens": 2_000}, None),
    ],
)
def test_thinking_as_the_model_takes_it(model: str, settings: Any, thinking: Any, effort: str | None) -> None:
    sent = body(model, **settings)
    assert sent.get("thinking") == thinking
    assert sent.get("output_config", {}).get("effort") == effort
    if thinking and thinking["type"] == "enabled":
        assert (
            thinking["budget_tokens"]
            < sent["max_tokens"]
            == max(settings.get("max_output_tokens", 0) or (16_000 if model == "m-1" else 32_000), 0)
        )


def test_a_limit_nobody_set_makes_room_for_the_budget() -> None:
    assert body(OLD, reasoning_budget=40_000)["max_tokens"] == 44_096


def test_what_is_shown_of_the_thinking_can_be_left_to_the_model() -> None:
    quiet = ANTHROPIC.model_copy(update={"thinking_display": None})
    assert "thinking" not in body(NEW, profile=quiet)
    assert "thinking" not in body(NEW, profile=quiet, reasoning_effort="low")
    assert body("claude-opus-4-8", profile=quiet, reasoning_effort="low")["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize(
    "model, settings, expected",
    [
        ("claude-3-5-haiku-latest", {"temperature": 0.3, "top_p": 0.5}, {"temperature": 0.3, "top_p": 0.5}),
        (OLD, {"temperature": 1.7}, {"temperature": 1.0}),
        (OLD, {"temperature": -1.0}, {"temperature": 0.0}),
        (OLD, {"temperature": 0.3, "top_p": 0.5}, {"temperature": 0.3}),
        (OLD, {"top_p": 0.5}, {"top_p": 0.5}),
        (OLD, {"temperature": 0.3, "top_p": 0.96, "reasoning_effort": "low"}, {"top_p": 0.96}),
        (OLD, {"temperature": 0.3, "top_p": 0.5, "reasoning_effort": "low"}, {}),
        ("claude-opus-4-7", {"temperature": 0.3, "top_p": 0.5}, {}),
        (NEW, {"temperature": 0.3, "top_p": 0.99}, {}),
    ],
)
def test_sampling_that_would_be_refused_is_left_out(model: str, settings: Any, expected: Any) -> None:
    sent = body(model, **settings)
    assert {name: sent[name] for name in ("temperature", "top_p") if name in sent} == expected


@pytest.mark.parametrize("model, forced", [(OLD, False), (MIDDLE, True), (ALWAYS, True), ("claude-opus-5-5", False)])
def test_a_call_is_forced_only_where_thinking_allows_it(model: str, forced: bool) -> None:
    sent = body(model, request={"tools": (TOOL,), "tool_choice": "required"}, reasoning_effort="low")
    assert sent.get("tool_choice") == ({"type": "any"} if forced else None)


def test_the_beta_for_thinking_between_calls() -> None:
    tools = {"tools": (TOOL,)}
    assert built(OLD, request=tools, reasoning_effort="low").betas == (INTERLEAVED_BETA,)
    assert built(OLD, request=tools).betas == ()
    assert built(OLD, reasoning_effort="low").betas == ()
    assert built(NEW, request=tools, reasoning_effort="low").betas == ()
    assert built(OLD, ANTHROPIC_COMPATIBLE, request=tools, reasoning_effort="low").betas == ()


def test_an_answer_of_a_shape() -> None:
    item = {"type": "object", "properties": {"maximum": {"type": "integer", "maximum": 3}}}
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "enum": ["a"], "default": {"minimum": 1}},
            "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}, "minItems": 2, "maxItems": 3},
            "open": {"type": "object", "additionalProperties": {"type": "string"}},
            "either": {"anyOf": [{"type": "number", "multipleOf": 2}, {"type": "null"}]},
        },
        "$defs": {"Item": item},
    }
    request = {"output_schema": OutputSchema(name="out", parameters=parameters)}
    sent = body(OLD, request=request)
    assert sent["output_config"] == {
        "format": {
            "type": "json_schema",
            "schema": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "enum": ["a"], "default": {"minimum": 1}},
                    "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
                    "open": {"type": "object", "additionalProperties": {"type": "string"}},
                    "either": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                },
                "$defs": {
                    "Item": {
                        "type": "object",
                        "properties": {"maximum": {"type": "integer"}},
                        "additionalProperties": False,
                    }
                },
                "additionalProperties": False,
            },
        }
    }
    assert "output_config" not in body("claude-3-5-haiku-latest", request=request)
    assert "output_config" not in body(OLD, profile=ANTHROPIC_COMPATIBLE, request=request)
