"""A stream as lines, for pipes and logs: readable ones, or one JSON object for each item."""

from collections.abc import Callable, Iterator
from typing import Final, Self

from pydantic import JsonValue
from pydantic_core import to_json

from ..messages.items import (
    AssistantMessageItem,
    AttemptDiscarded,
    Custom,
    ItemsDropped,
    ModelDelta,
    ReplCall,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    StreamItem,
    ToolCallCompleted,
    ToolCallStarted,
    UnknownItem,
    Waiting,
)
from .cells import CellReport, call_label, shows_by_itself
from .figures import count_text, money_text, printable, seconds_text, short_id, tokens_text, waited_for

Write = Callable[[str], None]
"""Writes a line."""

_MOST_DATA: Final = 400
"""Characters that are shown of the data of a `custom` item."""


class JsonView:
    """Writes one stream item a line as JSON."""

    def __init__(self, write: Write) -> None:
        self._write = write

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def show(self, item: StreamItem) -> None:
        """Write the item."""
        self._write(item.model_dump_json() if isinstance(item, UnknownItem) else item.to_json())


class PlainView:
    """Writes a line for every event and every line of text (`|`) and of reasoning (`~`), each with its agent and the end of its run id."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._agents: dict[str, str] = {}
        self._texts: dict[str, tuple[str, str]] = {}
        """What a run has begun to say, behind the mark of what it is."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for run_id in list(self._texts):
            self._flush(run_id)

    def show(self, item: StreamItem) -> None:
        """Write the lines that the item completes."""
        if isinstance(item, RunStarted):
            self._agents[item.run_id] = item.agent
        if isinstance(item, ModelDelta):
            self._speak(item.run_id, "~", item.reasoning)
            self._speak(item.run_id, "|", item.text)
            return
        said = list(_lines_of(item))
        if said or isinstance(item, AssistantMessageItem):
            self._flush(item.run_id)
        for line in said:
            self._line(item.run_id, line)

    def _speak(self, run_id: str, mark: str, text: str) -> None:
        if not text:
            return
        if mark != self._texts.get(run_id, (mark, ""))[0]:
            self._flush(run_id)
        *complete, rest = (self._texts.get(run_id, (mark, ""))[1] + text).split("\n")
        self._texts[run_id] = (mark, rest)
        for line in complete:
            self._line(run_id, f"{mark} {line}")

    def _flush(self, run_id: str) -> None:
        mark, rest = self._texts.pop(run_id, ("|", ""))
        if rest:
            self._line(run_id, f"{mark} {rest}")

    def _line(self, run_id: str, text: str) -> None:
        agent = self._agents.get(run_id, "run")
        self._write(printable(f"[{agent} {short_id(run_id)}] {text}".rstrip()))


def _lines_of(item: StreamItem) -> Iterator[str]:
    match item:
        case RunStarted():
            yield f"started{f' on {item.model}' if item.model else ''}{f', attempt {item.attempt}' if item.attempt > 1 else ''}"
        case ToolCallStarted():
            yield f"{item.tool_name} called"
        case ToolCallCompleted():
            reason = f": {_one_line(item.message)}" if item.message else ""
            yield f"{item.tool_name} {item.outcome} after {seconds_text(item.duration)}{reason}"
        case ReplCall() | Custom():
            yield from _lines_of_cell(item)
        case AttemptDiscarded():
            yield _again(item)
        case Waiting(duration=None):
            yield f"waits for {waited_for(item)}"
        case Waiting():
            yield f"goes on after {seconds_text(item.duration or 0.0)}"
        case ItemsDropped():
            yield f"{count_text(item.count, 'item')} dropped"
        case RunCompleted() | RunFailed() | RunCancelled():
            yield _end(item)
        case _:
            pass


def _lines_of_cell(item: ReplCall | Custom) -> Iterator[str]:
    if isinstance(item, Custom):
        report = CellReport.of(item)
        yield from [f"{item.name}: {_json(item.data)}"] if report is None else report.lines()
    elif item.phase == "completed" and shows_by_itself(item):
        reason = f": {_one_line(item.message)}" if item.message else ""
        yield f"cell {item.cell}: {call_label(item)} {item.outcome} after {seconds_text(item.elapsed or 0.0)}{reason}"


def _json(data: JsonValue) -> str:
    text = to_json(data, inf_nan_mode="constants").decode()
    return text if len(text) <= _MOST_DATA else text[:_MOST_DATA] + "…"


def _again(item: AttemptDiscarded) -> str:
    if item.scope == "run":
        return f"attempt {item.discarded_attempt} is lost, the run starts again: {_one_line(item.reason) or 'no reason given'}"
    shown = "what was said does not count, it is said again" if item.last_seq >= item.first_seq else "trying again"
    wait = f" in {seconds_text(item.delay)}" if item.delay else ""
    return f"{shown}{wait}: {_one_line(item.reason) or item.scope}"


def _end(item: RunCompleted | RunFailed | RunCancelled) -> str:
    tokens, cost = tokens_text(item.usage), money_text(item.cost)
    figures = f"tokens {tokens}, cost {cost}, {seconds_text(item.duration)}"
    match item:
        case RunCompleted():
            return f"completed ({figures})"
        case RunFailed():
            return f"failed ({figures}): {_one_line(item.error.message)}"
        case RunCancelled():
            forced = ", killed" if item.forced else ""
            return f"cancelled ({figures}{forced}): {_one_line(item.reason) or 'no reason given'}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
