"""The chunks of a chat completions answer, one after the other, to model events: a state machine without I/O."""

from typing import Any, cast

from pydantic_core import from_json

from ...messages.content import RedactedThinkingBlock
from ...messages.failure import Failure
from ...messages.model import (
    Completed,
    Failed,
    ModelEvent,
    ReasoningDelta,
    SignatureDelta,
    Started,
    TextDelta,
    UsageDelta,
)
from ...messages.transcript import FinishReason
from ...messages.usage import Cost
from ..failures import broken, from_frame
from ..fold import UNKNOWN_USAGE, Fold
from ..halves import Halves
from ..secrets import clean
from ..shapes import as_object, as_objects
from .calls import CallAssembler
from .details import ReasoningDetails
from .parts import PieceKind, pieces_of, readable
from .plain import plain_delta
from .profile import ChatProfile
from .think import ThinkSplitter
from .usage import read_cost, read_usage

_FINISHES: dict[str, FinishReason] = {
    "content_filter": "content_filter",
    "end": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "safety": "content_filter",
    "stop": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
}
_FAILURES = frozenset({"error", "aborted", "insufficient_system_resource"})


class ChatStream:
    """Takes chunks and gives events; the last event is `Completed` or `Failed`.

    Args:
        profile: Facts of the server.
        model: The model that was asked for.
        secret: The key that was sent, to be kept out of messages.
    """

    def __init__(self, profile: ChatProfile, model: str | None = None, *, secret: str | None = None) -> None:
        self.closed = False
        """Whether the terminal event is out."""
        self.done = False
        """Whether the server said that nothing follows."""
        self._fold = Fold(profile.provider, model)
        self._profile = profile
        self._calls = CallAssembler(profile.kept_fields)
        self._think = (
            ThinkSplitter(profile.think_tag_names, opened=profile.think_opened) if profile.think_tags else None
        )
        self._fields = profile.reasoning_fields
        special = {*profile.kept_fields, profile.details_field, profile.signature_field}
        self._plain_fields = frozenset(profile.reasoning_fields) - special
        self._details = ReasoningDetails()
        self._detail_blocks: list[int] = []
        self._kept: dict[str, Any] = {}
        self._secret = secret
        self._halves = Halves()
        self._started = False
        self._headed = False
        self._served: str | None = None
        self._whole = False
        self._thinking = False
        self._signed = False
        self._block = -1
        self._finish: str | None = None
        self._refusal = False
        self._usage: dict[str, Any] = {}
        self._cost: Cost | None = None
        self._response_id: str | None = None

    def feed(self, data: bytes, event: str | None = None, *, last: bool = False) -> list[ModelEvent]:
        """Take the data of one event.

        Args:
            data: The data.
            event: The name on the event's own line.
            last: Whether the stream ended inside this event: what can't be read then is only the end of a cut stream.
        """
        if self.closed or self.done:
            return []
        try:
            chunk = from_json(data, cache_strings="keys")
        except ValueError:
            chunk = self._halves.read(data)
        if chunk.__class__ is not dict:
            return self._unreadable(data, chunk, event, last)
        if self._headed and event is None:
            said = plain_delta(chunk)
            delta = None if said is None else self._take_plain(said[0], said[1])
            if delta is not None:
                return [delta]
        return self._take(cast(dict[str, Any], chunk), event)

    def feed_body(self, body: bytes) -> list[ModelEvent]:
        """Take a JSON body, which is a whole answer or a whole error."""
        events = self.feed(body)
        self._whole = True
        return events

    def finish(self) -> list[ModelEvent]:
        """Take the end of the answer and return what is left to tell, the terminal event last."""
        if self.closed:
            return []
        if not self._started or not (self._finish or self.done or self._whole):
            return [self.fail(broken("the stream ended before the answer was finished"))]
        events: list[ModelEvent] = []
        if self._think:
            self._tell(self._think.close(), events)
        for delta in self._calls.close(whole_answer=True):
            self._fold.call(delta.call_id, delta.tool_name, delta.arguments)
            events.append(delta)
        self._settle(events)
        events.append(self._terminal())
        return events

    def fail(self, failure: Failure) -> Failed:
        """Return the terminal event of a call that failed, with what was said until then."""
        if not self.closed:
            self._settle([])
        self.closed = True
        for delta in self._calls.close(whole_answer=False):
            self._fold.call(delta.call_id, delta.tool_name, delta.arguments)
        return Failed(error=failure, partial=self._fold.partial(), usage=self._fold.usage)

    def _take(self, chunk: dict[str, Any], event: str | None) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        if not self._headed:
            self._start(chunk, events)
        usage = chunk.get("usage")
        if usage:
            self._take_usage(usage, events)
        error = chunk.get("error")
        if error or event == "error" or chunk.get("object") == "error":
            events.append(self.fail(from_frame(chunk, secret=self._secret)))
            return events
        choices = chunk.get("choices")
        if choices:
            for choice in choices if choices.__class__ is list else ():
                if choice.__class__ is dict and not choice.get("index"):
                    self._take_choice(choice, events)
        if "x_groq" in chunk:
            self._take_side_channel(chunk["x_groq"], events)
        return events

    def _take_plain(self, field: str, value: Any) -> ModelEvent | None:
        """Take a delta that says one thing and goes on with what was said before it; `None`: it has to go the long way."""
        if value.__class__ is str:
            if field == "content" and self._think is None:
                self._thinking = False
                self._fold.text(value)
                return TextDelta.of(value)
            if self._thinking and not self._signed and field in self._plain_fields:
                self._fold.reasoning(value, self._block)
                return ReasoningDelta.of(value, self._block)
        elif field == "tool_calls":
            delta = self._calls.go_on(value)
            if delta is not None:
                self._thinking = False
                self._fold.call(delta.call_id, delta.tool_name, delta.arguments)
                return delta
        return None

    def _start(self, chunk: dict[str, Any], events: list[ModelEvent]) -> None:
        if chunk.get("error") or chunk.get("object") == "error":
            return
        # Some servers send something ahead that has no id and no model yet: what is missing may come until the first choice.
        model, response_id = chunk.get("model"), chunk.get("id")
        if isinstance(model, str) and not self._served:
            self._served = model
            self._fold.model = model or self._fold.model
        if isinstance(response_id, str) and not self._response_id:
            self._response_id = response_id or None
        self._headed = bool(chunk.get("choices"))
        if not self._started:
            self._started = True
            events.append(Started(model=self._fold.model))

    def _take_choice(self, choice: dict[str, Any], events: list[ModelEvent]) -> None:
        delta = choice.get("delta")
        if delta is None and self._fold.empty:
            # A whole message counts only where there was no delta: some servers repeat in it what these said.
            delta = choice.get("message")
        if delta.__class__ is dict:
            self._take_delta(cast(dict[str, Any], delta), events)
        finish = choice.get("finish_reason")
        if finish and not self._finish:
            self._finish = str(finish)
        usage = choice.get("usage")
        if usage:
            self._take_usage(usage, events)
        error = choice.get("error")
        if error and not self.closed:
            events.append(self.fail(from_frame(error, secret=self._secret)))

    def _take_delta(self, delta: dict[str, Any], events: list[ModelEvent]) -> None:
        self._take_reasoning(delta, events)
        content = delta.get("content")
        if content:
            if content.__class__ is str:
                if self._think is None:
                    self._take_text(content, events)
                else:
                    self._tell(self._think.feed(content), events)
            else:
                self._tell(pieces_of(content), events)
        calls = delta.get("tool_calls")
        if calls:
            self._take_calls(calls, events)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            self._refusal = True
            self._tell([("text", refusal)], events)
        legacy = delta.get("function_call")
        if legacy and isinstance(legacy, dict):
            self._take_calls([{"index": 0, "function": legacy}], events)
        for field in self._profile.kept_fields:
            if delta.get(field):
                self._keep(field, delta[field])

    def _take_reasoning(self, delta: dict[str, Any], events: list[ModelEvent]) -> None:
        reasoning = ""
        for field in self._fields:
            value = delta.get(field)
            if value:
                reasoning = readable(value)
                break
        details = delta.get(self._profile.details_field)
        if details:
            self._take_details(details, reasoning, events)
        elif reasoning:
            self._tell([("reasoning", reasoning)], events)
        signature = delta.get(self._profile.signature_field or "")
        if signature and isinstance(signature, str):
            self._tell([("signature", signature)], events)

    def _take_text(self, piece: str, events: list[ModelEvent]) -> None:
        if piece:
            self._thinking = False
            self._fold.text(piece)
            events.append(TextDelta.of(piece))

    def _take_calls(self, fragments: Any, events: list[ModelEvent]) -> None:
        for delta in self._calls.feed(fragments):
            self._thinking = False
            self._fold.call(delta.call_id, delta.tool_name, delta.arguments)
            events.append(delta)

    def _take_details(self, details: Any, mirror: str, events: list[ModelEvent]) -> None:
        """Take reasoning as an array of parts; its text counts once, and its mirror in a plain field rather than what the parts say."""
        pieces = self._details.feed(details)
        if "".join(piece.text for piece in pieces) != mirror and mirror:
            pieces = [piece._replace(text="" if at else mirror) for at, piece in enumerate(pieces)]
        if not pieces:
            self._tell([("reasoning", mirror)], events)
        for piece in pieces:
            if piece.is_new:
                self._begin_detail(piece.part)
            self._tell([("reasoning", piece.text)], events)

    def _begin_detail(self, part: dict[str, Any]) -> None:
        """Give a new part a thinking block: each may have one signature."""
        has_text = "data" not in part
        if not has_text and self._detail_blocks:
            self._detail_blocks.append(self._detail_blocks[0])
            return
        self._thinking = self._thinking and self._block not in self._detail_blocks
        self._think_on()
        self._detail_blocks.append(self._block)

    def _think_on(self) -> None:
        """Let a thinking block be open, a new one where the last has ended."""
        if not self._thinking:
            self._thinking = True
            self._signed = False
            self._block += 1
            self._fold.reasoning("", self._block)

    def _keep(self, field: str, value: Any) -> None:
        self._kept[field] = value
        self._fold.text_extras(dict(self._kept))

    def _settle(self, events: list[ModelEvent]) -> None:
        """Put what is to be sent back with reasoning where it belongs; its signatures are known for certain only at the end."""
        if not self._detail_blocks:
            return
        for part, block in zip(self._details.parts, self._detail_blocks, strict=True):
            signature = part.get("signature")
            if signature and isinstance(signature, str):
                self._fold.signature(signature, block)
                events.append(SignatureDelta(signature=signature, index=block))
        self._fold.thinking_extras(self._detail_blocks[0], {self._profile.details_field: self._details.parts})

    def _tell(self, pieces: list[tuple[PieceKind, str]], events: list[ModelEvent]) -> None:
        for kind, piece in pieces:
            if not piece:
                continue
            if kind == "text":
                self._take_text(piece, events)
            elif kind == "reasoning":
                self._thinking = self._thinking and not self._signed
                self._think_on()
                self._fold.reasoning(piece, self._block)
                events.append(ReasoningDelta.of(piece, self._block))
            elif kind == "signature":
                self._think_on()
                self._signed = True
                self._fold.signature(piece, self._block)
                events.append(SignatureDelta(signature=piece, index=self._block))
            else:
                self._thinking = False
                self._fold.block(RedactedThinkingBlock(data=piece, provider=self._profile.provider))

    def _take_usage(self, raw: Any, events: list[ModelEvent]) -> None:
        # Reports replace each other; a null in a later one does not erase what was known.
        self._usage.update({key: value for key, value in as_object(raw).items() if value is not None})
        usage = read_usage(self._usage, self._profile.usage_counts)
        self._cost = read_cost(self._usage)
        if usage not in (self._fold.usage, UNKNOWN_USAGE):
            self._fold.usage = usage
            events.append(UsageDelta(usage=usage))

    def _take_side_channel(self, raw: Any, events: list[ModelEvent]) -> None:
        side = as_object(raw)
        self._take_usage(side.get("usage"), events)
        if side.get("error") and not self.closed:
            events.append(self.fail(from_frame(side["error"], secret=self._secret)))

    def _unreadable(self, data: bytes, chunk: Any, event: str | None, last: bool) -> list[ModelEvent]:
        if data.strip() == b"[DONE]":
            self.done = True
            return []
        if event == "error" and data.strip():
            return [self.fail(from_frame(data.decode("utf-8", "replace"), secret=self._secret))]
        if last or not data.strip():
            return []
        listed = next(iter(as_objects(chunk)), dict[str, Any]())
        if listed.get("error"):
            return [self.fail(from_frame(listed, secret=self._secret))]
        start = clean(data[:80].decode("utf-8", "replace"), self._secret)
        return [self.fail(broken(f"an event of the stream is no JSON object: {start}"))]

    def _terminal(self) -> ModelEvent:
        fold, raw = self._fold, self._finish
        if raw and raw.lower() in _FAILURES:
            return self.fail(
                Failure(code="overloaded", message=f"the server gave up: {raw}", retryable=True, provider_code=raw)
            )
        reason = self._reason(raw)
        unfinished = self._calls.nameless or not fold.calls_are_whole
        if (raw is None and unfinished) or (self._calls.nameless and reason not in ("length", "content_filter")):
            return self.fail(broken("the stream ended inside a tool call"))
        for call_id, extras in self._calls.extras.items():
            fold.call_extras(call_id, extras)
        self.closed = True
        response = fold.response(reason, finish_reason_raw=raw, cost=self._cost, response_id=self._response_id)
        return Completed(response=response)

    def _reason(self, raw: str | None) -> FinishReason:
        reason = _FINISHES.get(raw.lower(), "unknown") if raw else "unknown"
        if self._fold.has_calls:
            return "tool_calls" if reason in ("stop", "unknown") else reason
        return "refusal" if self._refusal and reason in ("stop", "unknown") else reason
