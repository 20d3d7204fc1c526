"""The events of a responses answer, one after the other, to model events: a state machine without I/O."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, cast

import pydantic_core

from ...messages.failure import Failure
from ...messages.model import Completed, Failed, ModelEvent, Started, UsageDelta
from ...messages.transcript import FinishReason
from ...messages.usage import Cost
from ..charge import read_cost
from ..failures import broken, from_frame
from ..fold import UNKNOWN_USAGE, Fold
from ..halves import Halves
from ..secrets import clean
from ..shapes import as_object
from .answer import Answer
from .items import CallItem, CustomCallItem, Item, MessageItem, ReasoningItem
from .profile import ResponsesProfile
from .usage import read_usage

_INCOMPLETE: Mapping[str, FinishReason] = {
    "content_filter": "content_filter",
    "length": "length",
    "max_output_tokens": "length",
    "max_tokens": "length",
}
_CUT_SHORT = ("length", "content_filter")
_ENDINGS = frozenset({"completed", "incomplete", "failed", "cancelled"})


class ResponsesStream:
    """Takes events and gives model events; the last one is `Completed` or `Failed`.

    Args:
        profile: Facts of the server.
        model: The model that was asked for.
        secret: The key that was sent, to be kept out of messages.
    """

    def __init__(self, profile: ResponsesProfile, model: str | None = None, *, secret: str | None = None) -> None:
        self.closed = False
        """Whether the terminal event is out."""
        self.done = False
        """Whether the server said that nothing follows."""
        self._answer = Answer()
        self._provider = profile.provider
        self._model = model
        self._secret = secret
        self._halves = Halves()
        self._started = False
        self._fed: dict[str, Item] = {}
        self._usage = UNKNOWN_USAGE
        self._cost: Cost | None = None
        self._response_id: str | None = None

    def feed(self, data: bytes, event: str | None = None, *, last: bool = False) -> list[ModelEvent]:
        """Take the data of one event.

        Args:
            data: The data.
            event: The name on the event's own line, for servers whose data have no type.
            last: Whether the stream ended inside this event: what can't be read then is only the end of a cut stream.
        """
        if self.closed or self.done:
            return []
        try:
            said = pydantic_core.from_json(data)
            kind = said["type"]
            item = self._fed.get(kind)
        except (ValueError, KeyError, TypeError, IndexError):
            return self._take_odd(data, event, last)
        # The path that decides what a delta costs: it may only let pass what the long way would treat the same.
        if item is not None and not item.done and item.index == said.get("output_index"):
            piece = said.get("delta")
            if piece and piece.__class__ is str and event != "error":
                return item.feed(piece, said.get("summary_index"))
        return self._take(said, kind, event)

    def feed_body(self, body: bytes) -> list[ModelEvent]:
        """Take a JSON body, which is a whole answer or a whole error."""
        said = as_object(self._parse(body))
        kind = said.get("type")
        if isinstance(kind, str) and (kind in self._takers or kind == "error"):
            return self._take(said, kind, None)
        events: list[ModelEvent] = []
        if "output" in said or said.get("object") == "response":
            self._start(said, events)
            self._take_end(said, str(said.get("status") or "completed"), events)
        elif said:
            events.append(self.fail(from_frame(said, secret=self._secret)))
        return events or [self.fail(self._unreadable(body, "the answer"))]

    def finish(self) -> list[ModelEvent]:
        """Take the end of the answer and return what is left to tell, the terminal event last."""
        return [] if self.closed else [self.fail(broken("the stream ended before the answer was finished"))]

    def fail(self, failure: Failure) -> Failed:
        """Return the terminal event of a call that failed, with what was said until then."""
        self.closed = True
        return Failed(error=failure, partial=self._fold(ended=False).partial(), usage=self._usage)

    def _take(self, said: dict[str, Any], kind: Any, event: str | None) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        if not isinstance(kind, str):
            kind = event
        taker = self._takers.get(kind) if kind else None
        if kind == "error" or event == "error" or (taker is None and said.get("error")):
            events.append(self.fail(from_frame(said, secret=self._secret)))
        elif taker is not None:
            self._start(as_object(said.get("response")), events)
            taker(self, said, events)
        return events

    def _start(self, response: dict[str, Any], events: list[ModelEvent]) -> None:
        if not self._started:
            self._started = True
            self._read_head(response)
            events.append(Started(model=self._model))

    def _read_head(self, response: dict[str, Any]) -> None:
        model, response_id = response.get("model"), response.get("id")
        if isinstance(model, str) and model:
            self._model = model
        if isinstance(response_id, str) and response_id:
            self._response_id = response_id

    def _take_head(self, said: dict[str, Any], events: list[ModelEvent]) -> None:
        self._read_head(as_object(said.get("response")))

    def _take_added(self, said: dict[str, Any], events: list[ModelEvent]) -> None:
        self._fed.clear()
        events += self._answer.open(said, as_object(said.get("item")))

    def _take_whole(self, said: dict[str, Any], events: list[ModelEvent]) -> None:
        item = as_object(said.get("item"))
        if item:
            events += self._answer.close(said, item)

    def _take_piece(self, said: dict[str, Any], events: list[ModelEvent], wanted: type[Item]) -> None:
        piece, kind = said.get("delta"), said.get("type")
        if piece and isinstance(piece, str):
            item = self._answer.find(said, wanted)
            if isinstance(kind, str):
                self._fed[kind] = item
            events += item.feed(piece, said.get("summary_index"))

    def _take_refusal(self, said: dict[str, Any], events: list[ModelEvent]) -> None:
        self._answer.find(said, MessageItem).refuses = True
        self._take_piece(said, events, MessageItem)

    def _take_whole_arguments(self, said: dict[str, Any], events: list[ModelEvent]) -> None:
        if "arguments" in said:
            self._answer.find(said, CallItem).settle(said["arguments"])

    def _take_whole_input(self, said: dict[str, Any], events: list[ModelEvent]) -> None:
        if "input" in said:
            self._answer.find(said, CustomCallItem).settle(said["input"])

    def _take_terminal(self, said: dict[str, Any], events: list[ModelEvent], named: str) -> None:
        response = as_object(said.get("response"))
        status = response.get("status")
        # Some servers end a cut answer as completed and tell only by its status.
        decides = named == "completed" and isinstance(status, str) and status in _ENDINGS
        self._take_end(response, str(status) if decides else named, events)

    def _take_end(self, response: dict[str, Any], status: str, events: list[ModelEvent]) -> None:
        self._read_head(response)
        raw = as_object(response.get("usage"))
        self._usage, self._cost = read_usage(raw), read_cost(raw)
        ended = status == "incomplete" or (status == "completed" and not response.get("error"))
        if ended:
            events += self._answer.close_rest(response.get("output"))
        if self._usage != UNKNOWN_USAGE:
            events.append(UsageDelta(usage=self._usage))
        if not ended:
            events.append(self.fail(self._failure(response, status)))
            return
        why = as_object(response.get("incomplete_details")).get("reason") if status == "incomplete" else None
        events.append(self._completed(status, str(why or "")))

    def _failure(self, response: dict[str, Any], status: str) -> Failure:
        if status in ("failed", "error") or response.get("error"):
            return from_frame(response.get("error") or {}, secret=self._secret)
        if status == "cancelled":
            return Failure(code="provider", message="the answer was cancelled at the provider", retryable=True)
        message = f"the answer is not finished but {clean(status, self._secret)}. Don't ask for it in the background"
        return Failure(code="protocol", message=message)

    def _completed(self, status: str, why: str) -> ModelEvent:
        answer = self._answer
        reason: FinishReason = "stop"
        if status == "incomplete":
            reason = _INCOMPLETE.get(why, "unknown")
        elif answer.has_calls:
            reason = "tool_calls"
        elif answer.refuses:
            reason = "refusal"
        if answer.nameless and reason not in _CUT_SHORT:
            return self.fail(broken("the answer has a tool call without a name"))
        self.closed = True
        raw = clean(why, self._secret) if reason == "unknown" and why else status
        details = {"finish_reason_raw": raw, "cost": self._cost, "response_id": self._response_id}
        return Completed(response=self._fold(ended=True).response(reason, **details))

    def _fold(self, *, ended: bool) -> Fold:
        fold = Fold(self._provider, self._model)
        fold.usage = self._usage
        for block in self._answer.blocks(self._provider, ended=ended):
            fold.block(block)
        return fold

    def _take_odd(self, data: bytes, event: str | None, last: bool) -> list[ModelEvent]:
        """Take what is no object with a type: the end mark, an error in another shape, or nonsense."""
        stripped = data.strip()
        if stripped == b"[DONE]":
            self.done = True
            return []
        said = self._parse(data)
        if isinstance(said, dict):
            named = cast(dict[str, Any], said)
            return self._take(named, named.get("type"), event)
        if event == "error" and stripped:
            return [self.fail(from_frame(data.decode("utf-8", "replace"), secret=self._secret))]
        return [] if last or not stripped else [self.fail(self._unreadable(data, "an event of the stream"))]

    def _parse(self, data: bytes) -> Any:
        """Return the JSON value, `None` if it is none."""
        try:
            return pydantic_core.from_json(data)
        except ValueError:
            return self._halves.read(data)

    def _unreadable(self, data: bytes, what: str) -> Failure:
        start = clean(data[:80].decode("utf-8", "replace"), self._secret)
        return broken(f"{what} is no JSON object of the protocol: {start}")

    _takers: ClassVar[Mapping[str, Callable[..., None]]] = {
        "response.created": _take_head,
        "response.in_progress": _take_head,
        "response.queued": _take_head,
        "response.output_item.added": _take_added,
        "response.output_item.done": _take_whole,
        "response.output_text.delta": partial(_take_piece, wanted=MessageItem),
        "response.refusal.delta": _take_refusal,
        "response.reasoning_summary_text.delta": partial(_take_piece, wanted=ReasoningItem),
        "response.reasoning_text.delta": partial(_take_piece, wanted=ReasoningItem),
        "response.function_call_arguments.delta": partial(_take_piece, wanted=CallItem),
        "response.function_call_arguments.done": _take_whole_arguments,
        "response.custom_tool_call_input.delta": partial(_take_piece, wanted=CustomCallItem),
        "response.custom_tool_call_input.done": _take_whole_input,
        "response.completed": partial(_take_terminal, named="completed"),
        "response.incomplete": partial(_take_terminal, named="incomplete"),
        "response.failed": partial(_take_terminal, named="failed"),
        "response.cancelled": partial(_take_terminal, named="cancelled"),
        "response.done": partial(_take_terminal, named="completed"),
    }
