"""From whatever a provider says when it fails to one `Failure`: its kind, whether to try again and when."""

import email.utils
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx
import pydantic_core

from ..messages.failure import Failure, FailureCode
from .failure_words import BY_STATUS, SENTENCES, WORDS
from .secrets import clean
from .shapes import as_object, as_objects, is_array
from .sse import BOM

MAX_RETRY_AFTER = 24 * 3600.0
"""Seconds above which a wait the provider asks for is cut: nobody waits a day on purpose."""

_RETRYABLE_STATUS = frozenset({408, 409, 425, 429})
_RETRYABLE_CODES: frozenset[FailureCode] = frozenset({"rate_limit", "overloaded", "timeout", "transport", "provider"})
_UNITS = {"h": 3600.0, "m": 60.0, "ms": 0.001, "s": 1.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_DURATION = re.compile(f"(?:{_PART.pattern})+")
_WAIT = re.compile(
    r"(?:try again|retry)(?: again)? (?:in|after) (?:((?:\d+(?:\.\d+)?(?:ms|h|m|s))+)(?!\w)|(\d+(?:\.\d+)?) seconds?\b)",
    re.IGNORECASE,
)
_TITLE = re.compile(rb"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


class _Said(NamedTuple):
    """The parts of an error body, as far as it has them."""

    message: str = ""
    words: tuple[str, ...] = ()
    status: int | None = None
    retry_after: float | None = None


def broken(message: str) -> Failure:
    """Return the failure of an answer that breaks its own protocol; another try may bring a whole one."""
    return Failure(code="protocol", message=message, retryable=True)


def from_answer(status: int, headers: Mapping[str, str], body: bytes, *, secret: str | None = None) -> Failure:
    """Return what an HTTP answer with an error status means.

    Args:
        status: The status.
        headers: The headers, names in lower case.
        body: The body, or its beginning.
        secret: The key that was sent, which the answer may repeat.
    """
    said = _said(_parse(body)) if body.strip() else _Said()
    message = clean(said.message, secret) or clean(_fallback_message(status, body), secret)
    code = "context_overflow" if status == 400 and not body.strip() else _code(said, status)
    waits = [wait for wait in (_retry_after(headers), said.retry_after) if wait is not None]
    return Failure(
        code=code,
        message=message,
        retryable=_is_retryable(code, status, headers.get("x-should-retry")),
        retry_after=waits[0] if waits else None,
        status=status,
        provider_code=clean(said.words[0], secret) if said.words else None,
    )


def from_frame(error: Any, *, secret: str | None = None) -> Failure:
    """Return what an error inside a stream means; the stream itself had begun with status 200."""
    said = _said(error)
    code = _code(said, said.status)
    return Failure(
        code=code,
        message=clean(said.message, secret) or "the provider ended the stream with an error and gave no reason",
        retryable=_is_retryable(code, said.status, None),
        retry_after=said.retry_after,
        status=said.status,
        provider_code=clean(said.words[0], secret) if said.words else None,
    )


def from_transport(error: Exception, host: str, *, secret: str | None = None) -> Failure:
    """Return what an exception of the HTTP client means."""
    text = clean(str(error), secret) or type(error).__name__
    if isinstance(error, httpx.ConnectTimeout):
        return Failure(code="timeout", message=f"no connection to {host} in time", retryable=True)
    if isinstance(error, httpx.TimeoutException):
        return Failure(code="timeout", message=f"{host} did not answer in time", retryable=True)
    if isinstance(error, httpx.ConnectError | httpx.ProxyError):
        message = f"can't connect to {host}: {text}. Check base_url and that the server runs"
        return Failure(code="transport", message=message, retryable=True)
    if isinstance(error, httpx.DecodingError):
        return Failure(code="protocol", message=f"the answer of {host} can't be decompressed", retryable=True)
    if isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL | httpx.LocalProtocolError):
        return Failure(code="invalid_request", message=f"{host} can't be asked: {text}. Check base_url")
    return Failure(code="transport", message=f"the connection to {host} broke: {text}", retryable=True)


def _parse(body: bytes) -> Any:
    body = body.removeprefix(BOM)
    try:
        return pydantic_core.from_json(body)
    except ValueError:
        pass
    # Some gateways frame the error as an event of a stream.
    for line in body.splitlines():
        if line.startswith(b"data:"):
            try:
                return pydantic_core.from_json(line[5:])
            except ValueError:
                break
    if body.lstrip()[:1] == b"<":
        return None
    return body.decode("utf-8", "replace")


def _said(value: Any, depth: int = 0) -> _Said:
    """Read an error of any shape: text, object, object in an object, list of one."""
    if isinstance(value, str):
        return _Said(value, retry_after=_wait_said({}, value, []))
    if depth >= 4:
        return _Said()
    if is_array(value):
        return next((_said(item, depth + 1) for item in value), _Said())
    body = as_object(value)
    outer = _own(body)
    for key in ("error", "detail", "errors", "message"):
        if body.get(key) and not (key == "message" and isinstance(body[key], str)):
            inner = _said(body[key], depth + 1)
            return _Said(
                inner.message or outer.message,
                inner.words + outer.words,
                inner.status or outer.status,
                inner.retry_after if inner.retry_after is not None else outer.retry_after,
            )
    raw = as_object(body.get("metadata")).get("raw")
    if raw:
        # Routers keep the words of the provider they asked beside their own, which say nothing.
        inner = _said(_parse(raw.encode("utf-8", "replace")) if isinstance(raw, str) else raw, depth + 1)
        words = outer.words + inner.words
        wait = inner.retry_after if outer.retry_after is None else outer.retry_after
        return outer._replace(message=inner.message or outer.message, words=words, retry_after=wait)
    return outer


def _own(value: dict[str, Any]) -> _Said:
    message = next((value[key] for key in ("message", "msg") if isinstance(value.get(key), str)), "")
    if message and is_array(value.get("loc")):
        message = f"{'.'.join(map(str, value['loc']))}: {message}"
    details = as_objects(value.get("details"))
    kinds = [as_object(value.get("details")).get("error_code")]
    kinds += [value.get(key) for key in ("code", "type", "status")]
    kinds += [detail.get("reason") for detail in details]
    if as_object(value.get("metadata")).get("reasons"):
        kinds.append("content_policy_violation")  # routers say so where they have moderated
    numbers = [_status(value.get(key)) for key in ("status_code", "raw_status_code", "status", "code")]
    return _Said(
        message,
        tuple(str(kind) for kind in kinds if kind not in (None, "", "error")),
        next((number for number in numbers if number), None),
        _wait_said(value, message, details),
    )


def _wait_said(value: dict[str, Any], message: str, details: list[dict[str, Any]]) -> float | None:
    """Return the wait that an error asks for in its own words: in its details, in headers it repeats, or in its sentence."""
    delay = next((_seconds(detail["retryDelay"]) for detail in details if "retryDelay" in detail), None)
    if delay is not None:
        return delay
    headers = {name.lower(): str(text) for name, text in as_object(value.get("headers")).items()}
    wait = _retry_after(headers)
    if wait is None:
        kind = "requests" if value.get("type") == "requests" else "tokens"
        wait = _duration(headers.get(f"x-ratelimit-reset-{kind}", ""))
    if wait is None and (said := _WAIT.search(message)):
        wait = _duration(said[1]) if said[1] else _seconds(said[2])
    return wait


def _duration(text: str) -> float | None:
    """Return the seconds of a duration such as `1m30.5s`."""
    if not _DURATION.fullmatch(text):
        return _seconds(text)
    return _clamp(sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))


def _status(value: Any) -> int | None:
    text = str(value)
    return int(text) if len(text) == 3 and text.isascii() and text.isdigit() and "400" <= text < "600" else None


def _code(said: _Said, status: int | None) -> FailureCode:
    # The words come first, the specific before the general: "insufficient_quota" is a 429 that no waiting helps.
    if status == 413:
        return "context_overflow"  # also where it is worded as a rate limit: no waiting makes the request smaller
    known: list[FailureCode] = [WORDS[word.lower()] for word in said.words if word.lower() in WORDS]
    for code in known:
        if code != "provider":
            return code
    for code, pattern in SENTENCES:
        if re.search(pattern, said.message, re.IGNORECASE):
            return code
    if status is not None and status in BY_STATUS:
        return BY_STATUS[status]
    if status is not None:
        return "provider" if status >= 500 else "invalid_request"
    if known:
        return known[0]
    asked_wrong = any(word.lower().startswith(("invalid", "image_", "unsupported_")) for word in said.words)
    return "invalid_request" if asked_wrong else "provider"


def _is_retryable(code: FailureCode, status: int | None, asked: str | None) -> bool:
    if asked in ("true", "false"):
        return asked == "true"
    if code not in _RETRYABLE_CODES:
        return False
    return status is None or status in _RETRYABLE_STATUS or status >= 500 or code in ("rate_limit", "overloaded")


def _fallback_message(status: int, body: bytes) -> str:
    title = _TITLE.search(body)
    if title:
        return f"HTTP {status}, a web page: {title.group(1).decode('utf-8', 'replace')}"
    if body.lstrip()[:1] == b"<":
        return f"HTTP {status}, a web page"
    if status == 400 and not body.strip():
        return "HTTP 400 without a reason, as some servers refuse what is too long for the model"
    return f"HTTP {status} without a reason"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    precise = _seconds(headers.get("retry-after-ms"))
    if precise is not None:
        return _clamp(precise / 1000)
    text = headers.get("retry-after")
    if text is None:
        return None
    plain = _seconds(text)
    if plain is not None:
        return plain
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return _clamp(moment.timestamp() - time.time())


def _seconds(text: Any) -> float | None:
    try:
        value = float(str(text).strip().removesuffix("s"))
    except ValueError:
        return None
    return _clamp(value) if value == value else None


def _clamp(value: float) -> float:
    return min(max(value, 0.0), MAX_RETRY_AFTER)
