"""Models behind the chat completions protocol: OpenAI's, and every server that speaks it."""

import os
from collections.abc import AsyncGenerator

import httpx

from ...messages.errors import ConfigurationError
from ...messages.model import ModelEvent, ModelRequest
from ..decoder import AnswerDecoder
from ..http import CONNECT_TIMEOUT, converse
from ..http_model import IDLE_TIMEOUT, HttpModel, address
from .dialects import GENERIC, OPENAI, OPENAI_URL
from .profile import ChatProfile
from .request import body_by
from .stream import ChatStream


class OpenAIChat(HttpModel[ChatProfile]):
    """A model behind the chat completions protocol.

    Args:
        model: Name of the model, as the server knows it.
        base_url: Address up to and without `/chat/completions`. By default the profile's; without a profile that of `OPENAI_BASE_URL`,
            then OpenAI's own.
        api_key: The key. By default the one of the profile's `secret_name`, given to the Runtime or in the environment.
        profile: Facts of the server. By default OpenAI's at its own address and the tolerant `GENERIC` at any other.
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
        profile: ChatProfile | None = None,
        timeout: float | None = None,
        idle_timeout: float | None = IDLE_TIMEOUT,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        if profile is not None:
            base_url = _with_path(base_url, profile.base_path) if base_url else _address(profile)
        else:
            base_url = address(base_url, "OPENAI_BASE_URL", OPENAI_URL)
            profile = OPENAI if base_url.rstrip("/") == OPENAI_URL else GENERIC
        super().__init__(
            model,
            profile,
            base_url,
            "/chat/completions",
            api_key=api_key,
            timeout=timeout,
            idle_timeout=idle_timeout,
            connect_timeout=connect_timeout,
        )

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send the request and yield what comes back.

        Raises:
            MissingSecretError: There is no key, and the server needs one.
        """
        model = request.model or self._model
        facts = self._profile.facts_for(model, request.settings)
        exchange = self._exchange(request, body_by(request, model, facts))
        machine = ChatStream(facts, model, secret=exchange.secret)
        return converse(exchange, AnswerDecoder(machine))


def _address(profile: ChatProfile) -> str:
    """Return where a profile's server is. Another's key must not be sent to a place that nobody named."""
    variable = profile.base_url_variable
    given = os.environ.get(variable) if variable else None
    if given and "://" not in given:
        given = f"https://{given}"
    found = _with_path(given, profile.base_path) if given else profile.base_url
    if found is None:
        fix = "Pass base_url=" + (f", or set {variable} in the environment" if variable else "")
        raise ConfigurationError("base_url", f"the profile {profile.provider!r} has no address of its own", fix)
    return found


def _with_path(base_url: str, path: str) -> str:
    try:
        bare = httpx.URL(base_url).path.strip("/") == ""
    except (httpx.InvalidURL, ValueError):
        return base_url
    return base_url.rstrip("/") + path if bare else base_url
