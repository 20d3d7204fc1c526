"""From a request to the JSON of a chat completions call."""

from collections.abc import Iterator, Sequence
from typing import Any

import pydantic_core

from ...messages.content import ContentBlock, ImageBlock, TextBlock, ThinkingBlock, ToolCallBlock
from ...messages.model import ModelRequest
from ...messages.transcript import AssistantMessage, Message, ToolMessage, ToolResult, UserMessage
from .profile import ChatProfile

_NO_IMAGE = "[an image, which this model can't be shown in the result of a tool]"


def build_body(request: ModelRequest, model: str, profile: ChatProfile) -> dict[str, Any]:
    """Return the body of the call; what the profile does not support is left out, the request stays as it is."""
    settings = request.settings
    body: dict[str, Any] = {"model": request.model or model, "messages": list(_messages(request, profile))}
    if settings.stream:
        body["stream"] = True
        if profile.include_usage:
            body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
            for t in request.tools
        ]
        if request.tool_choice != "auto":
            body["tool_choice"] = request.tool_choice
        if settings.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = settings.parallel_tool_calls
    if request.output_schema and profile.native_output_schema:
        schema = {"name": request.output_schema.name, "schema": request.output_schema.parameters}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    sampling = {
        profile.max_tokens_field: settings.max_output_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stop": list(settings.stop) or None,
        "seed": settings.seed,
        "reasoning_effort": settings.reasoning_effort,
    }
    body.update({name: value for name, value in sampling.items() if value is not None})
    body.update(settings.extra_body)
    return body


def _messages(request: ModelRequest, profile: ChatProfile) -> Iterator[dict[str, Any]]:
    if request.instructions:
        yield {"role": profile.system_role, "content": request.instructions}
    for message in request.messages:
        yield from _translate(message, profile)


def _translate(message: Message, profile: ChatProfile) -> Iterator[dict[str, Any]]:
    match message:
        case UserMessage():
            yield {"role": "user", "content": _content(message.content)}
        case AssistantMessage():
            yield _assistant(message, profile)
        case ToolMessage():
            for result in message.results:
                yield {"role": "tool", "tool_call_id": result.call_id, "content": _result_text(result)}


def _content(blocks: Sequence[ContentBlock]) -> str | list[dict[str, Any]]:
    if not any(isinstance(block, ImageBlock) for block in blocks):
        return "".join(block.text for block in blocks if isinstance(block, TextBlock))
    return [part for part in map(_part, blocks) if part]


def _part(block: ContentBlock) -> dict[str, Any] | None:
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text} if block.text else None
        case ImageBlock():
            url = block.url or f"data:{block.media_type};base64,{block.data}"
            return {"type": "image_url", "image_url": {"url": url}}
        case _:
            return None


def _assistant(message: AssistantMessage, profile: ChatProfile) -> dict[str, Any]:
    text, calls = message.text, [_call(block, profile) for block in message.tool_calls]
    said: dict[str, Any] = {"role": "assistant", "content": text if text or not calls else None}
    if profile.reasoning_replay:
        thinking = [block for block in message.content if isinstance(block, ThinkingBlock)]
        own = [block.text for block in thinking if block.provider == profile.provider]
        if own:
            said[profile.reasoning_replay] = "".join(own)
    if calls:
        said["tool_calls"] = calls
    return said


def _call(block: ToolCallBlock, profile: ChatProfile) -> dict[str, Any]:
    arguments = block.arguments_json
    if block.arguments is None:
        # Servers read the arguments of earlier calls and refuse what is no JSON; the model still sees what it wrote.
        arguments = pydantic_core.to_json({"invalid_json": block.arguments_json}).decode()
    call: dict[str, Any] = {
        "id": block.call_id,
        "type": "function",
        "function": {"name": block.tool_name, "arguments": arguments},
    }
    if block.extras and block.provider == profile.provider:
        call.update(block.extras)
    return call


def _result_text(result: ToolResult) -> str:
    pieces = [
        block.text if isinstance(block, TextBlock) else _NO_IMAGE
        for block in result.content
        if isinstance(block, TextBlock | ImageBlock)
    ]
    return "".join(pieces)
