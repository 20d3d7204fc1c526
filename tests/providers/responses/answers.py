"""Writes answers of the responses protocol as servers are known to send them."""

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

Event = dict[str, Any]

USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 6},
    "output_tokens": 4,
    "output_tokens_details": {"reasoning_tokens": 1},
    "total_tokens": 14,
}
WEATHER = {"city": "Zürich"}
WEATHER_TEXT = json.dumps(WEATHER, ensure_ascii=False)


def frame(event: Any, *, named: bool = True, end: str = "\n") -> bytes:
    head = f"event: {event['type']}{end}" if named and "type" in event else ""
    return f"{head}data: {json.dumps(event, ensure_ascii=False)}{end}{end}".encode()


def stream(*events: Event, named: bool = True, end: str = "\n", done: bool = False) -> bytes:
    """The bytes of these events, numbered, with `[DONE]` after them where it is asked for."""
    numbers = itertools.count()
    body = b"".join(frame({**event, "sequence_number": next(numbers)}, named=named, end=end) for event in events)
    return body + (f"data: [DONE]{end}{end}".encode() if done else b"")


def response(*output: Event, status: str = "completed", **more: Any) -> Event:
    """A response object."""
    usage = USAGE if status in ("completed", "incomplete") else None
    return {
        "id": "resp_1",
        "object": "response",
        "model": "m-1",
        "status": status,
        "error": None,
        "incomplete_details": None,
        "output": list(output),
        "usage": usage,
        **more,
    }


CREATED: Event = {"type": "response.created", "response": response(status="in_progress")}


def end(*output: Event, status: str = "completed", **more: Any) -> Event:
    """The last event."""
    return {"type": f"response.{status}", "response": response(*output, status=status, **more)}


def message(*parts: Event | str, number: int = 1, **more: Any) -> Event:
    """A message item; strings are parts of plain text."""
    content = [text(part) if isinstance(part, str) else part for part in parts]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "status": "completed",
        "content": content,
        "role": "assistant",
        **more,
    }


def text(words: str, **more: Any) -> Event:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": words, **more}


def refusal(words: str) -> Event:
    return {"type": "refusal", "refusal": words}


def reasoning(*summaries: str, encrypted: str | None = "gAAA==", number: int = 1, **more: Any) -> Event:
    """A reasoning item."""
    summary = [{"type": "summary_text", "text": each} for each in summaries]
    item = {"id": f"rs_{number}", "type": "reasoning", "summary": summary, **more}
    return item if encrypted is None else {**item, "encrypted_content": encrypted}


def thought(words: str, number: int = 1) -> Event:
    """A reasoning item of a model whose reasoning can be read."""
    return reasoning(encrypted=None, number=number, content=[{"type": "reasoning_text", "text": words}])


def call(
    arguments: str = WEATHER_TEXT, name: str = "get", call_id: str = "call_1", number: int = 1, **more: Any
) -> Event:
    """A function call item."""
    return {
        "id": f"fc_{number}",
        "type": "function_call",
        "status": "completed",
        "arguments": arguments,
        "call_id": call_id,
        "name": name,
        **more,
    }


def search(number: int = 1) -> Event:
    """An item of a tool that the provider runs."""
    return {
        "id": f"ws_{number}",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }


def events_of(item: Event, index: int = 0, size: int = 4) -> Iterator[Event]:
    """What a server streams for an item: its announcement, its pieces, and itself."""
    yield {"type": "response.output_item.added", "output_index": index, "item": announced(item)}
    place = {"item_id": item["id"], "output_index": index}
    for kind, more, whole in _pieced(item):
        for piece in pieces(whole, size):
            yield {"type": f"response.{kind}.delta", **place, **more, "delta": piece}
        yield {"type": f"response.{kind}.done", **place, **more, _WHOLE.get(kind, "text"): whole}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def answer(*items: Event, size: int = 4, last: Event | None = None) -> list[Event]:
    """A whole answer of these items."""
    streamed = [event for index, item in enumerate(items) for event in events_of(item, index, size)]
    return [CREATED, *streamed, last or end(*items)]


def announced(item: Event) -> Event:
    """An item as it is announced: empty, with a shorter encrypted content."""
    empty: Event = {"content": [], "summary": [], "arguments": "", "input": "", "status": "in_progress"}
    begun = {**item, **{field: value for field, value in empty.items() if field in item}}
    return {**begun, "encrypted_content": "short"} if item.get("encrypted_content") else begun


def pieces(whole: str, size: int) -> Sequence[str]:
    return [whole[at : at + size] for at in range(0, len(whole), size)]


_WHOLE = {"function_call_arguments": "arguments", "custom_tool_call_input": "input", "refusal": "refusal"}


def _pieced(item: Event) -> Iterator[tuple[str, Event, str]]:
    for number, part in enumerate(item.get("summary") or []):
        yield "reasoning_summary_text", {"summary_index": number}, part["text"]
    for number, part in enumerate(item.get("content") or []):
        kind = {"reasoning_text": "reasoning_text", "refusal": "refusal"}.get(part["type"], "output_text")
        yield kind, {"content_index": number}, part["refusal" if kind == "refusal" else "text"]
    if item["type"] == "function_call":
        yield "function_call_arguments", {}, item["arguments"]
    if item["type"] == "custom_tool_call":
        yield "custom_tool_call_input", {}, item["input"]
