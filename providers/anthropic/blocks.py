"""The content blocks of an answer while they are being sent: each takes its own deltas and tells them as events."""

import json
from collections.abc import Callable
from typing import Any

import pydantic_core

from ...messages.content import ProviderDataBlock, RedactedThinkingBlock
from ...messages.errors import InternalError
from ...messages.model import ModelEvent, ReasoningDelta, SignatureDelta, TextDelta, ToolCallDelta
from ..fold import Fold, parse_arguments
from ..shapes import as_array, is_object


class Block:
    """A block that has begun; as it is, one that came whole at its start.

    Nearly every delta is a piece of the block's one text, of the type `plain` and in the field `field`; `add` takes those.
    """

    plain: object = object()
    """Type of the deltas that are a piece of the block's text; equal to nothing where there are none."""
    field = ""
    """Their field."""

    def __init__(self) -> None:
        self.stopped = False
        """Whether the block was said to be whole."""

    def add(self, piece: str) -> ModelEvent:
        """Take a piece that is not empty."""
        raise InternalError(f"a {type(self).__name__} was given a piece of text, and has none")

    def take(self, delta: dict[str, Any]) -> list[ModelEvent]:
        """Take any delta."""
        piece = delta.get(self.field) if delta.get("type") == self.plain else None
        return [self.add(piece)] if isinstance(piece, str) and piece else []

    def resume(self) -> None:
        """Go on after a delta of another block came in between."""

    def stop(self) -> list[ModelEvent]:
        """Take the end of the block; called again, it does nothing."""
        self.stopped = True
        return []


class TextPart(Block):
    """Visible text, and its citations."""

    plain = "text_delta"
    field = "text"

    def __init__(self, fold: Fold, start: dict[str, Any], events: list[ModelEvent]) -> None:
        super().__init__()
        self._fold = fold
        self._extras = _rest(start, "text")
        fold.begin_text()
        text = start.get("text")
        if isinstance(text, str) and text:
            events.append(self.add(text))
        self._keep_extras()

    def add(self, piece: str) -> ModelEvent:
        """Take a piece that is not empty."""
        self._fold.text(piece)
        return TextDelta.of(piece)

    def take(self, delta: dict[str, Any]) -> list[ModelEvent]:
        """Take any delta."""
        if delta.get("type") == "citations_delta" and delta.get("citation") is not None:
            self._extras["citations"] = [*as_array(self._extras.get("citations")), delta["citation"]]
            self._keep_extras()
        return super().take(delta)

    def resume(self) -> None:
        """Go on after a delta of another block came in between."""
        self._fold.begin_text()

    def _keep_extras(self) -> None:
        if self._extras:
            self._fold.text_extras(self._extras)


class ThinkingPart(Block):
    """Reasoning and its signature; one of both may be missing."""

    plain = "thinking_delta"
    field = "thinking"

    def __init__(
        self, fold: Fold, start: dict[str, Any], events: list[ModelEvent], next_number: Callable[[], int]
    ) -> None:
        super().__init__()
        self._fold = fold
        self._next_number = next_number
        self._number = -1
        text, signature = start.get("thinking"), start.get("signature")
        if isinstance(text, str) and text:
            events.append(self.add(text))
        self._given = signature if isinstance(signature, str) else ""
        if self._given:
            events.append(self._sign(self._given))
        extras = _rest(start, "thinking", "signature")
        if extras:
            fold.thinking_extras(self._begun(), extras)

    def add(self, piece: str) -> ModelEvent:
        """Take a piece that is not empty."""
        number = self._number if self._number >= 0 else self._begun()
        self._fold.reasoning(piece, number)
        return ReasoningDelta.of(piece, number)

    def take(self, delta: dict[str, Any]) -> list[ModelEvent]:
        """Take any delta."""
        if delta.get("type") != "signature_delta":
            return super().take(delta)
        signature = delta.get("signature")
        # Said at the start and once more at the end it is still one signature.
        if not isinstance(signature, str) or not signature or signature == self._given:
            return []
        return [self._sign(signature)]

    def _sign(self, signature: str) -> ModelEvent:
        number = self._begun()
        self._fold.signature(signature, number)
        return SignatureDelta(signature=signature, index=number)

    def _begun(self) -> int:
        # Counted when it says something: a block that stays empty and unsigned is none.
        if self._number < 0:
            self._number = self._next_number()
        return self._number


class CallPart(Block):
    """A call of one of the caller's tools."""

    plain = "input_json_delta"
    field = "partial_json"

    def __init__(self, fold: Fold, start: dict[str, Any], events: list[ModelEvent], call_id: str) -> None:
        super().__init__()
        self._fold, self._call_id, self._name = fold, call_id, str(start["name"])
        self._whole: Any = start.get("input")
        self._pieces: list[str] = []
        fold.call(call_id, self._name)
        extras = _rest(start, "id", "name", "input")
        if extras:
            fold.call_extras(call_id, extras)
        events.append(ToolCallDelta(call_id=call_id, tool_name=self._name))

    def add(self, piece: str) -> ModelEvent:
        """Take a piece that is not empty."""
        self._pieces.append(piece)
        self._fold.call(self._call_id, self._name, piece)
        return ToolCallDelta.of(self._call_id, self._name, piece)

    def take(self, delta: dict[str, Any]) -> list[ModelEvent]:
        """Take any delta."""
        piece = delta.get(self.field)
        if is_object(piece):
            return [self.add(_json(piece))]
        return super().take(delta)

    def stop(self) -> list[ModelEvent]:
        """Take the end of the block: what it began with counts if no piece came."""
        again, self.stopped = self.stopped, True
        if again or self._pieces or self._whole in (None, "", {}, []):
            return []
        return [self.add(self._whole if isinstance(self._whole, str) else _json(self._whole))]

    @property
    def is_half(self) -> bool:
        """Whether it may go on: its end was not told, and what came is no whole object."""
        if self.stopped:
            return False
        arguments = "".join(self._pieces).strip()
        return parse_arguments(arguments) is None if arguments else not (is_object(self._whole) and self._whole)


class OpaquePart(Block):
    """A block that is only kept, and sent back as it came: calls and results of the server's own tools, compactions, new kinds."""

    def __init__(self, fold: Fold, start: dict[str, Any]) -> None:
        super().__init__()
        self._fold = fold
        self._data = dict(start)
        self._input: list[str] = []

    def take(self, delta: dict[str, Any]) -> list[ModelEvent]:
        """Take any delta: texts go on, lists grow, anything else is replaced."""
        if self.stopped:
            return []
        for name, value in delta.items():
            if name == "partial_json":
                self._input.append(str(value))
            elif name == "citation":
                self._data["citations"] = [*as_array(self._data.get("citations")), value]
            elif name != "type" and value is not None:
                before = self._data.get(name)
                self._data[name] = before + value if isinstance(before, str) and isinstance(value, str) else value
        return []

    def stop(self) -> list[ModelEvent]:
        """Take the end of the block."""
        if not self.stopped:
            self.stopped = True
            self._read_input()
            self._fold.block(ProviderDataBlock(provider=self._fold.provider or "", data=self._data))
        return []

    def _read_input(self) -> None:
        text = "".join(self._input)
        if not text.strip():
            return
        try:
            self._data["input"] = pydantic_core.from_json(text)
        except ValueError:
            pass  # what it began with stays


def redacted(fold: Fold, start: dict[str, Any]) -> Block:
    """Keep reasoning that only the provider can read."""
    fold.block(RedactedThinkingBlock(data=start["data"], provider=fold.provider))
    return Block()


def _rest(start: dict[str, Any], *known: str) -> dict[str, Any]:
    """Return what else a block says of itself; what is null or an empty list says nothing."""
    return {name: value for name, value in start.items() if name not in ("type", *known) and value not in (None, [])}


def _json(value: Any) -> str:
    # Spaced as the provider's own fragments are, so that a call reads the same however it came.
    return json.dumps(value, ensure_ascii=False)
