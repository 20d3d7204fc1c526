"""What differs between servers that speak the chat completions protocol, as data.

One profile a family of servers; `OpenAIChat` knows no server by name. Further families are further entries here.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from ..profile import ModelProfile


class ChatProfile(ModelProfile):
    """Facts of a server that speaks the chat completions protocol."""

    base_url: str | None = None
    """Where it is, if it is in one place."""
    secret_name: str | None = None
    """Name of its key; `None`: it has none."""
    key_required: bool = False
    """Whether a call without a key is refused before it is sent."""
    system_role: Literal["system", "developer"] = "system"
    """Role of the instructions."""
    max_tokens_field: str = "max_tokens"
    """Name of the field that bounds the answer."""
    include_usage: bool = True
    """Whether a stream is asked for its usage."""
    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning", "reasoning_text")
    """Fields of a delta in which reasoning may stand; the first one that is not empty counts."""
    reasoning_replay: str | None = None
    """Field in which reasoning is sent back; `None`: it is not."""
    think_tags: bool = False
    """Whether `<think>…</think>` in the text is reasoning."""
    headers: Mapping[str, str] = Field(default_factory=dict)
    """Further headers of each request; no keys."""


OPENAI_URL = "https://api.openai.com/v1"
"""Where OpenAI is."""

OPENAI = ChatProfile(
    provider="openai",
    base_url=OPENAI_URL,
    secret_name="OPENAI_API_KEY",  # noqa: S106
    key_required=True,
    system_role="developer",
    max_tokens_field="max_completion_tokens",
    native_output_schema=True,
)
"""OpenAI's own."""

LLAMA_CPP = ChatProfile(provider="llama.cpp", native_output_schema=True, reasoning_replay="reasoning_content")
"""The server of llama.cpp."""

GENERIC = ChatProfile(provider="openai-compatible", secret_name="OPENAI_API_KEY")  # noqa: S106
"""Any other server: takes what comes and sends nothing that only some accept."""
