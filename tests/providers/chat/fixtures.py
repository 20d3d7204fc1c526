"""Answers as the servers of each dialect write them, with the blocks that must come of them."""

import json
from dataclasses import dataclass
from typing import Any

from runtree.messages.content import RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolCallBlock
from runtree.messages.transcript import AssistantMessage, FinishReason
from runtree.providers.chat import dialects as known
from runtree.providers.chat.profile import ChatProfile

from ..answers import USAGE, USAGE_CHUNK, call, chunk, stream


@dataclass
class Fixture:
    """A body and what it says. Blocks are (thinking, text, signature), (text, text), (call, name, arguments), (hidden, data)."""

    name: str
    profile: ChatProfile
    body: bytes
    blocks: list[tuple[Any, ...]]
    finish: FinishReason = "stop"
    usage: tuple[int | None, int | None] = (None, None)

    def __str__(self) -> str:
        return self.name


def told(message: AssistantMessage | None) -> list[tuple[Any, ...]]:
    """The blocks of a message in the short form of the fixtures."""
    short: list[tuple[Any, ...]] = []
    for block in message.content if message else ():
        match block:
            case ThinkingBlock():
                short.append(("thinking", block.text, block.signature))
            case TextBlock():
                short.append(("text", block.text))
            case ToolCallBlock():
                short.append(("call", block.tool_name, block.arguments))
            case RedactedThinkingBlock():
                short.append(("hidden", block.data))
            case _:
                raise AssertionError(block)
    return short


def _text(text: str, index: int | None = 0, **more: Any) -> dict[str, Any]:
    part = {"type": "reasoning.text", "text": text, "format": "anthropic-claude-v1", "index": index, **more}
    return {"reasoning_details": [part]}


def _data(data: str, **more: Any) -> dict[str, Any]:
    part = {"type": "reasoning.encrypted", "data": data, "format": "openai-responses-v1", "index": 0, **more}
    return {"reasoning_details": [part]}


def _thinking(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}], "closed": True, **more}


_STOP = chunk(finish="stop")
_CALLS = chunk(finish="tool_calls")
_CALL: tuple[Any, ...] = ("call", "get", {})

FIXTURES = [
    Fixture(
        "openrouter-text-mirrored-and-signed",
        known.OPENROUTER,
        b": OPENROUTER PROCESSING\n\n"
        + stream(
            chunk({"role": "assistant", "content": "", "reasoning": "Grü", **_text("Grü")}),
            chunk({"content": "", "reasoning": "ße", **_text("ße")}),
            chunk({"content": "", "reasoning": None, **_text("", signature="s1==")}),
            chunk({"content": "x"}),
            {**chunk({"content": ""}, "stop"), "usage": USAGE},
        ),
        [("thinking", "Grüße", "s1=="), ("text", "x")],
        usage=(10, 4),
    ),
    Fixture(
        "openrouter-signature-repeated",
        known.OPENROUTER,
        stream(chunk(_text("a", signature="s1")), chunk(_text("b", signature="s1")), chunk({"content": "x"}), _STOP),
        [("thinking", "ab", "s1"), ("text", "x")],
    ),
    Fixture(
        "openrouter-two-thoughts-around-text",
        known.OPENROUTER,
        stream(
            chunk(_text("a", signature="s1")),
            chunk({"content": "x"}),
            chunk({"reasoning": "b", **_text("b", 1)}),
            chunk(_text("", 1, signature="s2")),
            chunk(call(0, "c1", "get", "{}")),
            _CALLS,
        ),
        [("thinking", "a", "s1"), ("text", "x"), ("thinking", "b", "s2"), _CALL],
        "tool_calls",
    ),
    Fixture(
        "openrouter-two-thoughts-side-by-side",
        known.OPENROUTER,
        stream(chunk(_text("a", signature="s1")), chunk(_text("b", 1, signature="s2")), chunk({"content": "x"}), _STOP),
        [("thinking", "a", "s1"), ("thinking", "b", "s2"), ("text", "x")],
    ),
    Fixture(
        "openrouter-encrypted-only",
        known.OPENROUTER,
        stream(chunk(_data("AAA", id="rs_1")), chunk({"content": "x"}), _STOP),
        [("thinking", "", None), ("text", "x")],
    ),
    Fixture(
        "openrouter-encrypted-with-the-call",
        known.OPENROUTER,
        stream(chunk({**_data("AAA", id="c1"), **call(0, "c1", "get", "{}")}), _CALLS),
        [("thinking", "", None), _CALL],
        "tool_calls",
    ),
    Fixture(
        "openrouter-unary",
        known.OPENROUTER,
        json.dumps(
            {
                "id": "gen-1",
                "model": "m",
                "choices": [
                    {"message": {"content": "x", "reasoning": "hm", **_text("hm", signature="s1")}, "finish_reason": "stop"}
                ],
                "usage": USAGE,
            }
        ).encode(),
        [("thinking", "hm", "s1"), ("text", "x")],
        usage=(10, 4),
    ),
    Fixture(
        "details-without-mirror",
        known.GENERIC,
        stream(chunk(_text("hm", None, id="reasoning-text-1")), chunk({"content": "x"}), _STOP),
        [("thinking", "hm", None), ("text", "x")],
    ),
    Fixture(
        "gemini-signed-call",
        known.GEMINI,
        stream(
            chunk(
                {"role": "assistant", "tool_calls": [{"id": "", "function": {"name": "get", "arguments": "{}"}, "extra_content": {"google": {"thought_signature": "s1"}}}]},
                usage=USAGE,
            ),
            chunk(finish="stop", usage=USAGE),
        ),
        [_CALL],
        "tool_calls",
        (10, 4),
    ),
    Fixture(
        "gemini-thoughts-in-the-text",
        known.GEMINI,
        stream(chunk({"content": "<thou"}), chunk({"content": "ght>hm</thought>x"}), chunk({"extra_content": {"google": {}}}), _STOP),
        [("thinking", "hm", None), ("text", "x")],
    ),
    Fixture(
        "mistral-parts",
        known.MISTRAL,
        stream(
            chunk({"role": "assistant", "content": ""}),
            chunk({"content": [_thinking("h")]}),
            chunk({"content": [_thinking("m"), {"type": "text", "text": "x"}]}),
            chunk({"content": "y"}, p="abcdef"),
            {**chunk(call(None, "abc123DEF", "get", "{}"), "tool_calls"), "usage": USAGE},
        ),
        [("thinking", "hm", None), ("text", "xy"), _CALL],
        "tool_calls",
        (10, 4),
    ),
    Fixture(
        "databricks-summary",
        known.DATABRICKS,
        stream(
            chunk({"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm", "signature": ""}]}]}),
            chunk({"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "", "signature": "s1"}]}]}),
            chunk({"content": [{"type": "reasoning", "summary": [{"type": "summary_encrypted_text", "data": "AAA"}]}]}),
            chunk({"content": "x"}, usage={"prompt_tokens": 10, "completion_tokens": None, "total_tokens": None}),
            chunk({}, "stop", usage={"prompt_tokens": None, "completion_tokens": 4, "total_tokens": 14}),
        ),
        [("thinking", "hm", "s1"), ("hidden", "AAA"), ("text", "x")],
        usage=(10, 4),
    ),
    Fixture(
        "cumulative-message-beside-the-delta",
        known.GENERIC,
        stream(
            {"choices": [{"delta": {"role": "assistant", "content": "x"}, "message": {"content": "x"}}], "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}},
            {"choices": [{"delta": {"content": "y"}, "message": {"content": "xy"}, "finish_reason": "stop"}]},
            {"object": "chat.completion.done", "choices": [{"message": {"content": "xy"}, "finish_reason": "stop"}], "usage": USAGE},
            done=False,
            end="\r\n",
        ),
        [("text", "xy")],
        usage=(10, 4),
    ),
    Fixture(
        "azure-choices-without-delta",
        known.AZURE,
        stream(
            {"id": "", "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
            chunk({"content": "x"}),
            {"id": "", "choices": [{"index": 0, "content_filter_offsets": {"check_offset": 3}, "finish_reason": None}]},
            {"id": "", "choices": [{"index": 0, "delta": None, "finish_reason": None}]},
            _STOP,
            {"id": "", "choices": [{"index": 0, "content_filter_results": {}}]},
            USAGE_CHUNK,
        ),
        [("text", "x")],
        usage=(10, 4),
    ),
    Fixture(
        "kimi-usage-in-the-choice",
        known.MOONSHOT,
        stream(
            chunk({"reasoning_content": "hm"}),
            chunk(call(0, "functions.get:0", "get", "{}")),
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls", "usage": USAGE}]},
        ),
        [("thinking", "hm", None), _CALL],
        "tool_calls",
        (10, 4),
    ),
    Fixture(
        "groq-usage-twice",
        known.GROQ,
        stream(
            chunk({"reasoning": "hm", "channel": "analysis"}, x_groq={"id": "req"}),
            chunk({"content": "x"}),
            {**chunk(finish="stop"), "x_groq": {"usage": USAGE}},
            USAGE_CHUNK,
        ),
        [("thinking", "hm", None), ("text", "x")],
        usage=(10, 4),
    ),
    Fixture(
        "opening-tag-in-the-prompt",
        known.VLLM.model_copy(update={"think_tags": True, "think_opened": True}),
        stream(chunk({"content": "h"}), chunk({"content": "m</thi"}), chunk({"content": "nk>x"}), _STOP),
        [("thinking", "hm", None), ("text", "x")],
    ),
    Fixture(
        "opening-tag-in-the-prompt-and-again",
        known.VLLM.model_copy(update={"think_tags": True, "think_opened": True}),
        stream(chunk({"content": "\n<thi"}), chunk({"content": "nk>hm</think>x"}), _STOP),
        [("thinking", "hm", None), ("text", "x")],
    ),
    Fixture(
        "tags-of-other-names",
        known.GENERIC.model_copy(update={"think_tags": True, "think_tag_names": ("seed:think",)}),
        stream(chunk({"content": "<seed:think>hm</seed:think><think>x"}), _STOP),
        [("thinking", "hm", None), ("text", "<think>x")],
    ),
    Fixture(
        "signature-in-a-field-of-its-own",
        known.GENERIC,
        stream(chunk({"reasoning_text": "hm"}), chunk({"reasoning_opaque": "s1"}), chunk({"content": "x"}), _STOP),
        [("thinking", "hm", "s1"), ("text", "x")],
    ),
]  # fmt: skip
