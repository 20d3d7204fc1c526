"""The conversation by way of a model class, for protocols that leave a server less freedom than chat completions."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...messages.content import TextBlock, ThinkingBlock
from ...messages.model import Completed, Failed, ModelEvent, ModelRequest, ModelSettings, ToolCallDelta, ToolDefinition
from ...messages.transcript import AssistantMessage, Message, ToolMessage, ToolResult, UserMessage
from ..protocol import Model
from .probes import LIMIT, WEATHER, WEATHER_TOOL, WRONG_KEY
from .wire import Target

TalkProtocol = Literal["responses", "anthropic"]
"""What is spoken by way of a model class."""

_TOOL = ToolDefinition(**WEATHER_TOOL)


@dataclass
class Spoken:
    """One answer as it came."""

    title: str
    events: list[tuple[float, ModelEvent]] = field(default_factory=list[tuple[float, ModelEvent]])

    @property
    def completed(self) -> Completed | None:
        """The end of an answer that came to its end."""
        last = self.events[-1][1] if self.events else None
        return last if isinstance(last, Completed) else None

    @property
    def failed(self) -> Failed | None:
        """The end of one that did not."""
        last = self.events[-1][1] if self.events else None
        return last if isinstance(last, Failed) else None

    @property
    def message(self) -> AssistantMessage | None:
        """What was said."""
        return self.completed.response.message if self.completed else None

    def count(self, kind: str) -> int:
        """Return the number of events of a kind."""
        return sum(event.kind == kind for _, event in self.events)

    @property
    def calls(self) -> Mapping[str, list[ToolCallDelta]]:
        """The pieces of each call, by its id."""
        found: dict[str, list[ToolCallDelta]] = {}
        for _, event in self.events:
            if isinstance(event, ToolCallDelta):
                found.setdefault(event.call_id, []).append(event)
        return found


async def talk(
    target: Target, protocol: TalkProtocol, on_step: Callable[[str], Any] | None = None
) -> dict[str, Spoken]:
    """Hold the conversation and return the answers by name; it ends with the first that fails.

    Args:
        target: The endpoint.
        protocol: What it speaks.
        on_step: Is told in words what is asked next.
    """
    model = _model(target, protocol, target.key or "none")
    answers: dict[str, Spoken] = {}

    async def step(name: str, title: str, request: ModelRequest, asked: Model = model) -> Spoken:
        if on_step is not None:
            on_step(title)
        answers[name] = await _listen(title, asked, request)
        return answers[name]

    hello: Message = UserMessage.of("Say hello, in one short sentence.")
    if (await step("hello", "a streamed answer", _request(target, hello))).failed:
        return answers
    question: Message = UserMessage.of(WEATHER)
    called = await step("tools", "a streamed answer with tools", _request(target, question, tools=True))
    if called.message is None:
        return answers
    if called.message.tool_calls:
        history = (question, called.message, _results(called.message))
        await step("results", "results of tools", _request(target, *history, tools=True))
    await step("unary", "an answer in one piece", _request(target, hello, stream=False))
    wrong = _model(target, protocol, WRONG_KEY)
    await step("bad_key", "a wrong key", _request(target, hello, stream=False, limit=LIMIT), wrong)
    return answers


def _request(
    target: Target, *messages: Message, tools: bool = False, stream: bool = True, limit: int | None = None
) -> ModelRequest:
    return ModelRequest(
        messages=messages,
        instructions="You are brief and exact.",
        tools=(_TOOL,) if tools else (),
        settings=ModelSettings(
            max_output_tokens=limit or target.max_tokens, stream=stream, extra_body=dict(target.extra_body)
        ),
        timeout=target.timeout,
        idle_timeout=target.timeout,
    )


def _model(target: Target, protocol: TalkProtocol, key: str) -> Model:
    if protocol == "anthropic":
        from ..anthropic.model import AnthropicMessages

        return AnthropicMessages(target.model, base_url=target.base_url, api_key=key)
    from ..responses.model import OpenAIResponses

    return OpenAIResponses(target.model, base_url=target.base_url, api_key=key)


async def _listen(title: str, model: Model, request: ModelRequest) -> Spoken:
    spoken, begin = Spoken(title), time.monotonic()
    async for event in model.stream(request):
        spoken.events.append((time.monotonic() - begin, event))
    return spoken


def _results(message: AssistantMessage) -> ToolMessage:
    text = TextBlock(text='{"weather": "sunny", "celsius": 21}')
    return ToolMessage(
        results=tuple(
            ToolResult(call_id=call.call_id, tool_name=call.tool_name, outcome="ok", content=(text,))
            for call in message.tool_calls
        )
    )


def thoughts_of(message: AssistantMessage) -> tuple[ThinkingBlock, ...]:
    """Return the readable and the signed reasoning of a message."""
    return tuple(block for block in message.content if isinstance(block, ThinkingBlock))
