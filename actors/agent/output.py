"""What goes in and what comes out of an agent, where that is not plain text."""

from typing import Any, ClassVar, Final, cast

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from ...messages.errors import AgentDefinitionError, ConfigurationError, RuntreeError
from ...messages.failure import FailureCode
from ...messages.model import OutputSchema, ToolDefinition
from ...messages.result import RunResult
from .agent import OUTPUT_TOOL, Agent
from .signature import InvalidArgumentsError, explain
from .tool_output import as_text

MAX_TRIES: Final = 3
"""Answers a model may give until one fits the output type."""

_WRAPPED = "value"


class OutputInvalidError(RuntreeError):
    """The model did not give an answer of the output type."""

    code: ClassVar[FailureCode] = "output_invalid"

    def __init__(self, problem: str, tries: int) -> None:
        super().__init__(problem, tries)
        self.problem, self.tries = problem, tries

    def __str__(self) -> str:
        return f"no answer of the output type in {self.tries} tries, last problem: {self.problem}"


class OutputPlan:
    """How one run gets its output from its model."""

    def __init__(self, agent: Agent) -> None:
        self.structured = agent.output_type is not str
        self.tries = 0
        self._adapter = _adapter(agent, "output_type")
        self._schema = _schema(agent, self._adapter) if self.structured else {}
        self._wrapped = self.structured and self._schema.get("type") != "object"

    @property
    def parameters(self) -> dict[str, JsonValue]:
        """JSON Schema of the answer, an object."""
        if not self._wrapped:
            return self._schema
        schema = dict(self._schema)
        definitions = schema.pop("$defs", None)
        wrapped: dict[str, JsonValue] = {"type": "object", "properties": {_WRAPPED: schema}, "required": [_WRAPPED]}
        return wrapped if definitions is None else {**wrapped, "$defs": definitions}

    @property
    def native(self) -> OutputSchema:
        """The schema for models that support one."""
        return OutputSchema(name=OUTPUT_TOOL, parameters=self.parameters)

    @property
    def definition(self) -> ToolDefinition:
        """The tool for all other models."""
        return ToolDefinition(
            name=OUTPUT_TOOL, description="Give the final answer. Call it once, at the end.", parameters=self.parameters
        )

    def accept_text(self, text: str, *, bare: bool = False) -> JsonValue:
        """Return the output that a text answer holds.

        Args:
            text: What the model wrote.
            bare: Whether the value stands for itself, also where a schema for models would wrap it: the model knows none.

        Raises:
            InvalidArgumentsError: It does not fit; the model can be told.
            OutputInvalidError: It does not fit, and was the last try.
        """
        if not self.structured:
            return text
        try:
            value = from_json(text.strip())
        except ValueError:
            way = "answer(value)" if bare else OUTPUT_TOOL
            raise self._rejected(f"the answer is not JSON; answer by {way} or as JSON alone") from None
        return self.accept_value(value) if bare else self.accept(value)

    def accept_value(self, value: Any) -> JsonValue:
        """Return the output that a value given by a program is; raises as `accept_text` does."""
        if not self.structured:
            return as_text(value)
        return self.accept({_WRAPPED: value} if self._wrapped else value)

    def accept(self, value: Any) -> JsonValue:
        """Return the output that a JSON value holds; raises as `accept_text` does."""
        try:
            if self._wrapped:
                fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
                if _WRAPPED not in fields:
                    raise self._rejected(f"{_WRAPPED}: Field required")
                value = fields[_WRAPPED]
            # From JSON, where for instance dates are text, as the schema says.
            return self._dump(self._adapter.validate_json(to_json(value)))
        except ValidationError as error:
            raise self._rejected(explain(error)) from None

    def _dump(self, value: Any) -> JsonValue:
        dumped: JsonValue = self._adapter.dump_python(value, mode="json")
        return dumped

    def _rejected(self, problem: str) -> InvalidArgumentsError | OutputInvalidError:
        self.tries += 1
        return OutputInvalidError(problem, self.tries) if self.tries >= MAX_TRIES else InvalidArgumentsError(problem)


def parse_output(agent: Agent, result: RunResult) -> Any:
    """Return the output of a completed run as a value of the agent's `output_type`; of other runs as it is."""
    if agent.output_type is str or result.status != "completed":
        return result.output
    return TypeAdapter(agent.output_type).validate_json(to_json(result.output))


def input_text(agent: Agent, value: Any) -> str:
    """Return an agent's input as the text its model reads.

    Raises:
        ConfigurationError: The input is not of the agent's `input_type`.
    """
    if agent.input_type is str:
        if isinstance(value, str):
            return value
        problem = f"a {type(value).__name__} is no text"
        raise ConfigurationError(f"input of agent {agent.name}", problem, "Pass a str, or set the agent's input_type")
    adapter = _adapter(agent, "input_type")
    if isinstance(value, BaseModel):
        # A class of the driver's script is another class here.
        value = value.model_dump(mode="json", by_alias=True)
    try:
        return adapter.dump_json(adapter.validate_python(value)).decode()
    except ValidationError as error:
        raise ConfigurationError(
            f"input of agent {agent.name}", explain(error), "Pass a value of the agent's input_type"
        ) from None


_TEXT: TypeAdapter[Any] = TypeAdapter(str)
"""What nearly every run needs: made once."""


def _adapter(agent: Agent, field: str) -> TypeAdapter[Any]:
    hint: Any = getattr(agent, field)
    try:
        return _TEXT if hint is str else TypeAdapter(hint)
    except Exception as error:
        raise AgentDefinitionError(
            f"agent {agent.name}, {field}",
            "pydantic can't validate it",
            "Use str, a pydantic model or a JSON-able type",
        ) from error


def _schema(agent: Agent, adapter: TypeAdapter[Any]) -> dict[str, JsonValue]:
    try:
        return adapter.json_schema()
    except Exception as error:
        raise AgentDefinitionError(
            f"agent {agent.name}, output_type", "it has no JSON schema", "Use str, a pydantic model or a JSON-able type"
        ) from error
