"""From whatever a provider says when it fails to one `Failure`: its kind, whether to try again and when."""

import email.utils
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx
import pydantic_core

from ..messages.failure import Failure, FailureCode
from .secrets import redact
from .shapes import as_object, as_objects, is_array

MAX_RETRY_AFTER = 24 * 3600.0
"""Seconds above which a wait the provider asks for is cut: nobody waits a day on purpose."""

_RETRYABLE_STATUS = frozenset({408, 409, 425, 429})
_RETRYABLE_CODES: frozenset[FailureCode] = frozenset({"rate_limit", "overloaded", "timeout", "transport", "provider"})
_LONGEST_MESSAGE = 300

# What providers put into `code`, `type` or `status`, in lower case.
_WORDS: Mapping[str, FailureCode] = {
    "authentication_error": "authentication",
    "billing_error": "quota",
    "bio_policy": "content_filter",
    "capacity_exceeded": "overloaded",
    "content_filter": "content_filter",
    "content_policy_violation": "content_filter",
    "context_length_exceeded": "context_overflow",
    "deploymentnotfound": "model_not_found",
    "enforced_spend_limit_reached": "quota",
    "exceed_context_size_error": "context_overflow",
    "insufficient_quota": "quota",
    "insufficient_system_resource": "overloaded",
    "invalid_api_key": "authentication",
    "invalid_encrypted_content": "thinking_rejected",
    "invalid_model": "model_not_found",
    "model_not_found": "model_not_found",
    "not_found_error": "model_not_found",
    "overloaded": "overloaded",
    "overloaded_error": "overloaded",
    "permission_error": "authentication",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "ratelimitreached": "rate_limit",
    "request_too_large": "context_overflow",
    "server_error": "provider",
    "server_is_overloaded": "overloaded",
    "service_unavailable": "overloaded",
    "slow_down": "rate_limit",
    "api_error": "provider",
    "timeout_error": "timeout",
    "too_many_requests": "rate_limit",
    "vector_store_timeout": "timeout",
    "tokens": "rate_limit",
    "requests": "rate_limit",
}

# Sentences of providers without a telling code. Throttling is looked for first: "too many tokens, please wait" is no overflow.
_SENTENCES: tuple[tuple[FailureCode, str], ...] = (
    ("rate_limit", r"too many (tokens|requests), please wait|rate limit (reached|exceeded)|exceeded rate limit"),
    (
        "context_overflow",
        (
            r"prompt is too long|exceeds the context window|context_length_exceeded|maximum context length is \d"
            r"|input token count .*exceeds the maximum|maximum prompt length is \d|reduce the length of the messages"
            r"|exceeds the available context size|greater than the context length|exceed(ed|s) (the )?max(imum)? context length"
            r"|exceeds the limit of \d|too many tokens|input tokens exceeded|total length of all messages is too long"
            r"|exceeded model token limit"
        ),
    ),
    (
        "thinking_rejected",
        (
            r"without its required (following item|'reasoning' item)|^item with id '(rs|fc|msg)_.* not found"
            r"|encrypted content .*could not be (verified|decrypted)|^reasoning input items can only be provided to"
        ),
    ),
    (
        "thinking_rejected",
        (
            r"invalid `?(signature|data)`? in `?(redacted_)?thinking|expected `?thinking`? or `?redacted_thinking"
            r"|thinking`? blocks? .*cannot be modified|cannot be `?(redacted_)?thinking|thinking\.signature: field required"
        ),
    ),
    (
        "thinking_rejected",
        (
            r"reasoning_content`? .*(must be passed back|is missing)|(requires|is missing) `?reasoning_content"
            r"|thought[_ ]signature|property '[^']*\breasoning(_content|_details)?' is unsupported"
        ),
    ),
    ("quota", r"reached your specified api usage limits|credit balance is too low to access"),
    ("authentication", r"^(invalid|incorrect) api key|^api key not valid|^(missing|no) authentication"),
    (
        "model_not_found",
        (
            r"^invalid model: |^model not found|^(specified|requested) model not found|is not a valid model id\W*$"
            r"|^the (requested )?model .* (does not exist|has been deprecated)|^the supported api model names are"
        ),
    ),
)

_BY_STATUS: Mapping[int, FailureCode] = {
    401: "authentication",
    402: "quota",
    403: "authentication",
    404: "model_not_found",
    408: "timeout",
    409: "provider",
    413: "context_overflow",
    425: "provider",
    429: "rate_limit",
    498: "overloaded",
    502: "overloaded",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}

_SECRET_SHAPES = re.compile(r"(?i)\b(?:sk|pk|rk|key|gsk|xai)-[A-Za-z0-9_-]{8,}|(?<=bearer )[^\s\"']{8,}")
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


def clean(text: str, secret: str | None = None) -> str:
    """Return a text for people: on one line, short, without keys."""
    text = redact(text)
    if secret:
        text = text.replace(secret, "***")
    text = " ".join(_SECRET_SHAPES.sub("***", text).split())
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"


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
    code = _code(said, status)
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
        return _Said(value)
    if depth >= 4:
        return _Said()
    if is_array(value):
        return next((_said(item, depth + 1) for item in value), _Said())
    body = as_object(value)
    outer = _own(body)
    for key in ("error", "detail", "errors"):
        if body.get(key):
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
        return outer._replace(message=inner.message or outer.message, words=words)
    return outer


def _own(value: dict[str, Any]) -> _Said:
    message = next((value[key] for key in ("message", "msg") if isinstance(value.get(key), str)), "")
    details = as_objects(value.get("details"))
    kinds = [as_object(value.get("details")).get("error_code")]
    kinds += [value.get(key) for key in ("code", "type", "status")]
    kinds += [detail.get("reason") for detail in details]
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
    known: list[FailureCode] = [_WORDS[word.lower()] for word in said.words if word.lower() in _WORDS]
    for code in known:
        if code != "provider":
            return code
    for code, pattern in _SENTENCES:
        if re.search(pattern, said.message, re.IGNORECASE):
            return code
    if status is not None and status in _BY_STATUS:
        return _BY_STATUS[status]
    if status is not None:
        return "provider" if status >= 500 else "invalid_request"
    if known:
        return known[0]
    return "invalid_request" if any(word.lower().startswith("invalid") for word in said.words) else "provider"


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
