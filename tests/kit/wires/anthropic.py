"""The Anthropic messages protocol."""

import json
from collections.abc import Sequence
from typing import Any

from .script import Called, Hidden, Part, Said, Script, Thought
from .wire import Ability, Trouble, event, in_order

_STOPS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
    "pause": "pause_turn",
}
_TROUBLES: dict[Trouble, str] = {
    "rate_limit": "rate_limit_error",
    "overloaded": "overloaded_error",
    "invalid_request": "invalid_request_error",
    "authentication": "authentication_error",
}


class AnthropicWire:
    """Speaks the protocol as the provider does, with pings between the blocks."""

    abilities: frozenset[Ability] = frozenset({"signature", "hidden", "order", "cache_write"})

    def frames(self, script: Script) -> list[bytes]:
        message = {**_message(script), "content": [], "stop_reason": None}
        if script.usage is not None:
            message["usage"] = {**_usage(script), "output_tokens": 1}
            del message["usage"]["output_tokens_details"]
        frames = [_event("message_start", message=message), _event("ping")]
        for index, part in enumerate(script.parts):
            frames.append(_event("content_block_start", index=index, content_block=_opened(part)))
            frames += [_event("content_block_delta", index=index, delta=delta) for delta in _deltas(part)]
            frames.append(_event("content_block_stop", index=index))
        end = {"stop_reason": _STOPS[script.finish], "stop_sequence": None}
        usage = {"usage": _usage(script)} if script.usage is not None else {}
        return [*frames, _event("message_delta", delta=end, **usage), _event("message_stop")]

    def body(self, script: Script) -> bytes:
        message = {**_message(script), "content": [_whole(part) for part in script.parts]}
        if script.usage is not None:
            message["usage"] = _usage(script)
        return json.dumps(message, ensure_ascii=False).encode()

    def error_frame(self, trouble: Trouble, message: str) -> bytes:
        return _event("error", error={"type": _TROUBLES[trouble], "message": message, "details": None})

    def error_body(self, trouble: Trouble, message: str) -> bytes:
        error = {"type": _TROUBLES[trouble], "message": message}
        return json.dumps({"type": "error", "error": error, "request_id": "req_1"}).encode()

    def kept(self, parts: Sequence[Part]) -> list[Part]:
        return in_order(parts, self.abilities)

    def history(self, sent: dict[str, Any]) -> list[list[Part]]:
        said = [message["content"] for message in sent["messages"] if message["role"] == "assistant"]
        return [[part for block in _blocks(content) for part in _read(block)] for content in said]

    def results(self, sent: dict[str, Any]) -> list[str]:
        said = [message["content"] for message in sent["messages"] if message["role"] == "user"]
        blocks = [block for content in said for block in _blocks(content)]
        return [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


def _message(script: Script) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "stop_reason": _STOPS[script.finish],
        "stop_sequence": None,
    }


def _usage(script: Script) -> dict[str, Any]:
    usage = script.usage
    assert usage is not None
    read, write = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    return {
        "input_tokens": (usage.input_tokens or 0) - read - write,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


def _opened(part: Part) -> dict[str, Any]:
    match part:
        case Said():
            return {"type": "text", "text": ""}
        case Thought():
            return {"type": "thinking", "thinking": "", "signature": ""}
        case Hidden():
            return {"type": "redacted_thinking", "data": part.data}
        case Called():
            return {"type": "tool_use", "id": part.call_id, "name": part.name, "input": part.whole or {}}


def _deltas(part: Part) -> list[dict[str, Any]]:
    match part:
        case Said():
            return [{"type": "text_delta", "text": piece} for piece in part.pieces]
        case Thought():
            deltas: list[dict[str, Any]] = [{"type": "thinking_delta", "thinking": piece} for piece in part.pieces]
            if part.signature:
                deltas.append({"type": "signature_delta", "signature": part.signature})
            return deltas
        case Hidden():
            return []
        case Called():
            pieces = () if part.whole is not None else ("", *part.pieces)
            return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _whole(part: Part) -> dict[str, Any]:
    match part:
        case Said():
            return {"type": "text", "text": part.text}
        case Thought():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature or ""}
        case Hidden():
            return {"type": "redacted_thinking", "data": part.data}
        case Called():
            arguments = json.loads(part.arguments or "{}") if part.whole is None else part.whole
            return {"type": "tool_use", "id": part.call_id, "name": part.name, "input": arguments}


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _read(block: dict[str, Any]) -> list[Part]:
    match block["type"]:
        case "text":
            return [Said((block["text"],))]
        case "thinking":
            return [Thought((block["thinking"],) if block["thinking"] else (), block.get("signature"))]
        case "redacted_thinking":
            return [Hidden(block["data"])]
        case "tool_use":
            return [Called(block["id"], block["name"], (json.dumps(block["input"], ensure_ascii=False),))]
        case other:
            raise AssertionError(f"a block of kind {other}")
