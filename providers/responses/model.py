"""Models behind the responses protocol: OpenAI's, and every server that speaks it."""

from collections.abc import AsyncGenerator
from typing import Literal

from ...messages.model import ModelEvent, ModelRequest
from ..decoder import AnswerDecoder
from ..endpoint import IDLE_TIMEOUT, Endpoint, address
from ..http import CONNECT_TIMEOUT, converse
from .profile import OPENAI_URL, ResponsesProfile, at
from .request import build_body
from .stream import ResponsesStream

ReasoningSummary = Literal["auto", "concise", "detailed"]
"""How a model's reasoning is summed up for readers."""


class OpenAIResponses:
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
        self._model = model
        self._profile = profile.model_copy(update={"model": model})
        self._reasoning_summary = reasoning_summary
        self._endpoint = Endpoint(
            f"OpenAIResponses({model!r})",
            base_url,
            "/responses",
            api_key=api_key,
            secret_name=profile.secret_name,
            key_required=profile.key_required,
            timeout=timeout,
            idle_timeout=idle_timeout,
            connect_timeout=connect_timeout,
            silence=profile.silence,
        )

    def __repr__(self) -> str:
        return f"OpenAIResponses({self._model!r}, base_url={self._endpoint.base_url!r})"

    @property
    def profile(self) -> ResponsesProfile:
        """Facts of the server and the model."""
        return self._profile

    @property
    def secret_names(self) -> tuple[str, ...]:
        """Names of the keys to send along."""
        return self._endpoint.secret_names

    @property
    def key_required(self) -> bool:
        """Whether a call without a key can't work; many local servers ask for none."""
        return self._endpoint.key_required

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send the request and yield what comes back.

        Raises:
            ConfigurationError: There is nothing to send.
            MissingSecretError: There is no key, and the server needs one.
        """
        profile = self._profile
        body = build_body(request, self._model, profile, summary=self._reasoning_summary)
        exchange = self._endpoint.exchange(
            request, body, profile.headers, key_header=profile.key_header, params=profile.params
        )
        machine = ResponsesStream(profile, request.model or self._model, secret=exchange.secret)
        return converse(exchange, AnswerDecoder(machine))
