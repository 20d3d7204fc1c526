"""From a request to the JSON of a chat completions call."""

from collections.abc import Mapping
from typing import Any

from ...messages.model import ModelRequest, ModelSettings
from ..extra_body import checked_extra_body
from ..shapes import is_object
from .history import History
from .profile import ChatProfile


def build_body(request: ModelRequest, model: str, profile: ChatProfile) -> dict[str, Any]:
    """Return the body of the call; what the profile does not support is left out, the request stays as it is."""
    model = request.model or model
    return body_by(request, model, profile.facts_for(model, request.settings))


def body_by(request: ModelRequest, model: str, facts: ChatProfile) -> dict[str, Any]:
    """Return the body of the call, like `build_body`, by the facts that hold for this request and model."""
    body = _asked(request, model, facts)
    sent = {facts.renamed.get(name, name): value for name, value in body.items() if name not in facts.refused}
    limit = facts.renamed.get(facts.max_tokens_field, facts.max_tokens_field)
    own = checked_extra_body(facts.extra_body, "profile.extra_body", limit)
    for fields in (own, _reasoning(request.settings, facts)):
        _merge(sent, fields)
    sent.update(checked_extra_body(request.settings.extra_body, limit=limit))
    return sent


def _asked(request: ModelRequest, model: str, profile: ChatProfile) -> dict[str, Any]:
    """Return the fields that the protocol has."""
    settings = request.settings
    body: dict[str, Any] = {"model": model, "messages": list(History(request, profile).messages())}
    if settings.stream:
        body["stream"] = True
        if profile.include_usage:
            body["stream_options"] = {"include_usage": True}
    body.update(_tools(request, profile))
    if request.output_schema and profile.native_output_schema:
        schema = {"name": request.output_schema.name, "schema": request.output_schema.parameters}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    sampling = {
        profile.max_tokens_field: settings.max_output_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stop": list(settings.stop) or None,
        "seed": settings.seed,
    }
    body.update({name: value for name, value in sampling.items() if value is not None})
    return body


def _tools(request: ModelRequest, profile: ChatProfile) -> dict[str, Any]:
    choice = profile.tool_choices.get(request.tool_choice, request.tool_choice)
    if not request.tools or (request.tool_choice == "none" and choice is None):
        return {}
    fields: dict[str, Any] = {
        "tools": [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
            for t in request.tools
        ]
    }
    if choice not in ("auto", None):
        fields["tool_choice"] = choice
    if request.settings.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = request.settings.parallel_tool_calls
    return fields


def _reasoning(settings: ModelSettings, profile: ChatProfile) -> dict[str, Any]:
    """Return what asks for reasoning, in the words of the server."""
    effort, budget = settings.reasoning_effort, settings.reasoning_budget
    if effort == "none" and profile.thinking_off:
        return dict(profile.thinking_off)
    fields: dict[str, Any] = {}
    if (effort and effort != "none") or (budget and profile.budget_field and not effort):
        _merge(fields, profile.thinking_on)
    if budget and profile.budget_field and effort != "none":
        _merge(fields, _nested(profile.budget_field, budget))
    elif effort and profile.effort_field:
        _merge(fields, _nested(profile.effort_field, profile.effort_words.get(effort, effort)))
    return fields


def _nested(path: str, value: Any) -> dict[str, Any]:
    """Return an object with a value at a path of names with dots between them."""
    for name in reversed(path.split(".")):
        value = {name: value}
    nested: dict[str, Any] = value
    return nested


def _merge(into: dict[str, Any], fields: Mapping[str, Any]) -> None:
    """Add fields to an object; objects in both are merged, and nothing of the fields is changed."""
    for name, value in fields.items():
        known = into.get(name)
        if is_object(known) and is_object(value):
            merged = dict(known)
            _merge(merged, value)
            into[name] = merged
        else:
            into[name] = value
