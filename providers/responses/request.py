"""From a request to the JSON of a responses call, which has the whole conversation and asks the provider to remember nothing."""

from typing import Any

from ...messages.errors import ConfigurationError
from ...messages.model import ModelRequest
from ..extra_body import checked_extra_body
from .history import input_items
from .profile import ResponsesProfile


def build_body(
    request: ModelRequest, model: str, profile: ResponsesProfile, *, summary: str | None = None
) -> dict[str, Any]:
    """Return the body of the call; what the profile does not support is left out, the request stays as it is.

    Args:
        request: The call.
        model: The model, where the request names none.
        profile: Facts of the server.
        summary: How detailed a summary of the reasoning shall be, where the settings do not say; `None`: none is asked for.

    Raises:
        ConfigurationError: There is no message to send, or `extra_body` would lift the limit of the answer.
    """
    settings = request.settings
    name = request.model or model
    reasoning = {"effort": settings.reasoning_effort, "summary": settings.reasoning_summary or summary}
    reasoning = {key: value for key, value in reasoning.items() if value is not None}
    reasons = profile.reasons(name, asked=bool(reasoning))
    stored = settings.extra_body.get("store") is True
    items = input_items(request, profile, reasons=reasons, stored=stored)
    if not items and "input" not in settings.extra_body:
        raise ConfigurationError(
            "messages", "there is nothing to send: no message has any content", "Begin with a message of the user"
        )
    body: dict[str, Any] = {"model": name, "input": items, "store": False}
    instructions = request.instructions or profile.default_instructions
    if instructions:
        body["instructions"] = instructions
    if settings.stream:
        body["stream"] = True
    if reasons and profile.include:
        body["include"] = list(profile.include)
    if reasoning:
        body["reasoning"] = reasoning
    body.update(_tools(request))
    if request.output_schema and profile.native_output_schema:
        # Strict schemas must list every property as required, which ours need not do: said explicitly, as the default is strict.
        shape = {"name": request.output_schema.name, "schema": request.output_schema.parameters, "strict": False}
        body["text"] = {"format": {"type": "json_schema", **shape}}
    body.update(_sampling(request))
    for field in _refused(request, profile, reasons):
        body.pop(field, None)
    body.update(checked_extra_body(settings.extra_body))
    return body


def _tools(request: ModelRequest) -> dict[str, Any]:
    if not request.tools:
        return {}
    tools = [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": False,
        }
        for tool in request.tools
    ]
    fields: dict[str, Any] = {"tools": tools}
    if request.tool_choice != "auto":
        fields["tool_choice"] = request.tool_choice
    if request.settings.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = request.settings.parallel_tool_calls
    return fields


def _sampling(request: ModelRequest) -> dict[str, Any]:
    settings = request.settings
    fields = {
        "max_output_tokens": settings.max_output_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _refused(request: ModelRequest, profile: ResponsesProfile, reasons: bool | None) -> tuple[str, ...]:
    if reasons and request.settings.reasoning_effort != "none":
        return profile.refuses + profile.reasoning_refuses
    return profile.refuses
