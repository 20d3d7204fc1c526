"""Where a provider is and how it is reached: the address, the key and the times that every model over HTTP is made with."""

import os
from collections.abc import Mapping
from typing import Any

import httpx
import pydantic_core

from ..messages.errors import ConfigurationError, MissingSecretError
from ..messages.model import ModelRequest
from . import secrets
from .http import CONNECT_TIMEOUT, Exchange

IDLE_TIMEOUT = 300.0
"""Seconds without a byte where neither the request nor the model says otherwise: reasoning models are silent for minutes."""


class Endpoint:
    """A server, the key for it and the times to wait. It pickles; the key travels as the name of a secret.

    Args:
        owner: The model it belongs to, for messages.
        base_url: Address up to and without `path`.
        path: What is asked below the address, such as `/chat/completions`.
        api_key: The key, if it was given in code.
        secret_name: Name under which the key is looked up otherwise; `None`: there is none.
        key_required: Whether a call without a key is refused before it is sent.
        timeout: Seconds for a call whose request does not say.
        idle_timeout: Seconds without a byte for a call whose request does not say.
        connect_timeout: Seconds until the connection has to stand.
        silence: Seconds the model may be silent: they lengthen a shorter idle timeout.

    Raises:
        ConfigurationError: The address or the key can't be used.
    """

    def __init__(
        self,
        owner: str,
        base_url: str,
        path: str,
        *,
        api_key: str | None = None,
        secret_name: str | None = None,
        key_required: bool = False,
        timeout: float | None = None,
        idle_timeout: float | None = IDLE_TIMEOUT,
        connect_timeout: float = CONNECT_TIMEOUT,
        silence: float | None = None,
    ) -> None:
        self.base_url = checked_address(base_url, path)
        self._owner, self._path = owner, path
        self._default_name = secret_name
        self._secret_name = secrets.keep(_checked_key(api_key)) if api_key is not None else secret_name
        self.key_required = api_key is not None or key_required
        self._timeout, self._idle_timeout, self._connect_timeout = timeout, idle_timeout, connect_timeout
        self._silence = silence

    @property
    def secret_names(self) -> tuple[str, ...]:
        """Names of the keys to send along."""
        return (self._secret_name,) if self._secret_name else ()

    def exchange(
        self,
        request: ModelRequest,
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        *,
        key_header: str = "authorization",
        params: Mapping[str, str] | None = None,
    ) -> Exchange:
        """Return the HTTP request of a call.

        Args:
            request: The call, for its times and whether it streams.
            body: The JSON to send.
            headers: Further headers.
            key_header: Header that carries the key; `authorization` as a bearer token, any other as it is.
            params: Parameters of the address.

        Raises:
            MissingSecretError: There is no key, and the server needs one.
        """
        key = self._key()
        sent = {
            "accept": "text/event-stream" if request.settings.stream else "application/json",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "runtree",
            **headers,
        }
        if key:
            sent[key_header] = f"Bearer {key}" if key_header == "authorization" else key
        return Exchange(
            url=httpx.URL(self.base_url + self._path, params=dict(params) if params else None),
            headers=sent,
            body=pydantic_core.to_json(body),
            timeout=request.timeout or self._timeout,
            idle_timeout=self._idle(request),
            connect_timeout=self._connect_timeout,
            secret=key,
        )

    def _idle(self, request: ModelRequest) -> float | None:
        idle = request.idle_timeout or self._idle_timeout
        return max(idle, self._silence) if idle and self._silence else idle

    def _key(self) -> str | None:
        key = secrets.look_up(self._secret_name) if self._secret_name else None
        if key is not None:
            return _checked_key(key)
        if not self.key_required:
            return None
        if self._secret_name == self._default_name:
            fix = f"Set {self._secret_name} in the environment, or pass api_key="
            raise MissingSecretError("api_key", f"{self._owner} needs a key and {self._secret_name} is not set", fix)
        fix = "Run it through a Runtime, which sends keys along, or construct the model in this process"
        raise MissingSecretError(
            "api_key", f"the key that {self._owner} was given in code is not known in this process", fix
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
