"""Histories that providers refuse are put in order when they are sent: every call has one result, right behind it (behaviours K02, P10)."""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from runtree.messages.content import ContentBlock, TextBlock, ToolCallBlock
from runtree.messages.model import ModelRequest
from runtree.messages.transcript import AssistantMessage, Message, ToolMessage, ToolResult, UserMessage
from runtree.providers.anthropic.profile import ANTHROPIC
from runtree.providers.anthropic.request import build_call
from runtree.providers.chat import dialects
from runtree.providers.chat.request import build_body
from runtree.providers.pairing import paired
from runtree.providers.responses import profile as responses
from runtree.providers.responses.request import build_body as build_responses


def _calls(*names: str) -> AssistantMessage:
    blocks = [ToolCallBlock(call_id=name, tool_name="get", arguments={}) for name in names]
    return AssistantMessage(content=(TextBlock(text="x"), *blocks), finish_reason="tool_calls")


def _results(*names: str) -> ToolMessage:
    content: tuple[ContentBlock, ...] = (TextBlock(text="1"),)
    return ToolMessage(
        results=tuple(ToolResult(call_id=name, tool_name="get", outcome="ok", content=content) for name in names)
    )


HI, GO_ON, SAID = UserMessage.of("hi"), UserMessage.of("go on"), AssistantMessage(content=(TextBlock(text="x"),))


def _told(messages: Sequence[Message]) -> list[str]:
    return [
        " ".join(f"{result.call_id}:{result.outcome}" for result in message.results)
        if isinstance(message, ToolMessage)
        else "go on"
        if message == GO_ON
        else message.kind
        for _, message in paired(messages)
    ]


@pytest.mark.parametrize(
    "messages, told",
    [
        ((HI, _calls("a"), _results("a"), SAID), ["user", "assistant", "a:ok", "assistant"]),
        ((HI, _calls("a"), GO_ON), ["user", "assistant", "a:lost", "go on"]),
        ((HI, _calls("a"), SAID, GO_ON), ["user", "assistant", "a:lost", "assistant", "go on"]),
        ((HI, _calls("a", "b"), _results("b")), ["user", "assistant", "a:lost b:ok"]),
        ((HI, _calls("a", "b"), _results("b"), _results("a")), ["user", "assistant", "a:ok b:ok"]),
        ((HI, _calls("a"), GO_ON, _results("a"), SAID), ["user", "assistant", "a:ok", "go on", "assistant"]),
        ((HI, _calls("a"), _results("a", "a", "c")), ["user", "assistant", "a:ok"]),
        ((HI, _results("a"), SAID, _results("b"), GO_ON), ["user", "assistant", "go on"]),
        ((_results("a"), HI), ["user"]),
        ((HI, _calls("a"), _results("a"), _calls("a"), GO_ON), ["user", "assistant", "a:ok", "assistant", "a:lost", "go on"]),
        ((HI, _calls("a")), ["user", "assistant"]),
    ],
)  # fmt: skip
def test_what_is_sent_is_in_pairs(messages: tuple[Message, ...], told: list[str]) -> None:
    assert _told(messages) == told


def test_a_history_in_order_stays_as_it_is() -> None:
    messages = (HI, _calls("b", "a"), _results("a", "b"), GO_ON, _calls("c"), _results("c"), SAID)
    assert list(paired(messages)) == list(enumerate(messages))


def _chat(request: ModelRequest) -> Iterator[tuple[set[str], list[str]]]:
    """Each answer's calls, with the results right behind it."""
    messages = build_body(request, "m-1", dialects.OPENAI)["messages"]
    assert not [
        m for at, m in enumerate(messages) if m["role"] == "tool" and messages[at - 1]["role"] in ("user", "system")
    ]
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            yield {call["id"] for call in message.get("tool_calls", ())}, _run(messages[at + 1 :], "tool_call_id")


def _run(items: Sequence[dict[str, Any]], field: str) -> list[str]:
    ids: list[str] = []
    for item in items:
        if field not in item:
            break
        ids.append(item[field])
    return ids


def _responses(request: ModelRequest) -> Iterator[tuple[set[str], list[str]]]:
    calls: set[str] = set()
    answers: list[str] = []
    for item in [*build_responses(request, "gpt-5", responses.OPENAI)["input"], {}]:
        if item.get("type") == "function_call_output":
            answers.append(item["call_id"])
            continue
        if answers:
            yield calls, answers
            calls, answers = set(), []
        if item.get("type") == "function_call":
            calls.add(item["call_id"])
        else:
            assert not calls, "something was said between a call and its result"


def _anthropic(request: ModelRequest) -> Iterator[tuple[set[str], list[str]]]:
    messages = [*build_call(request, "claude-opus-4-5", ANTHROPIC).body["messages"], {"role": "user", "content": []}]
    for message, following in pairwise(messages):
        if message["role"] == "assistant":
            kinds = [block["type"] for block in following["content"]]
            assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result")
            calls = {block["id"] for block in message["content"] if block["type"] == "tool_use"}
            yield calls, [block["tool_use_id"] for block in following["content"] if block["type"] == "tool_result"]


@pytest.mark.parametrize("sent", [_chat, _responses, _anthropic], ids=["chat", "responses", "anthropic"])
def test_no_provider_sees_a_call_without_its_result(sent: Any) -> None:
    dice = random.Random(11)
    for _ in range(200):
        kinds: list[Callable[[], Message]] = [
            lambda: GO_ON,
            lambda: _calls(*dice.sample("abc", dice.randint(1, 3))),
            lambda: SAID,
        ]
        kinds += [lambda: _results(*dice.choices("abcd", k=dice.randint(1, 3)))] * 2
        history = [HI, *(dice.choice(kinds)() for _ in range(dice.randint(1, 7))), GO_ON]
        for calls, answers in sent(ModelRequest(messages=tuple(history))):
            assert set(answers) == calls, history
            assert len(answers) == len(calls), history
