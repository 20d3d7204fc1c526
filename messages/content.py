"""Content blocks: the parts of a message, in the order in which they were said."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, JsonValue, Tag

from .value import OpenValue, Value


def _absent(value: object) -> bool:
    return value is None


def kind_of(value: Any) -> str:
    """Return the tag of a value or of its JSON form; empty if it has none."""
    if isinstance(value, Mapping):
        fields: Mapping[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return str(fields.get("kind", ""))
    return str(getattr(value, "kind", ""))


class TextBlock(Value):
    """Visible text."""

    kind: Literal["text"] = "text"
    text: str
    """The text."""
    extras: dict[str, JsonValue] | None = Field(default=None, exclude_if=_absent)
    """Opaque data of the provider that must be echoed with the text, such as citations or the id of the item it stood in."""
    provider: str | None = Field(default=None, exclude_if=_absent)
    """Family of the provider that wrote the text; `extras` go to no other."""


class ImageBlock(Value):
    """An image, inline or by address; exactly one of `data` and `url` is set."""

    kind: Literal["image"] = "image"
    media_type: str = "image/png"
    """MIME type."""
    data: str | None = Field(default=None, exclude_if=_absent)
    """The bytes in base64."""
    url: str | None = Field(default=None, exclude_if=_absent)
    """An address the provider can read."""


class ThinkingBlock(Value):
    """Reasoning of the model; replayed byte for byte to the provider that made it, and to no other."""

    kind: Literal["thinking"] = "thinking"
    text: str
    """The reasoning, or its summary; may be empty when only a signature was sent."""
    signature: str | None = Field(default=None, exclude_if=_absent)
    """The provider's proof of origin; left out of the JSON where there is none."""
    extras: dict[str, JsonValue] | None = Field(default=None, exclude_if=_absent)
    """Opaque data of the provider that must be echoed with the block."""
    provider: str | None = Field(default=None, exclude_if=_absent)
    """Family of the provider that made the block."""


class RedactedThinkingBlock(Value):
    """Reasoning the provider encrypted; opaque."""

    kind: Literal["redacted_thinking"] = "redacted_thinking"
    data: str
    """The opaque payload."""
    provider: str | None = Field(default=None, exclude_if=_absent)
    """Family of the provider that made the block."""


class ProviderDataBlock(Value):
    """Anything else a provider wants back in its place."""

    kind: Literal["provider_data"] = "provider_data"
    provider: str
    """Family of the provider that made the block."""
    data: JsonValue
    """The payload, verbatim."""


class ToolCallBlock(Value):
    """A call the model asks for."""

    kind: Literal["tool_call"] = "tool_call"
    call_id: str
    """Id of the call; the same in items, message and result."""
    provider_call_id: str | None = Field(default=None, exclude_if=_absent)
    """The provider's own id, where it had given the same one before in the run; it goes back to the provider in place of `call_id`."""
    tool_name: str
    """Name of the tool or sub-agent."""
    arguments_json: str = "{}"
    """The arguments as the model wrote them."""
    arguments: dict[str, JsonValue] | None = None
    """The arguments parsed; `None` when they are not a JSON object: such a call is never run."""
    truncated: bool = Field(default=False, exclude_if=lambda value: not value)
    """The answer ended inside this call; it is never run."""
    extras: dict[str, JsonValue] | None = Field(default=None, exclude_if=_absent)
    """Opaque data of the provider that must be echoed with the call."""
    provider: str | None = Field(default=None, exclude_if=_absent)
    """Family of the provider that made the call; `extras` go to no other."""


class UnknownBlock(OpenValue):
    """A block of a kind this version does not know; kept and written back as it is."""


BLOCK_TYPES = (TextBlock, ImageBlock, ThinkingBlock, RedactedThinkingBlock, ProviderDataBlock, ToolCallBlock)
"""Every known block."""

_BLOCK_TAGS = frozenset(block.model_fields["kind"].default for block in BLOCK_TYPES)


def _block_tag(value: Any) -> str:
    kind = kind_of(value)
    return kind if kind in _BLOCK_TAGS else "unknown"


ContentBlock = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ImageBlock, Tag("image")]
    | Annotated[ThinkingBlock, Tag("thinking")]
    | Annotated[RedactedThinkingBlock, Tag("redacted_thinking")]
    | Annotated[ProviderDataBlock, Tag("provider_data")]
    | Annotated[ToolCallBlock, Tag("tool_call")]
    | Annotated[UnknownBlock, Tag("unknown")],
    Discriminator(_block_tag),
]
"""Any block, for validation: known kinds by their tag, others as `UnknownBlock`."""
