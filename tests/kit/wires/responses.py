"""OpenAI's responses protocol."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

from .script import Called, Hidden, Part, Said, Script, Thought
from .wire import Ability, Trouble, adapted, event, in_order

_TROUBLES: dict[Trouble, dict[str, str]] = {
    "rate_limit": {"type": "tokens", "code": "rate_limit_exceeded"},
    "overloaded": {"type": "server_error", "code": "server_is_overloaded"},
    "invalid_request": {"type": "invalid_request_error", "code": "invalid_prompt"},
    "authentication": {"type": "invalid_request_error", "code": "invalid_api_key"},
}


class ResponsesWire:
    """Speaks the protocol as the provider does. Its hidden thought is a reasoning item without a summary."""

    abilities: frozenset[Ability] = frozenset({"signature", "order"})

    def frames(self, script: Script) -> list[bytes]:
        numbers = itertools.count()
        begun = {**_response(script), "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ]
        for index, part in enumerate(script.parts):
            item = _item(part, index, whole=_ends_whole(script, index))
            opened = _item(part, index, opened=True)
            events.append({"type": "response.output_item.added", "output_index": index, "item": opened})
            events += [{"output_index": index, "item_id": item["id"], **delta} for delta in _deltas(part)]
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        ending = "response.incomplete" if script.finish == "length" else "response.completed"
        events.append({"type": ending, "response": _response(script)})
        return [event({**each, "sequence_number": next(numbers)}, each["type"]) for each in events]

    def body(self, script: Script) -> bytes:
        return json.dumps(_response(script), ensure_ascii=False).encode()

    def error_frame(self, trouble: Trouble, message: str) -> bytes:
        error = {"message": message, "param": None, **_TROUBLES[trouble]}
        return event({"type": "error", "error": error, "sequence_number": 99}, "error")

    def error_body(self, trouble: Trouble, message: str) -> bytes:
        return json.dumps({"error": {"message": message, "param": None, **_TROUBLES[trouble]}}).encode()

    def kept(self, parts: Sequence[Part]) -> list[Part]:
        """All but the thoughts at the end: the provider refuses one without the item that it led to."""
        kept = in_order(adapted(self, Script(parts)).parts, self.abilities)
        while kept and isinstance(kept[-1], Thought):
            kept.pop()
        return kept

    def history(self, sent: dict[str, Any]) -> list[list[Part]]:
        turns: list[list[Part]] = []
        open_turn = False
        for item in sent["input"]:
            part = _read(item)
            if part is not None:
                if not open_turn:
                    turns.append([])
                turns[-1].append(part)
            open_turn = part is not None
        return turns

    def results(self, sent: dict[str, Any]) -> list[str]:
        return [item["call_id"] for item in sent["input"] if item.get("type") == "function_call_output"]


def _response(script: Script) -> dict[str, Any]:
    cut = script.finish == "length"
    return {
        "id": "resp_1",
        "object": "response",
        "model": "m-1",
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "output": [_item(part, at, whole=_ends_whole(script, at)) for at, part in enumerate(script.parts)],
        "usage": _usage(script) if script.usage is not None else None,
    }


def _ends_whole(script: Script, index: int) -> bool:
    return script.finish != "length" or index < len(script.parts) - 1


def _usage(script: Script) -> dict[str, Any]:
    usage = script.usage
    assert usage is not None
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.tokens,
    }


def _item(part: Part, index: int, *, opened: bool = False, whole: bool = True) -> dict[str, Any]:
    status = "in_progress" if opened else "completed" if whole else "incomplete"
    match part:
        case Said():
            content = [] if opened else [{"type": "output_text", "text": part.text, "annotations": []}]
            said = {"id": f"msg_{index}", "type": "message", "role": "assistant", "status": status}
            return {**said, "content": content}
        case Thought():
            summary = [] if opened or not part.text else [{"type": "summary_text", "text": part.text}]
            reasoning: dict[str, Any] = {"id": f"rs_{index}", "type": "reasoning", "summary": summary}
            if part.signature:
                reasoning["encrypted_content"] = part.signature[:1] if opened else part.signature
            return reasoning
        case Hidden():
            return {"id": f"rs_{index}", "type": "reasoning", "summary": [], "encrypted_content": part.data}
        case Called():
            arguments = part.arguments if part.whole is None else json.dumps(part.whole, ensure_ascii=False)
            call = {"id": f"fc_{index}", "type": "function_call", "status": status, "call_id": part.call_id}
            return {**call, "name": part.name, "arguments": "" if opened else arguments}


def _deltas(part: Part) -> list[dict[str, Any]]:
    match part:
        case Said():
            place: dict[str, Any] = {"content_index": 0}
            blank = {"type": "output_text", "text": "", "annotations": []}
            texts = [{"type": "response.output_text.delta", **place, "delta": piece} for piece in part.pieces]
            return [
                {"type": "response.content_part.added", **place, "part": blank},
                *texts,
                {"type": "response.output_text.done", **place, "text": part.text},
                {"type": "response.content_part.done", **place, "part": {**blank, "text": part.text}},
            ]
        case Thought() if part.text:
            place = {"summary_index": 0}
            kind = "response.reasoning_summary_text"
            blank = {"type": "summary_text", "text": ""}
            texts = [{"type": f"{kind}.delta", **place, "delta": piece} for piece in part.pieces]
            return [
                {"type": "response.reasoning_summary_part.added", **place, "part": blank},
                *texts,
                {"type": f"{kind}.done", **place, "text": part.text},
                {"type": "response.reasoning_summary_part.done", **place, "part": {**blank, "text": part.text}},
            ]
        case Called() if part.whole is None:
            kind = "response.function_call_arguments"
            pieces: list[dict[str, Any]] = [{"type": f"{kind}.delta", "delta": piece} for piece in part.pieces]
            return [*pieces, {"type": f"{kind}.done", "arguments": part.arguments}]
        case _:
            return []


def _read(item: dict[str, Any]) -> Part | None:
    match item.get("type", "message"):
        case "message" if item["role"] == "assistant":
            content = item["content"]
            return Said((content if isinstance(content, str) else "".join(part["text"] for part in content),))
        case "reasoning":
            text = "\n\n".join(part["text"] for part in item["summary"])
            return Thought((text,) if text else (), item.get("encrypted_content"))
        case "function_call":
            return Called(item["call_id"], item["name"], (item["arguments"],))
        case _:
            return None
