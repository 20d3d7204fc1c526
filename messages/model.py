"""What goes to a model and what comes back: requests, responses, and the events in between."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, JsonValue, NonNegativeInt, PositiveFloat, PositiveInt

from .failure import Failure
from .transcript import AssistantMessage, FinishReason, Message
from .usage import Cost, Usage
from .value import Value, set_extra, set_field_names, set_fields, set_private

_new = object.__new__
_TEXT = {"text"}
_REASONING = {"text", "index"}
_CALL = {"call_id", "tool_name", "arguments"}


class ToolDefinition(Value):
    """A tool as the model sees it."""

    name: str
    """Letters, digits, `_` and `-`, at most 64 characters."""
    description: str = ""
    """When and how to use it."""
    parameters: dict[str, JsonValue]
    """JSON Schema of the arguments, an object."""


class ModelSettings(Value):
    """How a model should answer; what a provider's profile does not know is refused by the provider, not here."""

    model_config = ConfigDict(extra="forbid")

    max_output_tokens: PositiveInt | None = None
    """Upper bound of the answer, reasoning included."""
    temperature: float | None = None
    """Sampling temperature."""
    top_p: float | None = None
    """Nucleus sampling."""
    stop: tuple[str, ...] = ()
    """Sequences that end the answer."""
    seed: int | None = None
    """Seed for providers that sample reproducibly."""
    reasoning_effort: str | None = None
    """The provider's word for how long to think."""
    reasoning_summary: Literal["auto", "concise", "detailed"] | None = None
    """Ask for reasoning in readable form where it has to be asked for; OpenAI grants it to organisations it has verified."""
    reasoning_budget: PositiveInt | None = None
    """Tokens for reasoning, where the provider takes a number."""
    prompt_cache: Literal["5m", "1h"] | None = None
    """How long the provider shall keep the prompt in its cache, where that has to be asked for."""
    parallel_tool_calls: bool | None = None
    """Whether one answer may hold several calls."""
    extra_body: dict[str, JsonValue] = Field(default_factory=dict)
    """Fields merged into the request's JSON as they are; none that limits the answer, which `max_output_tokens` does."""
    stream: bool = True
    """Ask for a streamed answer; `False` sends a unary request, with the same events after the fact."""


ToolChoice = Literal["auto", "none", "required"]
"""Whether the model may, must not or must call a tool."""


class OutputSchema(Value):
    """The shape a structured answer must have."""

    name: str
    """Name of the schema."""
    parameters: dict[str, JsonValue]
    """JSON Schema, an object."""


class ModelRequest(Value):
    """One call of a model."""

    messages: tuple[Message, ...]
    """The conversation so far; append-only from call to call."""
    instructions: str = ""
    """The system prompt."""
    tools: tuple[ToolDefinition, ...] = ()
    """Tools the model may call."""
    tool_choice: ToolChoice = "auto"
    """Whether it may, must or must not."""
    output_schema: OutputSchema | None = None
    """A shape for the answer, where the profile has native support."""
    settings: ModelSettings = ModelSettings()
    """Sampling and size."""
    model: str | None = None
    """Name of the model to call instead of the one the model object was made with."""
    timeout: PositiveFloat | None = None
    """Seconds for the whole call."""
    idle_timeout: PositiveFloat | None = None
    """Seconds without a byte before the call counts as stalled."""
    thinking_from: NonNegativeInt = 0
    """Index of the first message whose thinking is sent back; the provider refused that of the messages before."""
    run_id: str | None = None
    """The run that asks, for logs and rate limits; never sent."""


class ModelResponse(Value):
    """The whole answer; authoritative over the fragments that came before."""

    message: AssistantMessage
    """What was said."""
    finish_reason: FinishReason = "stop"
    """Why it ended."""
    finish_reason_raw: str | None = None
    """The provider's own word."""
    usage: Usage = Usage(precision="unknown")
    """What it consumed."""
    cost: Cost | None = None
    """The charge as the provider reported it; beats a computed one."""
    model: str | None = None
    """The model that answered, as the provider names it."""
    response_id: str | None = None
    """The provider's id of the answer."""
    cached: bool = False
    """Whether it was kept from an earlier call: nothing was sent and nothing is charged."""


class Started(Value):
    """The provider accepted the call."""

    kind: Literal["started"] = "started"
    model: str | None = None
    """The model that answers."""


class TextDelta(Value):
    """A piece of visible text."""

    kind: Literal["text_delta"] = "text_delta"
    text: str
    """The piece, never empty."""

    @staticmethod
    def of(text: str) -> "TextDelta":
        """Return the same as `TextDelta(text=text)` at half the cost, without validation: for providers, which make one for each token."""
        delta: TextDelta = _new(TextDelta)
        set_fields(delta, {"kind": "text_delta", "text": text})
        set_field_names(delta, _TEXT)
        set_extra(delta, None)
        set_private(delta, None)
        return delta


class ReasoningDelta(Value):
    """A piece of reasoning."""

    kind: Literal["reasoning_delta"] = "reasoning_delta"
    text: str
    """The piece, never empty."""
    index: int = 0
    """Number of the thinking block it belongs to."""

    @staticmethod
    def of(text: str, index: int) -> "ReasoningDelta":
        """Return the same as `ReasoningDelta(text=text, index=index)`, without validation."""
        delta: ReasoningDelta = _new(ReasoningDelta)
        set_fields(delta, {"kind": "reasoning_delta", "text": text, "index": index})
        set_field_names(delta, _REASONING)
        set_extra(delta, None)
        set_private(delta, None)
        return delta


class SignatureDelta(Value):
    """A piece of a thinking block's signature."""

    kind: Literal["signature_delta"] = "signature_delta"
    signature: str
    """The piece."""
    index: int = 0
    """Number of the thinking block it belongs to."""


class ToolCallDelta(Value):
    """A piece of a call. The first one of a call carries the name, also if its arguments are still empty."""

    kind: Literal["tool_call_delta"] = "tool_call_delta"
    call_id: str
    """Id of the call, the same in every piece and in the response."""
    tool_name: str
    """Name of the tool, in every piece."""
    arguments: str = ""
    """A piece of the arguments' JSON."""

    @staticmethod
    def of(call_id: str, tool_name: str, arguments: str) -> "ToolCallDelta":
        """Return the same as `ToolCallDelta(call_id=..., tool_name=..., arguments=...)`, without validation."""
        delta: ToolCallDelta = _new(ToolCallDelta)
        fields = {"kind": "tool_call_delta", "call_id": call_id, "tool_name": tool_name, "arguments": arguments}
        set_fields(delta, fields)
        set_field_names(delta, _CALL)
        set_extra(delta, None)
        set_private(delta, None)
        return delta


class UsageDelta(Value):
    """Usage known so far; each report replaces the one before."""

    kind: Literal["usage_delta"] = "usage_delta"
    usage: Usage
    """Cumulative over the call."""


class Discarded(Value):
    """What the call said so far does not count; it is made again, by the same model or by another."""

    kind: Literal["discarded"] = "discarded"
    error: Failure
    """Why."""
    usage: Usage = Usage(precision="unknown")
    """What the try consumed."""
    model: str | None = None
    """The model that is asked next, if it is another."""
    delay: float | None = None
    """Seconds until it is."""


class Completed(Value):
    """The call ended with an answer; always the last event."""

    kind: Literal["completed"] = "completed"
    response: ModelResponse
    """The whole answer."""


class Failed(Value):
    """The call ended without an answer; always the last event."""

    kind: Literal["failed"] = "failed"
    error: Failure
    """Why."""
    partial: AssistantMessage | None = None
    """What was said until then; its calls are never run."""
    usage: Usage = Usage(precision="unknown")
    """What is known to be consumed."""


ModelEvent = (
    Started | TextDelta | ReasoningDelta | SignatureDelta | ToolCallDelta | UsageDelta | Discarded | Completed | Failed
)
"""What a model yields, as a plain union for introspection."""

AnyModelEvent = Annotated[ModelEvent, Discriminator("kind")]
"""What a model yields, for validation: one look-up by the tag instead of a trial of each member."""

JsonSchema = dict[str, Any]
"""A JSON Schema document."""
