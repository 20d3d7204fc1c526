"""The items of an answer while they come in, and the blocks they become.

What has to go back stands in the `extras` of a block: the item as it was served, with `None` where the block's own field is put when it is
sent. `after` is the number of reasoning items the answer had before it: its id is only good together with them.
"""

import json
from collections.abc import Iterator
from typing import Any, ClassVar

import pydantic_core

from ...messages.content import ContentBlock, ProviderDataBlock, TextBlock, ThinkingBlock, ToolCallBlock
from ...messages.ids import new_call_id
from ...messages.model import ModelEvent, ReasoningDelta, SignatureDelta, TextDelta, ToolCallDelta
from ..fold import parse_arguments
from ..shapes import as_array, as_object, is_object

_BETWEEN_SUMMARIES = "\n\n"
_INPUT_BEGINS, _INPUT_ENDS = '{"input":"', '"}'


class Item:
    """One item of the answer. This one is of a kind that is only kept, such as a tool the provider runs itself."""

    __slots__ = ("done", "index", "pieces", "served")

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.served: dict[str, Any] = {}
        self.pieces: list[str] = []
        self.done = False

    def open(self, served: dict[str, Any]) -> list[ModelEvent]:
        """Take the item as it was announced and return what is to be told of it."""
        self.served = served
        return []

    def feed(self, piece: str, part: Any = None) -> list[ModelEvent]:
        """Take a piece and return what is to be told of it.

        Args:
            piece: The piece, not empty.
            part: Number of the summary it belongs to; `None`: it is no summary.
        """
        return []

    def close(self, served: dict[str, Any]) -> list[ModelEvent]:
        """Take the whole item, which decides, and return what the pieces did not tell."""
        self.served, self.done = served, True
        return []

    def is_same(self, served: dict[str, Any]) -> bool:
        """Return whether this may be the item that is served; ids may change from event to event."""
        return not self.served or self.served.get("type") == served.get("type")

    def blocks(self, provider: str, after: int, *, ended: bool) -> Iterator[ContentBlock]:
        """Yield what the item becomes.

        Args:
            provider: Family of the provider.
            after: Number of reasoning items before it.
            ended: Whether the answer came to its end; if not, what is unfinished is left out or marked.
        """
        if self.served and (self.done or ended):
            yield ProviderDataBlock(provider=provider, data=self.served)

    def _rest(self, whole: str) -> str:
        said = "".join(self.pieces)
        return whole[len(said) :] if whole.startswith(said) else ""


class ReasoningItem(Item):
    """Reasoning: readable as a summary in parts, or as the text itself, or not at all."""

    __slots__ = ("_part", "_whole", "number")

    def __init__(self, index: int | None, number: int) -> None:
        super().__init__(index)
        self.number = number
        self._part: Any = None
        self._whole: str | None = None

    def feed(self, piece: str, part: Any = None) -> list[ModelEvent]:
        """Take a piece of a summary or of the text; of the two only what comes first is told, the other says the same."""
        if self.done:
            return []
        if part != self._part or not self.pieces:
            if self.pieces:
                if part is None or self._part is None:
                    return []
                piece = _BETWEEN_SUMMARIES + piece
            self._part = part
        self.pieces.append(piece)
        return [ReasoningDelta.of(piece, self.number)]

    def close(self, served: dict[str, Any]) -> list[ModelEvent]:
        """Take the whole item."""
        super().close(served)
        summary = _BETWEEN_SUMMARIES.join(filter(None, map(_text_of, as_array(served.get("summary")))))
        text = "".join(map(_text_of, as_array(served.get("content"))))
        self._whole = (text or summary) if self.pieces and self._part is None else (summary or text)
        events: list[ModelEvent] = []
        if rest := self._rest(self._whole):
            events.append(ReasoningDelta.of(rest, self.number))
        if self._signature:
            events.append(SignatureDelta(signature=self._signature, index=self.number))
        return events

    def blocks(self, provider: str, after: int, *, ended: bool) -> Iterator[ContentBlock]:
        """Yield the thinking block."""
        text = self._whole or "".join(self.pieces)
        if self.done:
            item = {name: value for name, value in self.served.items() if name != "encrypted_content"}
            yield ThinkingBlock(text=text, signature=self._signature, extras={"item": item}, provider=provider)
        elif text:
            yield ThinkingBlock(text=text, provider=provider)

    @property
    def _signature(self) -> str | None:
        value = self.served.get("encrypted_content")
        return value if isinstance(value, str) and value else None


class MessageItem(Item):
    """Visible text in parts, refusals among them."""

    __slots__ = ("refuses",)

    def __init__(self, index: int | None) -> None:
        super().__init__(index)
        self.refuses = False

    def feed(self, piece: str, part: Any = None) -> list[ModelEvent]:
        """Take a piece of the text."""
        if self.done:
            return []
        self.pieces.append(piece)
        return [TextDelta.of(piece)]

    def close(self, served: dict[str, Any]) -> list[ModelEvent]:
        """Take the whole item."""
        said, content = "".join(self.pieces), served.get("content")
        if isinstance(content, str) or (said and not content):
            served = {**served, "content": [{"type": "output_text", "text": content or said, "annotations": []}]}
        super().close(served)
        parts = list(map(as_object, as_array(served.get("content"))))
        self.refuses = self.refuses or any(part.get("type") == "refusal" for part in parts)
        rest = self._rest("".join(map(_text_of, parts)))
        return [TextDelta.of(rest)] if rest else []

    def blocks(self, provider: str, after: int, *, ended: bool) -> Iterator[ContentBlock]:
        """Yield a text block for each part; the first has the item around the parts."""
        if not self.done:
            if self.pieces:
                yield TextBlock(text="".join(self.pieces))
            return
        item = {name: value for name, value in self.served.items() if name != "content"}
        extras: dict[str, Any] = {"item": item, **_marked(after)}
        for part in as_array(self.served.get("content")):
            yield TextBlock(text=_text_of(part), extras={**extras, "part": _without_text(part)}, provider=provider)
            extras = {}
        if extras:
            yield TextBlock(text="", extras=extras, provider=provider)


class CallItem(Item):
    """A call, told as soon as its name and id are known."""

    __slots__ = ("_used", "call_id", "name", "settled")

    field: ClassVar[str] = "arguments"

    def __init__(self, index: int | None, used: set[str]) -> None:
        super().__init__(index)
        self._used = used
        self.call_id = self.name = ""
        self.settled: str | None = None

    @property
    def is_told(self) -> bool:
        """Whether readers know of the call."""
        return bool(self.call_id and self.name)

    def is_same(self, served: dict[str, Any]) -> bool:
        """Return whether this may be the call that is served."""
        call_id = _word(served.get("call_id"))
        return not call_id or call_id == (_word(self.served.get("call_id")) or call_id)

    def open(self, served: dict[str, Any]) -> list[ModelEvent]:
        """Take the call's name and id, and the beginning of the arguments if there is one."""
        told = self.is_told
        super().open(served)
        self.name = self.name or _word(served.get("name"))
        call_id = _word(served.get("call_id"))
        if call_id and not self.call_id:
            self.call_id = new_call_id() if call_id in self._used else call_id
            self._used.add(self.call_id)
        return [] if told else self._tell("".join(self.pieces))

    def feed(self, piece: str, part: Any = None) -> list[ModelEvent]:
        """Take a piece of the arguments."""
        if self.done or self.settled is not None:
            return []
        self.pieces.append(piece)
        return self._tell(piece)

    def settle(self, value: Any) -> None:
        """Take the whole arguments, before the whole item comes."""
        self.settled = self._read(value)

    def close(self, served: dict[str, Any]) -> list[ModelEvent]:
        """Take the whole call."""
        told = self.is_told
        self.open(served)
        super().close(served)
        if self.name and not self.call_id:
            self.call_id = new_call_id()
        self.settled = self._read(served.get(self.field))
        if not told:
            return self._tell(self.settled)
        rest = self._rest(self.settled)
        return [self._delta(rest)] if rest else []

    def blocks(self, provider: str, after: int, *, ended: bool) -> Iterator[ContentBlock]:
        """Yield the call; one that is not whole is marked, so that nobody runs it."""
        if not self.is_told:
            return
        raw = "".join(self.pieces) if self.settled is None else self.settled
        cut = self.served.get("status") == "incomplete" or (self.settled is None and not (ended and raw.strip()))
        arguments = None if cut else parse_arguments(raw)
        extras: dict[str, Any] = {"item": self._frame(), **_marked(after)} if self.done else {}
        shown = raw
        if arguments == {} and raw.strip() in ("", "null"):
            shown, extras = "{}", {**extras, "raw": raw} if extras else extras
        yield ToolCallBlock(
            call_id=self.call_id,
            tool_name=self.name,
            arguments_json=shown,
            arguments=arguments,
            truncated=cut,
            extras=extras or None,
            provider=provider,
        )

    def _tell(self, piece: str) -> list[ModelEvent]:
        return [self._delta(piece)] if self.is_told else []

    def _delta(self, piece: str) -> ToolCallDelta:
        return ToolCallDelta.of(self.call_id, self.name, piece)

    def _frame(self) -> dict[str, Any]:
        return {**self.served, "call_id": None, "name": None, self.field: None}

    def _read(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        return "" if value is None else pydantic_core.to_json(value).decode()


class CustomCallItem(CallItem):
    """A call with free text in place of arguments, which becomes the JSON object `{"input": text}`."""

    __slots__ = ()

    field: ClassVar[str] = "input"

    def feed(self, piece: str, part: Any = None) -> list[ModelEvent]:
        """Take a piece of the text."""
        return super().feed(("" if self.pieces else _INPUT_BEGINS) + _escaped(piece))

    def _read(self, value: Any) -> str:
        return f"{_INPUT_BEGINS}{_escaped(super()._read(value))}{_INPUT_ENDS}"


def item_class(served: dict[str, Any]) -> type[Item]:
    """Return what an item is read as."""
    return _CLASSES.get(_word(served.get("type")), Item)


_CLASSES: dict[str, type[Item]] = {
    "reasoning": ReasoningItem,
    "message": MessageItem,
    "function_call": CallItem,
    "custom_tool_call": CustomCallItem,
}


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _marked(after: int) -> dict[str, Any]:
    return {"after": after} if after else {}


def _text_of(part: Any) -> str:
    if isinstance(part, str):
        return part
    key = _text_field(part)
    return as_object(part)[key] if key else ""


def _text_field(part: Any) -> str | None:
    said = as_object(part)
    return next((key for key in ("text", "refusal") if isinstance(said.get(key), str)), None)


def _without_text(part: Any) -> Any:
    key = _text_field(part)
    return {**part, key: None} if key and is_object(part) else part


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""
