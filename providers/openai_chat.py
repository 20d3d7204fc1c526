"""Models behind the chat completions protocol: OpenAI's, and every server that speaks it."""

import os
from collections.abc import AsyncGenerator

import httpx
import pydantic_core

from ..messages.errors import ConfigurationError, MissingSecretError
from ..messages.model import ModelEvent, ModelRequest
from . import secrets
from .chat_decoder import ChatDecoder
from .chat_profile import GENERIC, OPENAI, ChatProfile
from .chat_request import build_body
from .http import CONNECT_TIMEOUT, Exchange, converse

IDLE_TIMEOUT = 300.0
"""Seconds without a byte where neither the request nor the model says otherwise: reasoning models are silent for minutes."""


class OpenAIChat:
    """A model behind the chat completions protocol.

    Args:
        model: Name of the model, as the server knows it.
        base_url: Address up to and without `/chat/completions`. By default the profile's, then `OPENAI_BASE_URL`, then OpenAI's own.
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
        address = (
            base_url or (profile.base_url if profile else None) or os.environ.get("OPENAI_BASE_URL") or OPENAI.base_url
        )
        assert address is not None
        self._base_url = _checked_address(address)
        if profile is None:
            profile = OPENAI if self._base_url == OPENAI.base_url else GENERIC
        self._profile = profile.model_copy(update={"model": model})
        self._model = model
        self._secret_name = secrets.keep(_checked_key(api_key)) if api_key is not None else profile.secret_name
        self._needs_key = api_key is not None or profile.key_required
        self._timeout, self._idle_timeout, self._connect_timeout = timeout, idle_timeout, connect_timeout

    def __repr__(self) -> str:
        return f"OpenAIChat({self._model!r}, base_url={self._base_url!r})"

    @property
    def profile(self) -> ChatProfile:
        """Facts of the server and the model."""
        return self._profile

    @property
    def secret_names(self) -> tuple[str, ...]:
        """Names of the keys to send along."""
        return (self._secret_name,) if self._secret_name else ()

    @property
    def key_required(self) -> bool:
        """Whether a call without a key can't work; many local servers ask for none."""
        return self._needs_key

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send the request and yield what comes back.

        Raises:
            MissingSecretError: There is no key, and the server needs one.
        """
        key = self._key()
        headers = {
            "accept": "text/event-stream" if request.settings.stream else "application/json",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "runtree",
            **self._profile.headers,
        }
        if key:
            headers["authorization"] = f"Bearer {key}"
        exchange = Exchange(
            url=httpx.URL(f"{self._base_url}/chat/completions"),
            headers=headers,
            body=pydantic_core.to_json(build_body(request, self._model, self._profile)),
            timeout=request.timeout or self._timeout,
            idle_timeout=self._idle(request),
            connect_timeout=self._connect_timeout,
            secret=key,
        )
        return converse(exchange, ChatDecoder(self._profile, request.model or self._model, secret=key))

    def _idle(self, request: ModelRequest) -> float | None:
        idle = request.idle_timeout or self._idle_timeout
        silence = self._profile.silence
        return max(idle, silence) if idle and silence else idle

    def _key(self) -> str | None:
        key = secrets.look_up(self._secret_name) if self._secret_name else None
        if key is not None:
            return _checked_key(key)
        if not self._needs_key:
            return None
        if self._secret_name == self._profile.secret_name:
            fix = f"Set {self._secret_name} in the environment, or pass api_key="
            raise MissingSecretError("api_key", f"{self!r} needs a key and {self._secret_name} is not set", fix)
        fix = "Run it through a Runtime, which sends keys along, or construct the model in this process"
        raise MissingSecretError(
            "api_key", f"the key that {self!r} was given in code is not known in this process", fix
        )


def _checked_address(address: str) -> str:
    try:
        url = httpx.URL(address)
    except (httpx.InvalidURL, ValueError) as error:
        raise ConfigurationError("base_url", "it is no URL", "Write it like http://localhost:8080/v1") from error
    if url.userinfo:
        raise ConfigurationError("base_url", "it has credentials in it", "Pass the key as api_key")
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigurationError(
            "base_url", f"{address!r} is no HTTP address", "Write it like http://localhost:8080/v1"
        )
    return address.rstrip("/").removesuffix("/chat/completions")


def _checked_key(key: str) -> str:
    # Said here, in our words: the HTTP client would repeat the key in its complaint.
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigurationError(
            "api_key", "it is empty or has characters that no HTTP header can carry", "Copy it anew"
        )
    return key
