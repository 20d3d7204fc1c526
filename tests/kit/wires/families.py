"""The table of providers over HTTP: every test of the conformance set runs for each row."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import AsyncGeneratorType
from typing import Any, cast

from runtree.messages.model import ModelEvent, ModelRequest, ModelSettings
from runtree.messages.transcript import UserMessage
from runtree.providers.anthropic.model import AnthropicMessages
from runtree.providers.chat.dialects import OPENROUTER
from runtree.providers.chat.model import OpenAIChat
from runtree.providers.chat.profile import ChatProfile
from runtree.providers.http import Decoder, Exchange
from runtree.providers.protocol import Model
from runtree.providers.responses.model import OpenAIResponses

from .anthropic import AnthropicWire
from .chat import ChatWire, DetailsWire
from .responses import ResponsesWire
from .wire import Wire

KEY = "sk-test-0123456789abcdef"
ASKED = ModelRequest(messages=(UserMessage.of("hi"),), settings=ModelSettings(max_output_tokens=4000), idle_timeout=20)
UNARY = ASKED.model_copy(update={"settings": ASKED.settings.model_copy(update={"stream": False})})


@dataclass(frozen=True)
class Family:
    """One row: how to make the model, and its dialect."""

    name: str
    wire: Wire
    make: Callable[..., Model]
    """Takes the arguments that all models over HTTP take."""
    secret_name: str

    def __str__(self) -> str:
        return self.name

    def model(self, base_url: str = "http://127.0.0.1:9/v1", **options: Any) -> Model:
        """A model at this address."""
        return self.make("m-1", base_url=base_url, **{"api_key": KEY, **options})

    def decode(self, reads: Iterable[bytes], request: ModelRequest = ASKED) -> list[ModelEvent]:
        """The events of an answer, without a network."""
        _, decoder = self._call(request)
        events: list[ModelEvent] = []
        for read in reads:
            events += decoder.feed(read)
        return events + decoder.finish()

    def sent(self, request: ModelRequest) -> dict[str, Any]:
        """The JSON that is sent for a request."""
        exchange, _ = self._call(request)
        body: dict[str, Any] = json.loads(exchange.body)
        return body

    def _call(self, request: ModelRequest) -> tuple[Exchange, Decoder]:
        # A call that has not begun is its two arguments: what will be sent, and what will read the answer.
        call = cast(AsyncGeneratorType[ModelEvent, None], self.model().stream(request))
        assert call.ag_frame is not None
        arguments = call.ag_frame.f_locals
        return arguments["exchange"], arguments["decoder"]


def _chat(profile: ChatProfile) -> Callable[..., Model]:
    return lambda model, **options: OpenAIChat(model, **{"profile": profile, **options})


ACME = ChatProfile(provider="acme", secret_name="ACME_API_KEY", reasoning_replay="reasoning_content")

FAMILIES = [
    Family("chat", ChatWire(), _chat(ACME), "ACME_API_KEY"),
    Family("chat-details", DetailsWire(), _chat(OPENROUTER), "OPENROUTER_API_KEY"),
    Family("responses", ResponsesWire(), OpenAIResponses, "OPENAI_API_KEY"),
    Family("anthropic", AnthropicWire(), AnthropicMessages, "ANTHROPIC_API_KEY"),
]
