"""The events of an answer of the messages protocol, one after the other, to model events: a state machine without I/O."""

import itertools
from typing import Any

from pydantic_core import from_json

from ...messages.content import ContentBlock, ProviderDataBlock, ToolCallBlock
from ...messages.failure import Failure
from ...messages.ids import new_call_id
from ...messages.model import Completed, Failed, ModelEvent, Started, UsageDelta
from ...messages.transcript import AssistantMessage, FinishReason
from ..failures import broken, from_frame
from ..fold import UNKNOWN_USAGE, Fold
from ..halves import Halves
from ..secrets import clean
from ..shapes import as_array, as_object, as_objects, is_array, is_object
from .blocks import Block, CallPart, OpaquePart, TextPart, ThinkingPart, redacted
from .profile import AnthropicProfile
from .usage import read_usage

_FINISHES: dict[str, FinishReason] = {
    "compaction": "pause",
    "content_filter": "content_filter",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "pause",
    "refusal": "refusal",
    "sensitive": "content_filter",
    "stop": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
}
_NO_BLOCK = Block()
_CUT_SHORT = ("length", "content_filter", "refusal")


class MessageStream:
    """Takes events and gives events; the last one is `Completed` or `Failed`.

    Args:
        profile: Facts of the server.
        model: The model that was asked for.
        secret: The key that was sent, to be kept out of messages.
    """

    def __init__(self, profile: AnthropicProfile, model: str | None = None, *, secret: str | None = None) -> None:
        self.closed = False
        """Whether the terminal event is out."""
        self.done = False
        """Whether the server said that nothing follows."""
        self._fold = Fold(profile.provider, model)
        self._needs_stop = profile.terminal_event
        self._secret = secret
        self._halves = Halves()
        self._started = False
        self._response_id: str | None = None
        self._blocks: dict[int, Block] = {}
        self._block: Block
        self._go_on_with(_NO_BLOCK, -1)
        self._numbers = itertools.count()
        self._call_ids: set[str] = set()
        self._stop_reason: str | None = None
        self._usage: dict[str, Any] = {}
        self._usage_is_final = False

    def feed(self, data: bytes, event: str | None = None, *, last: bool = False) -> list[ModelEvent]:
        """Take the data of one event.

        Args:
            data: The data.
            event: The name on the event's own line.
            last: Whether the stream ended inside this event: what can't be read then is only the end of a cut stream.
        """
        # What decides the cost of a delta: only what the long way would treat the same may pass here.
        chunk: Any = None
        try:
            chunk = from_json(data, cache_strings="keys")
            delta = chunk["delta"]
            if delta["type"] == self._plain and chunk["index"] == self._at and chunk["type"] == "content_block_delta":
                piece = delta[self._field]
                if piece and piece.__class__ is str:
                    return [self._add(piece)]
        except (ValueError, KeyError, TypeError):
            pass
        if self.closed or self.done:
            return []
        if chunk is None:
            chunk = self._halves.read(data)
        return self._take(chunk, event) if is_object(chunk) else self._unreadable(data, chunk, event, last)

    def feed_body(self, body: bytes) -> list[ModelEvent]:
        """Take a JSON body, which is a whole answer or a whole error."""
        try:
            chunk = from_json(body)
        except ValueError:
            chunk = self._halves.read(body)
        if not is_object(chunk):
            return self._unreadable(body, chunk, None, last=False)
        if chunk.get("type") == "error" or chunk.get("error"):
            return [self.fail(from_frame(chunk, secret=self._secret))]
        return self._take_whole(chunk)

    def finish(self) -> list[ModelEvent]:
        """Take the end of the answer and return what is left to tell, the terminal event last."""
        if self.closed:
            return []
        if self._stop_reason and (self.done or not self._needs_stop):
            return self._end()
        return [self.fail(broken("the stream ended before the answer was finished"))]

    def fail(self, failure: Failure) -> Failed:
        """Return the terminal event of a call that failed, with what was said until then."""
        self._close()
        return Failed(error=failure, partial=self._fold.partial(), usage=self._fold.usage)

    def _close(self) -> None:
        self.closed = True
        self._go_on_with(_NO_BLOCK, self._at)

    def _go_on_with(self, block: Block, index: int) -> None:
        self._block, self._at = block, index
        self._plain, self._field, self._add = block.plain, block.field, block.add

    def _take(self, chunk: dict[str, Any], event: str | None) -> list[ModelEvent]:
        kind = chunk.get("type") or event
        events: list[ModelEvent] = []
        match kind:
            case "message_start":
                self._take_message(as_object(chunk.get("message")), events)
            case "content_block_start":
                self._begin(chunk, events)
            case "content_block_delta":
                self._take_delta(chunk, events)
            case "content_block_stop":
                block = self._blocks.get(self._index(chunk))
                events += block.stop() if block else []
            case "message_delta":
                self._take_end(chunk, events)
            case "message_stop":
                events += self._end()
            case "message":
                events += self._take_whole(chunk)
            case _ if kind == "error" or chunk.get("error"):
                events.append(self.fail(from_frame(chunk, secret=self._secret)))
            case _:
                pass  # pings, and kinds that newer servers send
        return events

    def _take_whole(self, message: dict[str, Any]) -> list[ModelEvent]:
        """Take an answer in one piece: nothing follows it."""
        if not is_array(message.get("content")):
            return [self.fail(broken("the answer is JSON, but no message"))]
        events: list[ModelEvent] = []
        self._take_message(message, events, whole=True)
        return events if self.closed else events + self._end()

    def _take_message(self, message: dict[str, Any], events: list[ModelEvent], *, whole: bool = False) -> None:
        response_id = message.get("id")
        response_id = response_id if isinstance(response_id, str) and response_id else None
        if self._started:
            if response_id and self._response_id and response_id != self._response_id:
                events.append(self.fail(broken("another message began before this one had ended")))
                return
        else:
            model = message.get("model")
            self._fold.model = (model if isinstance(model, str) else None) or self._fold.model
            self._start(events)
            for index, block in enumerate(as_objects(message.get("content"))):
                self._begin({"index": index, "content_block": block}, events)
                if self.closed:
                    return
                events += self._blocks[index].stop()
        self._response_id = self._response_id or response_id
        self._take_end({"delta": message, "usage": message.get("usage")}, events, only_begun=not whole)

    def _start(self, events: list[ModelEvent]) -> None:
        if not self._started:
            self._started = True
            events.append(Started(model=self._fold.model))

    def _begin(self, chunk: dict[str, Any], events: list[ModelEvent]) -> None:
        self._start(events)
        if isinstance(self._block, OpaquePart):
            events += (
                self._block.stop()
            )  # it is put into its place when it ends, which has to be before the next begins
        index = chunk.get("index")
        self._at = index if isinstance(index, int) else self._at + 1
        block = self._make(as_object(chunk.get("content_block")), events)
        if block is not None:
            self._blocks[self._at] = block
            self._go_on_with(block, self._at)

    def _make(self, start: dict[str, Any], events: list[ModelEvent]) -> Block | None:
        match start.get("type"):
            case "text" | None:
                return TextPart(self._fold, start, events)
            case "thinking":
                return ThinkingPart(self._fold, start, events, self._numbers.__next__)
            case "redacted_thinking" if isinstance(start.get("data"), str):
                return redacted(self._fold, start)
            case "tool_use":
                name = start.get("name")
                if not isinstance(name, str) or not name:
                    events.append(self.fail(broken("a tool call without a name")))
                    return None
                return CallPart(self._fold, start, events, self._call_id(start.get("id")))
            case _:
                return OpaquePart(self._fold, start)

    def _call_id(self, given: Any) -> str:
        """Return the id of a new call: the server's, or one of our own where it sent none or the same twice."""
        call_id = given if isinstance(given, str) and given and given not in self._call_ids else new_call_id()
        self._call_ids.add(call_id)
        return call_id

    def _take_delta(self, chunk: dict[str, Any], events: list[ModelEvent]) -> None:
        delta, index = as_object(chunk.get("delta")), self._index(chunk)
        if index not in self._blocks:
            kind = {"text_delta": "text", "thinking_delta": "thinking"}.get(str(delta.get("type")))
            if kind is None:
                if delta.get("partial_json"):
                    events.append(self.fail(broken("the arguments of a tool call that has not begun")))
                return
            self._begin({"index": index, "content_block": {"type": kind}}, events)
        block = self._blocks[index]
        if block is not self._block:
            block.resume()
            self._go_on_with(block, index)
        events += block.take(delta)

    def _index(self, chunk: dict[str, Any]) -> int:
        index = chunk.get("index")
        return index if isinstance(index, int) else self._at

    def _take_end(self, chunk: dict[str, Any], events: list[ModelEvent], *, only_begun: bool = False) -> None:
        """Take the reason of the end and the usage, from the end of an answer or from its beginning."""
        self._start(events)
        reason = as_object(chunk.get("delta")).get("stop_reason")
        if reason:
            self._stop_reason = str(reason)
        # Reports are cumulative: the later one of a field counts, and a null says nothing.
        reported = {name: value for name, value in as_object(chunk.get("usage")).items() if value is not None}
        self._usage.update(reported)
        if "output_tokens" in reported and (reason or not only_begun):
            self._usage_is_final = True
        usage = read_usage(self._usage, final=self._usage_is_final)
        if usage not in (self._fold.usage, UNKNOWN_USAGE):
            self._fold.usage = usage
            events.append(UsageDelta(usage=usage))

    def _end(self) -> list[ModelEvent]:
        if not self._started:
            return [self.fail(broken("the stream ended before it had begun"))]
        reason = self._reason(calls=self._fold.has_calls)
        open_blocks = [block for block in self._blocks.values() if not block.stopped]
        half = [block for block in open_blocks if isinstance(block, CallPart) and block.is_half]
        if half and reason not in _CUT_SHORT:
            return [self.fail(broken("the stream ended inside a tool call"))]
        events = [event for block in open_blocks if block not in half for event in block.stop()]
        self._close()
        response = self._fold.response(reason, finish_reason_raw=self._stop_reason, response_id=self._response_id)
        valid = _valid(response.message.content)
        if len(valid) < len(response.message.content):
            reason = self._reason(calls=any(isinstance(block, ToolCallBlock) for block in valid))
            message = response.message.model_copy(update={"content": valid, "finish_reason": reason})
            response = response.model_copy(update={"message": message, "finish_reason": reason})
        if reason == "refusal":
            response = response.model_copy(update={"message": _refused(response.message)})
        return [*events, Completed(response=response)]

    def _reason(self, *, calls: bool) -> FinishReason:
        reason = _FINISHES.get(self._stop_reason or "", "unknown")
        if calls and reason in ("stop", "unknown", "pause"):
            return "tool_calls"
        return reason

    def _unreadable(self, data: bytes, chunk: Any, event: str | None, last: bool) -> list[ModelEvent]:
        if data.strip() == b"[DONE]":
            self.done = True
            self._go_on_with(_NO_BLOCK, self._at)
            return []
        if event == "error" and data.strip():
            return [self.fail(from_frame(data.decode("utf-8", "replace"), secret=self._secret))]
        if last or not data.strip():
            return []
        listed = next(iter(as_objects(as_array(chunk))), dict[str, Any]())
        if listed.get("error"):
            return [self.fail(from_frame(listed, secret=self._secret))]
        start = clean(data[:80].decode("utf-8", "replace"), self._secret)
        return [self.fail(broken(f"what the server sent is no JSON object: {start}"))]


def _valid(content: tuple[ContentBlock, ...]) -> tuple[ContentBlock, ...]:
    """Return the blocks without the calls that are void: another model took over after them."""
    switch = max((at for at, block in enumerate(content) if _is_switch(block)), default=-1)
    return tuple(block for at, block in enumerate(content) if at > switch or not isinstance(block, ToolCallBlock))


def _is_switch(block: ContentBlock) -> bool:
    return isinstance(block, ProviderDataBlock) and as_object(block.data).get("type") == "fallback"


def _refused(message: AssistantMessage) -> AssistantMessage:
    """Return the message with calls that can't be run: what was said before a refusal does not count."""
    content = tuple(
        block.model_copy(update={"arguments": None, "truncated": True}) if isinstance(block, ToolCallBlock) else block
        for block in message.content
    )
    return message.model_copy(update={"content": content})
