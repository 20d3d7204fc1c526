"""What each dialect is expected to do: how reasoning arrives, how it goes back, what a request says, and how usage counts."""

from dataclasses import dataclass, field
from typing import Any

from runtree.providers.chat import dialects as known
from runtree.providers.chat.profile import ChatProfile

from ..answers import call

_FIELD = ({"reasoning_content": "hm"},)
_OTHER_FIELD = ({"reasoning": "h"}, {"reasoning": "m"})
_PART = {"type": "reasoning.text", "index": 0, "format": "unknown"}
_DETAILS = (
    {"reasoning": "h", "reasoning_details": [{**_PART, "text": "h"}]},
    {"reasoning": "m", "reasoning_details": [{**_PART, "text": "m"}]},
    {"reasoning_details": [{**_PART, "signature": "s=="}]},
)
_MERGED = {"reasoning_details": [{**_PART, "text": "hm", "signature": "s=="}]}
_SUMMARY = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm", "signature": "s=="}]}
_THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
_ANSWER = {"type": "text", "text": "x"}

PLAIN: dict[str, Any] = {"temperature": 0.5, "top_p": 0.9, "stop": ["end"], "seed": 7, "parallel_tool_calls": False}
_SAMPLED = {**PLAIN, "max_tokens": 5, "tool_choice": "required", "reasoning_effort": "high"}
_NEW_BOUND = {**PLAIN, "max_completion_tokens": 5, "tool_choice": "required", "reasoning_effort": "high"}
_USAGE_ASKED = {"stream_options": {"include_usage": True}}


def _but(fields: dict[str, Any], *without: str, **more: Any) -> dict[str, Any]:
    return {**{name: value for name, value in fields.items() if name not in without}, **more}


@dataclass
class Row:
    """One dialect. `sent` is what the settings of the conformance test become; `echo` what an answer with a call and reasoning becomes."""

    profile: ChatProfile
    deltas: tuple[dict[str, Any], ...]
    sent: dict[str, Any]
    echo: dict[str, Any] = field(default_factory=dict)
    model: str = "m-1"
    call_id: str = "call_1"
    asks_usage: bool = True
    usage: tuple[int, int | None] = (4, 3)
    """Output and reasoning of 10 + 4 tokens, 3 of them reasoning, with a total of 14."""
    beside: tuple[int, int | None] = (7, 3)
    """The same with a total of 17."""

    def __str__(self) -> str:
        return f"{self.profile.provider}-{self.model}"

    @property
    def expected(self) -> dict[str, Any]:
        return {**self.sent, **(_USAGE_ASKED if self.asks_usage else {})}


ROWS = [
    Row(known.OPENAI, (), _NEW_BOUND, model="gpt-4.1"),
    Row(known.OPENAI, (), _but(_NEW_BOUND, "temperature", "top_p", "stop"), model="gpt-5-mini"),
    Row(known.AZURE, (), _NEW_BOUND, model="chat"),
    Row(known.AZURE, _FIELD, _SAMPLED, {"reasoning_content": "hm"}, model="DeepSeek-V4"),
    Row(
        known.DEEPSEEK,
        _FIELD,
        _but(_SAMPLED, "tool_choice", thinking={"type": "enabled"}),
        {"reasoning_content": "hm"},
    ),
    Row(known.OPENROUTER, _DETAILS, _but(_SAMPLED, "reasoning_effort", reasoning={"effort": "high"}), _MERGED),
    Row(known.OPENROUTER, _OTHER_FIELD, _but(_SAMPLED, "reasoning_effort", reasoning={"effort": "high"}), {"reasoning": "hm"}),
    Row(known.VERCEL, _DETAILS, _but(_SAMPLED, "reasoning_effort", reasoning={"effort": "high"}), _MERGED),
    Row(known.GROQ, _OTHER_FIELD, _NEW_BOUND),
    Row(known.GROQ, _OTHER_FIELD, {**_NEW_BOUND, "reasoning_format": "parsed"}, model="qwen/qwen3-32b"),
    Row(known.TOGETHER, _OTHER_FIELD, _SAMPLED),
    Row(known.CEREBRAS, _OTHER_FIELD, _NEW_BOUND, {"reasoning": "hm"}),
    Row(known.FIREWORKS, _FIELD, _SAMPLED),
    Row(known.HUGGING_FACE, _FIELD, _SAMPLED),
    Row(
        known.MISTRAL,
        ({"content": [_THINKING]},),
        _but(_SAMPLED, "seed", random_seed=7, tool_choice="any"),
        {"content": [_THINKING, _ANSWER]},
        call_id="abc123DEF",
        asks_usage=False,
    ),
    Row(known.GEMINI, ({"content": "<thought>hm</thought>"},), _SAMPLED),
    Row(known.QWEN, _FIELD, _but(_SAMPLED, "reasoning_effort", "tool_choice", enable_thinking=True)),
    Row(
        known.MOONSHOT,
        _FIELD,
        _but(_SAMPLED, "reasoning_effort", "tool_choice", "temperature", "top_p", thinking={"type": "enabled"}),
        {"reasoning_content": "hm"},
        model="kimi-k2.5",
        call_id="functions.get:0",
    ),
    Row(
        known.MOONSHOT,
        _FIELD,
        _but(_SAMPLED, "tool_choice", "temperature", "top_p"),
        {"reasoning_content": "hm"},
        model="kimi-k3",
    ),
    Row(
        known.ZAI,
        _FIELD,
        _but(_SAMPLED, "reasoning_effort", "tool_choice", thinking={"type": "enabled", "clear_thinking": False}),
        {"reasoning_content": "hm"},
    ),
    Row(known.XAI, _FIELD, _SAMPLED, {"reasoning_content": "hm"}),
    Row(known.XAI, _FIELD, _but(_SAMPLED, "stop"), {"reasoning_content": "hm"}, model="grok-4"),
    Row(known.DATABRICKS, ({"content": [_SUMMARY]},), _SAMPLED, {"content": [_SUMMARY, _ANSWER]}, asks_usage=False),
    Row(known.VLLM, _OTHER_FIELD, _SAMPLED, {"reasoning": "hm"}),
    Row(known.SGLANG, _FIELD, _SAMPLED, {"reasoning_content": "hm"}),
    Row(known.OLLAMA, _OTHER_FIELD, _SAMPLED, {"reasoning": "hm"}),
    Row(known.LLAMA_CPP, _FIELD, _SAMPLED, {"reasoning_content": "hm"}),
    Row(known.GENERIC, _DETAILS, _SAMPLED),
    Row(known.GENERIC, ({"reasoning_text": "hm", "reasoning_opaque": "s=="},), _SAMPLED),
]  # fmt: skip


def call_of(row: Row) -> dict[str, Any]:
    return call(0, row.call_id, "get", "{}")
