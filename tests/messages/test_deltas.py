"""Deltas made without validation are in nothing different from those made with it."""

import copy
import pickle

import pytest
from pydantic import BaseModel, ValidationError

from runtree.messages.model import ReasoningDelta, TextDelta, ToolCallDelta

PAIRS = [
    (TextDelta.of("a"), TextDelta(text="a")),
    (ReasoningDelta.of("a", 2), ReasoningDelta(text="a", index=2)),
    (ToolCallDelta.of("c1", "find", '{"a"'), ToolCallDelta(call_id="c1", tool_name="find", arguments='{"a"')),
]


@pytest.mark.parametrize("quick, checked", PAIRS)
def test_the_same_value(quick: BaseModel, checked: BaseModel) -> None:
    assert type(quick) is type(checked)
    assert quick == checked
    assert hash(quick) == hash(checked)
    assert repr(quick) == repr(checked)
    assert list(quick.__dict__) == list(checked.__dict__)
    assert quick.model_fields_set == checked.model_fields_set
    assert quick.__getstate__() == checked.__getstate__()
    assert quick.model_dump_json(exclude_unset=True) == checked.model_dump_json(exclude_unset=True)


@pytest.mark.parametrize("quick, checked", PAIRS)
def test_copies_and_pickles(quick: BaseModel, checked: BaseModel) -> None:
    for other in (copy.copy(quick), copy.deepcopy(quick), pickle.loads(pickle.dumps(quick))):
        assert other == checked
        assert other.model_fields_set == checked.model_fields_set
    changed = quick.model_copy(update={"kind": "text_delta"})
    assert "kind" in changed.model_fields_set
    assert quick.model_fields_set == checked.model_fields_set


@pytest.mark.parametrize("quick, checked", PAIRS)
def test_frozen(quick: BaseModel, checked: BaseModel) -> None:
    for name in type(checked).model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(quick, name, "other")


def test_a_pattern_matches() -> None:
    match TextDelta.of("a"):
        case TextDelta(text=text):
            assert text == "a"
