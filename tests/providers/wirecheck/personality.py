"""Servers of all manners, answering the questions of a check; played offline or by the loopback server."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runtree.providers.wirecheck.probes import WRONG_KEY, next_question
from runtree.providers.wirecheck.progress import Progress, Question
from runtree.providers.wirecheck.recording import Recording
from runtree.providers.wirecheck.wire import Target
from tests.kit.loopback import Answer, body, send
from tests.providers.answers import chunk, frame, stream

THOUGHT = ("I have ", "a tool for that.")
TEXT = ("Hello ", "there.")
CITIES = ("Paris", "Oslo")
TARGET = Target("http://gateway.test/v1", "m-1", "own-key-123", "GATEWAY_KEY")


@dataclass(frozen=True)
class Personality:
    """A server; by default one that does all as OpenAI's own does, and a model that thinks aloud."""

    reasoning: str | None = "reasoning_content"
    """A field, `details`, `parts`, `think`, `opened` for a closing tag only, or nothing."""
    replay: str | None = "reasoning_content"
    """Field of a history that the model reads."""
    refused: tuple[str, ...] = ()
    """Fields of a request and of its messages that are refused."""
    needed: str | None = None
    """Field that a history must have."""
    roles: tuple[str, ...] = ("system", "developer", "user", "assistant", "tool")
    bounds: tuple[str, ...] = ("max_tokens", "max_completion_tokens")
    """Fields that bound an answer."""
    usage: str = "own"
    """`own` event, at the `finish`, `every` event, or `none`."""
    unasked: bool = False
    calls: str = "streamed"
    """`streamed`, `whole`, `no_index`, `same_index`, `repeats_id`, `repeats_name`, `no_id`, `object`, `required` or `none`."""
    tools_in_prompt: bool = True
    finish: bool = True
    done: bool = True
    streams: bool = True
    comments: bytes = b""
    key: str | None = TARGET.key
    """The only key that is accepted."""
    schema: bool = True
    extra: tuple[tuple[str, Any], ...] = ()
    """Further fields of every event."""

    def answer(self, question: Question, key: str | None) -> Answer:
        """The answer to a question."""
        if self.key is not None and key != self.key:
            return _refuse(401, "Incorrect API key provided", "invalid_api_key")
        sent = question.body
        if sent is None:
            return body(json.dumps({"object": "list", "data": [{"id": "m-1", "owned_by": "me"}]}))
        if isinstance(sent["messages"], str):
            return _refuse(400, "messages must be a list", "invalid_type")
        if trouble := self._trouble(sent):
            return _refuse(400, trouble, "unsupported_parameter")
        if sent.get("stream") and self.streams:
            return Answer([send(self._events(sent))])
        return body(json.dumps(self._whole(sent)))

    def _trouble(self, sent: Mapping[str, Any]) -> str | None:
        messages = sent["messages"]
        names = [*sent, *(name for message in messages for name in message)]
        bounds = [name for name in ("max_tokens", "max_completion_tokens") if name in sent]
        if any(name not in self.bounds for name in bounds):
            return f"Unsupported parameter: {bounds[0]}"
        if refused := next((name for name in names if name in self.refused), None):
            return f"property {refused!r} is unsupported"
        if role := next((message["role"] for message in messages if message["role"] not in self.roles), None):
            return f"role {role!r} is unsupported"
        said = [message for message in messages if message["role"] == "assistant"]
        if self.needed and any(self.needed not in message for message in said):
            return f"The {self.needed} in the thinking mode must be passed back"
        return None

    def _calls(self, sent: Mapping[str, Any]) -> bool:
        asked = "tools" in sent and sent["messages"][-1]["role"] == "user"
        return asked and self.calls != "none" and (self.calls != "required" or "tool_choice" in sent)

    def _text(self, sent: Mapping[str, Any]) -> str:
        if "response_format" in sent and self.schema:
            return '{"place_name": "Oslo", "head_count": 700000}'
        return "".join(TEXT)

    def _limit(self, sent: Mapping[str, Any]) -> int:
        return int(next((sent[name] for name in self.bounds if name in sent), 1000))

    def _usage(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        fields = [name for message in sent["messages"] for name in message if name == self.replay]
        prompt = (
            20 + 10 * len(sent["messages"]) + 15 * len(fields) + (30 if "tools" in sent and self.tools_in_prompt else 0)
        )
        completion = min(40, self._limit(sent))
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 4},
        }

    def _events(self, sent: Mapping[str, Any]) -> bytes:
        more = dict(self.extra)
        chunks = [chunk({"role": "assistant", "content": ""}, **more)]
        chunks += [chunk(delta, **more) for delta in self._thoughts()]
        if self._calls(sent):
            chunks += [chunk({"tool_calls": [piece]}, **more) for piece in self._pieces()]
        else:
            chunks += [chunk({"content": piece}, **more) for piece in TEXT]
        if self.finish:
            chunks.append(chunk({}, "tool_calls" if self._calls(sent) else "stop", **more))
        asked = self.unasked or "stream_options" in sent
        if asked and self.usage == "own":
            chunks.append({"id": "chatcmpl-1", "choices": [], "usage": self._usage(sent)})
        elif asked and self.usage == "finish":
            chunks[-1]["usage"] = self._usage(sent)
        elif asked and self.usage == "every":
            chunks = [{**each, "usage": self._usage(sent)} for each in chunks]
        return frame(chunks[0]) + self.comments + stream(*chunks[1:], done=self.done)

    def _thoughts(self) -> list[dict[str, Any]]:
        match self.reasoning:
            case None:
                return []
            case "think":
                return [{"content": "<think>"}, *({"content": piece} for piece in THOUGHT), {"content": "</think>"}]
            case "opened":
                return [*({"content": piece} for piece in THOUGHT), {"content": "</think>"}]
            case "details":
                signed = {"type": "reasoning.text", "text": "", "signature": "c2ln", "index": 0}
                pieces = [{"type": "reasoning.text", "text": piece, "index": 0} for piece in THOUGHT]
                return [{"reasoning": piece["text"], "reasoning_details": [piece]} for piece in (*pieces, signed)]
            case "parts":
                return [
                    {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": piece}]}]}
                    for piece in THOUGHT
                ]
            case field:
                return [{field: piece} for piece in THOUGHT]

    def _pieces(self) -> list[dict[str, Any]]:
        return [piece for index, city in enumerate(CITIES) for piece in self._pieces_of(index, city)]

    def _pieces_of(self, index: int, city: str) -> list[dict[str, Any]]:
        call_id, arguments = f"call_{index}", json.dumps({"city": city})
        head = {"index": index, "id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": ""}}
        tail = {"index": index, "function": {"arguments": arguments}}
        whole = {**head, "function": {"name": "get_weather", "arguments": arguments}}
        match self.calls:
            case "whole":
                return [whole]
            case "no_index":
                return [{name: value for name, value in whole.items() if name != "index"}]
            case "same_index":
                return [{**head, "index": 0}, {**tail, "index": 0}]
            case "repeats_id":
                return [head, {**tail, "id": call_id}]
            case "repeats_name":
                return [head, {**tail, "function": {"name": "get_weather", "arguments": arguments}}]
            case "no_id":
                return [{**whole, "id": ""}]
            case "object":
                return [{**whole, "function": {"name": "get_weather", "arguments": {"city": city}}}]
            case _:
                return [head, tail]

    def _whole(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self._text(sent)}
        if self._calls(sent):
            whole = [Personality(calls="whole")._pieces_of(index, city)[0] for index, city in enumerate(CITIES)]
            message |= {"content": None, "tool_calls": [{**each, "id": f"other_{each['id']}"} for each in whole]}
        if self.reasoning in ("reasoning_content", "reasoning"):
            message[self.reasoning] = "".join(THOUGHT)
        finish = "length" if self._limit(sent) < 40 else "tool_calls" if self._calls(sent) else "stop"
        answer = {"id": "chatcmpl-2", "object": "chat.completion", "model": "m-1"}
        choices = [{"index": 0, "message": message, "finish_reason": finish}]
        usage = {} if self.usage == "none" else {"usage": self._usage(sent)}
        return {**answer, "choices": choices, **usage, **dict(self.extra)}


def _refuse(status: int, message: str, code: str) -> Answer:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return body(json.dumps({"error": error}), status)


def recording_of(question: Question, answer: Answer, fault: str | None = None) -> Recording:
    """An answer as it would be recorded."""
    reads = tuple((0.1 * number, base64.b64decode(step["data"])) for number, step in enumerate(answer.steps, 1))
    return Recording(dict(question.body or {}), answer.status, answer.headers, reads, 0.5, fault)


def rehearse(personality: Personality, target: Target = TARGET) -> tuple[Progress, list[Answer]]:
    """A whole check without a network, and the answers in the order in which they were needed."""
    progress, answers = Progress(target), list[Answer]()
    while (asked := next_question(progress)) is not None:
        probe, question = asked
        answer = personality.answer(question, WRONG_KEY if question.key == "wrong" else target.key)
        answers.append(answer)
        progress.recordings[probe.name] = recording_of(question, answer)
    return progress, answers
