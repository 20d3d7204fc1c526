"""Streamed answers for `provider_parse.py`: events of the size and shape that the providers send, each answer many deltas of one kind."""

import json
import random
import string
from collections.abc import Callable, Iterator
from typing import Any

Event = dict[str, Any]

_CHUNK = {"id": "chatcmpl-CoDWxLsl1kVbpr74j0IN577ELqIIt", "object": "chat.completion.chunk", "created": 1766084447}
_OPENAI = {"model": "gpt-4o-2024-08-06", "service_tier": "default", "system_fingerprint": "fp_deacdd5f6f"}
_DEEPSEEK = {"model": "deepseek-reasoner", "system_fingerprint": "fp_eaab8d114b_prod0820_fp8_kvcache"}
_ITEM_ID = "0ca3f598125653cf01693c1f2808c48195b40a751e71a7167d"


def words(count: int) -> list[str]:
    """Return pieces of text as tokens are: short, now and then with a line end, a quote or another script."""
    chance = random.Random(4)
    odd = ["\n\n", ' "', " é", " ß", "。"]
    letters = string.ascii_lowercase
    usual = [" " + "".join(chance.choices(letters, k=chance.randint(1, 8))) for _ in range(3000)]
    return [chance.choice(odd) if chance.random() < 0.05 else chance.choice(usual) for _ in range(count)]


def arguments(count: int) -> list[str]:
    """Return the pieces of a call's arguments, which are JSON together."""
    inside = [json.dumps(word, ensure_ascii=False)[1:-1] for word in words(count - 2)]
    return ['{"text":"', *inside, '"}']


def _obfuscation(piece: str) -> str:
    return "Csv6666l8Yy5oOq7"[len(piece) % 8 :]


def _data(event: Event) -> bytes:
    return b"data: " + json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


def _named(event: Event, padding: int = 0) -> bytes:
    data = _data(event)
    return b"event: " + event["type"].encode() + b"\n" + data[:-3] + b" " * padding + data[-3:]


def _chat(delta: Event, finish: str | None = None, piece: str = "") -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _data({**_CHUNK, **_OPENAI, "choices": [choice], "usage": None, "obfuscation": _obfuscation(piece)})


def chat_text(count: int) -> list[bytes]:
    """OpenAI's chat completions."""
    start = _chat({"role": "assistant", "content": "", "refusal": None})
    pieces = [_chat({"content": word}, piece=word) for word in words(count)]
    return [start, *pieces, _chat({}, "stop"), b"data: [DONE]\n\n"]


def chat_reasoning(count: int) -> list[bytes]:
    """DeepSeek's reasoning."""

    def event(delta: Event, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _data({**_CHUNK, **_DEEPSEEK, "choices": [choice]})

    start = event({"role": "assistant", "content": None, "reasoning_content": ""})
    pieces = [event({"content": None, "reasoning_content": word}) for word in words(count)]
    return [start, *pieces, event({"content": "42", "reasoning_content": None}, "stop"), b"data: [DONE]\n\n"]


def chat_arguments(count: int) -> list[bytes]:
    """The arguments of a call in OpenAI's chat completions."""
    call = {"index": 0, "id": "call_a1", "type": "function", "function": {"name": "write", "arguments": ""}}
    start = _chat({"role": "assistant", "content": None, "tool_calls": [call], "refusal": None})
    pieces = [_chat({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in arguments(count)]
    return [start, *pieces, _chat({}, "tool_calls"), b"data: [DONE]\n\n"]


def _responses(item: Event, about: Event, kind: str, pieces: list[str], whole: Event) -> list[bytes]:
    def events() -> Iterator[Event]:
        response = {"id": "resp_1", "object": "response", "created_at": 1766084447, "model": "gpt-5", "output": []}
        yield {"type": "response.created", "response": {**response, "status": "in_progress", "usage": None}}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        for piece in pieces:
            yield {"type": kind, **about, "delta": piece, "obfuscation": _obfuscation(piece)}
        yield {"type": "response.output_item.done", "output_index": 0, "item": whole}
        usage = {"input_tokens": 9, "output_tokens": len(pieces), "total_tokens": 9 + len(pieces)}
        done = {**response, "status": "completed", "output": [whole], "usage": usage}
        yield {"type": "response.completed", "response": done}

    return [
        _named({"type": event.pop("type"), "sequence_number": number, **event}) for number, event in enumerate(events())
    ]


def responses_text(count: int) -> list[bytes]:
    """OpenAI's responses."""
    pieces = words(count)
    item = {"id": f"msg_{_ITEM_ID}", "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": "".join(pieces)}
    whole = {**item, "status": "completed", "content": [part]}
    about = {"item_id": item["id"], "output_index": 0, "content_index": 0, "logprobs": []}
    return _responses(item, about, "response.output_text.delta", pieces, whole)


def responses_reasoning(count: int) -> list[bytes]:
    """A summary of OpenAI's reasoning."""
    pieces = words(count)
    item = {"id": f"rs_{_ITEM_ID}", "type": "reasoning", "encrypted_content": "gAAAAAB", "summary": []}
    whole = {**item, "summary": [{"type": "summary_text", "text": "".join(pieces)}]}
    about = {"item_id": item["id"], "output_index": 0, "summary_index": 0}
    return _responses(item, about, "response.reasoning_summary_text.delta", pieces, whole)


def responses_arguments(count: int) -> list[bytes]:
    """The arguments of a call in OpenAI's responses."""
    pieces = arguments(count)
    item = {"id": f"fc_{_ITEM_ID}", "type": "function_call", "status": "in_progress", "arguments": ""}
    item |= {"call_id": "call_a1", "name": "write"}
    whole = {**item, "status": "completed", "arguments": "".join(pieces)}
    about = {"item_id": item["id"], "output_index": 0}
    return _responses(item, about, "response.function_call_arguments.delta", pieces, whole)


def _anthropic(block: Event, deltas: list[Event], stop_reason: str) -> list[bytes]:
    usage = {"input_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
    message: Event = {"model": "claude-sonnet-4-5", "id": "msg_01", "type": "message", "role": "assistant"}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    end = {"stop_reason": stop_reason, "stop_sequence": None}
    return [
        _named({"type": "message_start", "message": message}),
        _named({"type": "content_block_start", "index": 0, "content_block": block}),
        _named({"type": "ping"}),
        *(
            _named({"type": "content_block_delta", "index": 0, "delta": delta}, padding=at * 7 % 16)
            for at, delta in enumerate(deltas)
        ),
        _named({"type": "content_block_stop", "index": 0}),
        _named({"type": "message_delta", "delta": end, "usage": {"output_tokens": len(deltas)}}),
        _named({"type": "message_stop"}),
    ]


def anthropic_text(count: int) -> list[bytes]:
    """Anthropic's messages."""
    deltas = [{"type": "text_delta", "text": word} for word in words(count)]
    return _anthropic({"type": "text", "text": ""}, deltas, "end_turn")


def anthropic_reasoning(count: int) -> list[bytes]:
    """Anthropic's thinking."""
    deltas = [{"type": "thinking_delta", "thinking": word} for word in words(count)]
    signature = {"type": "signature_delta", "signature": "EqQBCgIYAhIkx" * 20}
    return _anthropic({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature], "end_turn")


def anthropic_arguments(count: int) -> list[bytes]:
    """The arguments of a call in Anthropic's messages."""
    block = {"type": "tool_use", "id": "toolu_01", "name": "write", "input": {}}
    return _anthropic(
        block, [{"type": "input_json_delta", "partial_json": piece} for piece in arguments(count)], "tool_use"
    )


ANSWERS: dict[tuple[str, str], Callable[[int], list[bytes]]] = {
    ("chat", "text"): chat_text,
    ("chat", "reasoning"): chat_reasoning,
    ("chat", "arguments"): chat_arguments,
    ("responses", "text"): responses_text,
    ("responses", "reasoning"): responses_reasoning,
    ("responses", "arguments"): responses_arguments,
    ("anthropic", "text"): anthropic_text,
    ("anthropic", "reasoning"): anthropic_reasoning,
    ("anthropic", "arguments"): anthropic_arguments,
}
"""Answers by protocol and kind of delta."""
