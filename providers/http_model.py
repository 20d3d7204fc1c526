"""What models behind HTTP have in common: an address, a key, times to wait, and the facts of the server that these depend on."""

import os
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import httpx
import pydantic_core
from pydantic import Field

from ..messages.errors import ConfigurationError, MissingSecretError
from ..messages.model import ModelRequest
from . import secrets
from .http import Exchange
from .profile import ModelProfile

IDLE_TIMEOUT = 300.0
"""Seconds without a byte where neither the request nor the model says otherwise: reasoning models are silent for minutes."""


class HttpProfile(ModelProfile):
    """Facts of a server that is reached over HTTP."""

    base_url: str | None = None
    """Where it is, if it is in one place."""
    secret_name: str | None = None
    """Name of its key; `None`: it has none."""
    key_required: bool = False
    """Whether a call without a key is refused before it is sent."""
    key_header: str = "authorization"
    """Header of the key, in lower case; `authorization` carries it as a bearer token, any other as it is."""
    headers: Mapping[str, str] = Field(default_factory=dict)
    """Further headers of each request; no keys."""
    params: Mapping[str, str] = Field(default_factory=dict)
    """Parameters of the address, such as `api-version`."""


P = TypeVar("P", bound=HttpProfile)


class HttpModel(Generic[P]):
    """Base of the models behind HTTP. It pickles; a key travels as the name of a secret.

    Args:
        model: Name of the model, as the server knows it.
        profile: Facts of the server.
        base_url: Address up to and without `path`.
        path: What is asked below the address, such as `/chat/completions`.
        api_key: The key, if it was given in code.
        timeout: Seconds for a call whose request does not say.
        idle_timeout: Seconds without a byte for a call whose request does not say.
        connect_timeout: Seconds until the connection has to stand.

    Raises:
        ConfigurationError: The address or the key can't be used.
    """

    def __init__(
        self,
        model: str,
        profile: P,
        base_url: str,
        path: str,
        *,
        api_key: str | None,
        timeout: float | None,
        idle_timeout: float | None,
        connect_timeout: float,
    ) -> None:
        self._model = model
        self._profile: P = profile.model_copy(update={"model": model})
        self._base_url, self._path = checked_address(base_url, path), path
        self._secret_name = secrets.keep(_checked_key(api_key)) if api_key is not None else profile.secret_name
        self._needs_key = api_key is not None or profile.key_required
        self._timeout, self._idle_timeout, self._connect_timeout = timeout, idle_timeout, connect_timeout

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r}, base_url={self._base_url!r})"

    @property
    def profile(self) -> P:
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

    def _exchange(
        self, request: ModelRequest, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> Exchange:
        """Return the HTTP request of a call.

        Args:
            request: The call, for its times and whether it streams.
            body: The JSON to send.
            headers: Headers beside the profile's.

        Raises:
            MissingSecretError: There is no key, and the server needs one.
        """
        key, profile = self._key(), self._profile
        sent = {
            "accept": "text/event-stream" if request.settings.stream else "application/json",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "runtree",
            **(headers or {}),
            **profile.headers,
        }
        if key:
            sent[profile.key_header] = f"Bearer {key}" if profile.key_header == "authorization" else key
        return Exchange(
            url=httpx.URL(self._base_url + self._path, params=dict(profile.params) if profile.params else None),
            headers=sent,
            body=pydantic_core.to_json(body),
            timeout=request.timeout or self._timeout,
            idle_timeout=self._idle(request),
            connect_timeout=self._connect_timeout,
            secret=key,
        )

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


def address(given: str | None, variable: str, default: str) -> str:
    """Return the address to use: the one given in code, else the one in the environment, else the provider's own."""
    return given or os.environ.get(variable) or default


def checked_address(base_url: str, path: str) -> str:
    """Return an address without the path, if somebody wrote it with it.

    Raises:
        ConfigurationError: It is no HTTP address, or has credentials in it.
    """
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, ValueError) as error:
        raise ConfigurationError("base_url", "it is no URL", "Write it like http://localhost:8080/v1") from error
    if url.userinfo:
        raise ConfigurationError("base_url", "it has credentials in it", "Pass the key as api_key")
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigurationError(
            "base_url", f"{base_url!r} is no HTTP address", "Write it like http://localhost:8080/v1"
        )
    return base_url.rstrip("/").removesuffix(path)


def _checked_key(key: str) -> str:
    # Said here, in our words: the HTTP client would repeat the key in its complaint.
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigurationError(
            "api_key", "it is empty or has characters that no HTTP header can carry", "Copy it anew"
        )
    return key
