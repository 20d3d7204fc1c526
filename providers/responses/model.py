"""Models behind the responses protocol: OpenAI's, and every server that speaks it."""

from collections.abc import AsyncGenerator
from typing import Literal

from ...messages.model import ModelEvent, ModelRequest
from ..decoder import AnswerDecoder
from ..http import CONNECT_TIMEOUT, converse
from ..http_model import IDLE_TIMEOUT, HttpModel, address
from .profile import OPENAI_URL, ResponsesProfile, at
from .request import build_body
from .stream import ResponsesStream

ReasoningSummary = Literal["auto", "concise", "detailed"]
"""How a model's reasoning is summed up for readers."""


class OpenAIResponses(HttpModel[ResponsesProfile]):
    """A model behind the responses protocol, asked without any memory at the provider: each request holds the whole conversation.

    Args:
        model: Name of the model, as the server knows it.
        base_url: Address up to and without `/responses`. By default the profile's, then `OPENAI_BASE_URL`, then OpenAI's own.
        api_key: The key. By default the one of the profile's `secret_name`, given to the Runtime or in the environment.
        profile: Facts of the server. By default those known of the address, and the tolerant `GENERIC` for an unknown one.
        reasoning_summary: Ask for readable reasoning. OpenAI refuses it to organisations it has not verified, so it is not asked for
            by default.
        timeout: Seconds for a call whose request does not say.
        idle_timeout: Seconds without a byte for a call whose request does not say.
        connect_timeout: Seconds until the connection has to stand.

    Raises:
        ConfigurationError: The address or the key can't be used.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        profile: ResponsesProfile | None = None,
        reasoning_summary: ReasoningSummary | None = None,
        timeout: float | None = None,
        idle_timeout: float | None = IDLE_TIMEOUT,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        base_url = address(base_url or (profile.base_url if profile else None), "OPENAI_BASE_URL", OPENAI_URL)
        profile = profile or at(base_url)
        super().__init__(
            model,
            profile,
            base_url,
            "/responses",
            api_key=api_key,
            timeout=timeout,
            idle_timeout=idle_timeout,
            connect_timeout=connect_timeout,
        )
        self._reasoning_summary = reasoning_summary

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send the request and yield what comes back.

        Raises:
            ConfigurationError: There is nothing to send.
            MissingSecretError: There is no key, and the server needs one.
        """
        profile = self._profile
        body = build_body(request, self._model, profile, summary=self._reasoning_summary)
        exchange = self._exchange(request, body)
        machine = ResponsesStream(profile, request.model or self._model, secret=exchange.secret)
        return converse(exchange, AnswerDecoder(machine))
