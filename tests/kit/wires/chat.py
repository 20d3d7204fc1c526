"""The chat completions protocol: with reasoning as text in a field, or with an array of typed parts beside it."""

import json
from collections.abc import Sequence
from typing import Any

from .script import Called, Hidden, Part, Said, Script, Thought
from .wire import Ability, Trouble, event, in_order

_TROUBLES: dict[Trouble, dict[str, str]] = {
    "rate_limit": {"type": "requests", "code": "rate_limit_exceeded"},
    "overloaded": {"type": "server_error", "code": "server_is_overloaded"},
    "invalid_request": {"type": "invalid_request_error"},
    "authentication": {"type": "invalid_request_error", "code": "invalid_api_key"},
}


class ChatWire:
    """Speaks the protocol as most servers do."""

    abilities: frozenset[Ability] = frozenset({"no_ids"})

    def frames(self, script: Script) -> list[bytes]:
        frames = [self._chunk({"role": "assistant", "content": ""})]
        calls = 0
        for number, part in enumerate(script.parts):
            match part:
                case Said():
                    frames += [self._chunk({"content": piece}) for piece in part.pieces]
                case Called():
                    frames += self._call(calls, part)
                    calls += 1
                case _:
                    frames += [self._chunk(delta) for delta in self._thought(number, part)]
        frames.append(self._chunk({}, script.finish))
        if script.usage is not None:
            frames.append(event({"id": "chatcmpl-1", "model": "m-1", "choices": [], "usage": _usage(script)}))
        return [*frames, b"data: [DONE]\n\n"]

    def body(self, script: Script) -> bytes:
        message: dict[str, Any] = {"role": "assistant", "content": script.text or None}
        message.update(self._thoughts(script))
        if script.calls:
            message["tool_calls"] = [
                {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": _arguments(call)}}
                for call in script.calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": script.finish}
        whole = {"id": "chatcmpl-1", "object": "chat.completion", "model": "m-1", "choices": [choice]}
        return json.dumps({**whole, "usage": _usage(script)} if script.usage else whole, ensure_ascii=False).encode()

    def error_frame(self, trouble: Trouble, message: str) -> bytes:
        return event(self._error(trouble, message))

    def error_body(self, trouble: Trouble, message: str) -> bytes:
        return json.dumps(self._error(trouble, message)).encode()

    def history(self, sent: dict[str, Any]) -> list[list[Part]]:
        said = [message for message in sent["messages"] if message["role"] == "assistant"]
        return [[*self._read(message), *_read(message)] for message in said]

    def results(self, sent: dict[str, Any]) -> list[str]:
        return [message["tool_call_id"] for message in sent["messages"] if message["role"] == "tool"]

    def kept(self, parts: Sequence[Part]) -> list[Part]:
        """Thoughts first, then all the text, then the calls: a message of this protocol has no order."""
        said = in_order(parts, self.abilities)
        text = "".join(part.text for part in said if isinstance(part, Said))
        calls: list[Part] = [part for part in said if isinstance(part, Called)]
        return [*self._thoughts_kept(said), *([Said((text,))] if text else []), *calls]

    def _thought(self, number: int, part: Thought | Hidden) -> list[dict[str, Any]]:
        return [{"reasoning_content": piece} for piece in part.pieces] if isinstance(part, Thought) else []

    def _thoughts(self, script: Script) -> dict[str, Any]:
        return {"reasoning_content": script.reasoning} if script.reasoning else {}

    def _thoughts_kept(self, said: list[Part]) -> list[Part]:
        text = "".join(part.text for part in said if isinstance(part, Thought))
        return [Thought((text,))] if text else []

    def _read(self, message: dict[str, Any]) -> list[Part]:
        text = message.get("reasoning_content")
        return [Thought((text,))] if text else []

    def _call(self, index: int, call: Called) -> list[bytes]:
        function: dict[str, Any] = {"name": call.name, "arguments": "" if call.whole is None else call.whole}
        fragments: list[dict[str, Any]] = [{"id": call.call_id, "type": "function", "function": function}]
        fragments += [{"function": {"arguments": piece}} for piece in call.pieces]
        return [self._chunk({"tool_calls": [{"index": index, **fragment}]}) for fragment in fragments]

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice]})

    def _error(self, trouble: Trouble, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "param": None, **_TROUBLES[trouble]}}


class DetailsWire(ChatWire):
    """Speaks as gateways do that pass on signed and encrypted reasoning: an array of parts beside the text."""

    abilities: frozenset[Ability] = frozenset({"no_ids", "signature", "hidden"})

    def _thought(self, number: int, part: Thought | Hidden) -> list[dict[str, Any]]:
        if isinstance(part, Hidden):
            return [{"reasoning": "", "reasoning_details": [_hidden(number, part)]}]
        deltas: list[dict[str, Any]] = [
            {"reasoning": piece, "reasoning_details": [_detail(number, text=piece)]} for piece in part.pieces
        ]
        if part.signature:
            deltas.append({"reasoning": "", "reasoning_details": [_detail(number, text="", signature=part.signature)]})
        return deltas

    def _thoughts(self, script: Script) -> dict[str, Any]:
        details: list[dict[str, Any]] = []
        for number, part in enumerate(script.parts):
            if isinstance(part, Hidden):
                details.append(_hidden(number, part))
            elif isinstance(part, Thought):
                details.append(_detail(number, text=part.text, signature=part.signature))
        return {"reasoning": script.reasoning or None, "reasoning_details": details} if details else {}

    def _thoughts_kept(self, said: list[Part]) -> list[Part]:
        return [part for part in said if isinstance(part, Thought | Hidden)]

    def _read(self, message: dict[str, Any]) -> list[Part]:
        parts: list[Part] = []
        for detail in message.get("reasoning_details", ()):
            if detail["type"] == "reasoning.encrypted":
                parts.append(Hidden(detail["data"]))
            else:
                parts.append(Thought((detail["text"],) if detail["text"] else (), detail.get("signature")))
        return parts


def _detail(number: int, **fields: str | None) -> dict[str, Any]:
    said = {name: value for name, value in fields.items() if value is not None}
    return {"type": "reasoning.text", **said, "format": "anthropic-claude-v1", "index": number}


def _hidden(number: int, part: Hidden) -> dict[str, Any]:
    return {"type": "reasoning.encrypted", "data": part.data, "format": "openai-responses-v1", "index": number}


def _arguments(call: Called) -> Any:
    return call.arguments if call.whole is None else call.whole


def _usage(script: Script) -> dict[str, Any]:
    usage = script.usage
    assert usage is not None
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _read(message: dict[str, Any]) -> list[Part]:
    calls = message.get("tool_calls", ())
    said: list[Part] = [Said((message["content"],))] if message.get("content") else []
    return [*said, *(Called(call["id"], call["function"]["name"], (call["function"]["arguments"],)) for call in calls)]
