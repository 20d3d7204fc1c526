"""The base of everything that travels: frozen pydantic values."""

from collections.abc import Callable
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

set_fields: Callable[[BaseModel, dict[str, Any]], None] = BaseModel.__dict__["__dict__"].__set__
set_field_names: Callable[[BaseModel, set[str]], None] = BaseModel.__dict__["__pydantic_fields_set__"].__set__
set_extra: Callable[[BaseModel, dict[str, Any] | None], None] = BaseModel.__dict__["__pydantic_extra__"].__set__
set_private: Callable[[BaseModel, dict[str, Any] | None], None] = BaseModel.__dict__["__pydantic_private__"].__set__
# All that a pydantic object holds. With these, values that are made for every token are made without validation, at half
# the cost; `model_construct` would cost more than validation does.


class Value(BaseModel):
    """A frozen value that is known by what it holds.

    Fields that a newer version added are ignored on reading; fields that are misspelt in code are found by the type checker.
    """

    # Validators are built at first use: a process uses few of them, and building all takes a quarter of its start.
    model_config = ConfigDict(
        frozen=True, use_attribute_docstrings=True, ser_json_inf_nan="constants", defer_build=True
    )

    def to_json(self) -> str:
        """Return the value as one line of JSON."""
        return self.__pydantic_serializer__.to_json(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a value from JSON.

        Raises:
            pydantic.ValidationError: The text is not JSON, or a field is missing or of a wrong type.
        """
        return cls.model_validate_json(text)


def build_values(*packages: str) -> None:
    """Build the validators of all values that these packages have defined so far, of which each would else be built at its first use."""
    waiting: list[type[Value]] = [Value]
    while waiting:
        value = waiting.pop()
        waiting.extend(value.__subclasses__())
        if value.__module__.startswith(packages):
            value.model_rebuild()


class OpenValue(BaseModel):
    """A frozen value of a kind this version does not know: every field is kept and written back."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    kind: str
    """The unknown tag."""
