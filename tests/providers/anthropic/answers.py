"""A writer of answers of the messages protocol: events, blocks and whole streams."""

import json
import re
from collections.abc import Iterable
from typing import Any

Blocks = list[dict[str, Any]]


def event(kind: str, *, space: str = " ", **fields: Any) -> bytes:
    payload = json.dumps({"type": kind, **fields}, ensure_ascii=False, separators=(",", ":"))
    return f"data:{space}{payload}\n\n".encode()


def named(frames: bytes) -> bytes:
    """The events with the lines of their names, as the provider sends them; gateways leave them out."""
    return re.sub(rb'data: (\{"type":"(\w+)")', rb"event: \2\ndata: \1", frames)


# Every case is decoded once for each of its bytes: what they all have in common is short.
START_USAGE = {"input_tokens": 7, "cache_read_input_tokens": 5, "output_tokens": 1}
END_USAGE = {"output_tokens": 9}


def message(content: Blocks | None = None, stop_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    said = {"id": "msg_1", "content": content or [], "stop_reason": stop_reason}
    return {**said, "model": "m-1", "usage": START_USAGE, **fields}


def start(**fields: Any) -> bytes:
    return event("message_start", message=message(**fields))


def begin(index: int | None, block: dict[str, Any]) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def delta(index: int | None, kind: str, **fields: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": kind, **fields})


def stop(index: int | None) -> bytes:
    return event("content_block_stop", index=index)


def text(index: int, *pieces: str) -> bytes:
    deltas = b"".join(delta(index, "text_delta", text=piece) for piece in pieces)
    return begin(index, {"type": "text", "text": ""}) + deltas + stop(index)


def thinking(index: int, *pieces: str, signature: str | None = None) -> bytes:
    deltas = b"".join(delta(index, "thinking_delta", thinking=piece) for piece in pieces)
    signed = delta(index, "signature_delta", signature=signature) if signature is not None else b""
    return begin(index, {"type": "thinking", "thinking": "", "signature": ""}) + deltas + signed + stop(index)


def opened(index: int, call_id: str | None, name: str | None, *pieces: Any, **fields: Any) -> bytes:
    """A call whose end is not told."""
    block = {"type": "tool_use", "id": call_id, "name": name, "input": {}, **fields}
    return begin(index, block) + b"".join(delta(index, "input_json_delta", partial_json=piece) for piece in pieces)


def call(index: int, call_id: str | None, name: str | None, *pieces: Any, **fields: Any) -> bytes:
    return opened(index, call_id, name, *pieces, **fields) + stop(index)


def whole(index: int, block: dict[str, Any]) -> bytes:
    return begin(index, block) + stop(index)


def end(reason: str | None = "end_turn", usage: dict[str, Any] | None = END_USAGE) -> bytes:
    return event("message_delta", delta={"stop_reason": reason}, usage=usage) + event("message_stop")


def stream(*blocks: bytes, reason: str | None = "end_turn") -> bytes:
    return b"".join((start(), *blocks, end(reason)))


def served(blocks: Iterable[dict[str, Any]], reason: str = "end_turn", *, piece: int = 7) -> bytes:
    """A stream that says these blocks, texts and arguments in pieces."""
    return named(stream(*(_said(index, block, piece) for index, block in enumerate(blocks)), reason=reason))


def _said(index: int, block: dict[str, Any], size: int) -> bytes:
    match block["type"]:
        case "text":
            return text(index, *_pieces(block["text"], size))
        case "thinking":
            return thinking(index, *_pieces(block["thinking"], size), signature=block["signature"])
        case "tool_use":
            return call(index, block["id"], block["name"], *_pieces(json.dumps(block["input"]), size))
        case _:
            return whole(index, block)


def _pieces(said: str, size: int) -> list[str]:
    return [said[at : at + size] for at in range(0, len(said), size)]


SIGNATURE = "EpQB+/Signature=="
WEATHER = {"city": "Zürich"}
PING = event("ping")
SERVER_CALL: dict[str, Any] = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "x"},
}
SERVER_RESULT: dict[str, Any] = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"encrypted_content": "EqMB"}],
}
