"""From a request to the JSON of a call of the messages protocol."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...messages.model import ModelRequest, ModelSettings
from ..extra_body import checked_extra_body
from ..shapes import as_array, as_object
from .caching import mark
from .history import is_opened, turns_of
from .profile import AnthropicProfile, ModelRule
from .schema import held_to
from .thinking import Thinking, thinking_for

_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_TOP_P_WHILE_THINKING = 0.95


class Call(NamedTuple):
    """What is sent."""

    body: dict[str, Any]
    """The JSON."""
    betas: tuple[str, ...] = ()
    """Betas that it needs."""


def build_call(request: ModelRequest, model: str, profile: AnthropicProfile) -> Call:
    """Return the call; what the model does not support is left out, the request stays as it is."""
    settings, name = request.settings, request.model or model
    rule = profile.rule(name)
    turns = turns_of(request, profile)
    thinking = thinking_for(settings, rule, profile, opened=is_opened(turns))
    system = [{"type": "text", "text": request.instructions}] if request.instructions.strip() else []
    tools = [_tool(tool.name, tool.description, tool.parameters) for tool in request.tools]
    if settings.prompt_cache:
        mark(settings.prompt_cache, tools, system, turns, spare=int("cache_control" in settings.extra_body))
    body: dict[str, Any] = {"model": name, "max_tokens": thinking.max_tokens}
    if system:
        body["system"] = system if settings.prompt_cache else request.instructions
    if tools:
        body["tools"] = tools
        body.update(_tool_choice(request, rule, thinking))
    body["messages"] = [{"role": turn.role, "content": turn.blocks} for turn in turns]
    body.update(_thinking(request, profile, rule, thinking))
    body.update(_sampling(settings, rule, thinking))
    if settings.stream:
        body["stream"] = True
    needs_beta = bool(profile.betas and thinking.manual and tools and rule.interleaved_beta)
    return Call(
        _merged(body, checked_extra_body(settings.extra_body)),
        (rule.interleaved_beta,) if needs_beta and rule.interleaved_beta else (),
    )


def _tool(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    tool: dict[str, Any] = {"name": name, "input_schema": {**parameters, "type": "object"}}
    return {**tool, "description": description} if description else tool


def _tool_choice(request: ModelRequest, rule: ModelRule, thinking: Thinking) -> dict[str, Any]:
    choice: dict[str, Any] = {"type": _CHOICES[request.tool_choice]}
    if choice["type"] == "any" and (thinking.manual or not rule.forced_tools):
        choice = {"type": "auto"}
    if request.settings.parallel_tool_calls is False and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    return {} if choice == {"type": "auto"} else {"tool_choice": choice}


def _thinking(request: ModelRequest, profile: AnthropicProfile, rule: ModelRule, thinking: Thinking) -> dict[str, Any]:
    output: dict[str, Any] = {}
    if thinking.effort:
        output["effort"] = thinking.effort
    if request.output_schema and profile.native_output_schema and rule.output_schema:
        output["format"] = {"type": "json_schema", "schema": held_to(request.output_schema.parameters)}
    fields = {"thinking": thinking.config, "output_config": output}
    return {name: value for name, value in fields.items() if value}


def _sampling(settings: ModelSettings, rule: ModelRule, thinking: Thinking) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    # A sequence of blanks is refused.
    stop = [sequence for sequence in settings.stop if sequence.strip()]
    if stop:
        fields["stop_sequences"] = stop
    if rule.sampling == "none":
        return fields
    temperature, top_p = settings.temperature, settings.top_p
    if thinking.active:
        temperature = None
        top_p = top_p if top_p is not None and top_p >= _TOP_P_WHILE_THINKING else None
    if temperature is not None:
        fields["temperature"] = min(max(temperature, 0.0), 1.0)
    if top_p is not None and (rule.sampling == "any" or temperature is None):
        fields["top_p"] = top_p
    return fields


def _merged(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body with further fields; tools are added to those there are, and so are fields of the output's configuration."""
    merged = {**body, **extra}
    if "tools" in body and "tools" in extra:
        merged["tools"] = [*body["tools"], *as_array(extra["tools"])]
    if "output_config" in body and "output_config" in extra:
        merged["output_config"] = {**body["output_config"], **as_object(extra["output_config"])}
    return merged
