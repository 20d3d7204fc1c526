"""What providers say when they fail, as data: codes, sentences and statuses, and the kind of failure each means."""

from collections.abc import Mapping

from ..messages.failure import FailureCode

# What providers put into `code`, `type` or `status`, in lower case.
WORDS: Mapping[str, FailureCode] = {
    "arrearage": "quota",
    "authentication_error": "authentication",
    "billing_error": "quota",
    "bio_policy": "content_filter",
    "capacity_exceeded": "overloaded",
    "content_filter": "content_filter",
    "content_policy_violation": "content_filter",
    "context_length_exceeded": "context_overflow",
    "data_inspection_failed": "content_filter",
    "data_residency_mismatch": "invalid_request",
    "deploymentnotfound": "model_not_found",
    "empty_image_file": "invalid_request",
    "enforced_spend_limit_reached": "quota",
    "engine_overloaded_error": "overloaded",
    "exceed_context_size_error": "context_overflow",
    "exceeded_current_quota_error": "quota",
    "failed_to_download_image": "invalid_request",
    "image_content_policy_violation": "content_filter",
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
    "rate_limit_reached_error": "rate_limit",
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
SENTENCES: tuple[tuple[FailureCode, str], ...] = (
    (
        "rate_limit",
        r"too many (tokens|requests), please wait|rate limit (reached|exceeded)|exceeded rate limit|per (minute|hour|day) limit",
    ),
    (
        "context_overflow",
        (
            r"prompt is too long|exceeds the context window|context_length_exceeded|maximum context length is \d"
            r"|input token count .*exceeds the maximum|maximum prompt length is \d|reduce the length of the messages"
            r"|exceeds the available context size|greater than the context length|exceed(ed|s) (the )?max(imum)? context length"
            r"|exceeds the limit of \d|too many tokens|input tokens exceeded|total length of all messages is too long"
            r"|exceeded model token limit|exceeds? (the )?context limit|input is too long for|range of input length should be"
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
            r"|\breasoning(_content|_details)?: (extra inputs are not permitted|property is unsupported)"
            r"|thought[_ ]signature|property '[^']*\breasoning(_content|_details)?' is unsupported"
        ),
    ),
    (
        "quota",
        (
            r"reached your specified api usage limits|credit balance is too low to access|^insufficient (balance|credits)"
            r"|used all available credits"
        ),
    ),
    ("content_filter", r"blocked by content filtering policy|flagged as potentially violating"),
    (
        "authentication",
        r"^(invalid|incorrect) api key|^api key not valid|^(missing|no) (or invalid )?auth(entication|orization)",
    ),
    (
        "model_not_found",
        (
            r"^invalid model: |^model not found|^unknown model\b|^(specified|requested) model not found|is not a valid model id\W*$"
            r"|^the (requested )?model .* (does not exist|has been deprecated)|^the supported api model names are"
        ),
    ),
)

BY_STATUS: Mapping[int, FailureCode] = {
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
