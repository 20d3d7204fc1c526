"""`runtree schema` describes what `runtree run --json` writes."""

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from runtree.messages import ITEM_TYPES, Item, stream_schema

from .samples import one_of_every_kind

SCHEMA = stream_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_the_schema_is_itself_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    json.dumps(SCHEMA)


@pytest.mark.parametrize("item", one_of_every_kind(), ids=lambda item: item.kind)
def test_every_kind_matches(item: Item) -> None:
    VALIDATOR.validate(json.loads(item.to_json()))


def test_the_tag_names_the_definition() -> None:
    assert SCHEMA["discriminator"]["propertyName"] == "kind"
    assert list(SCHEMA["discriminator"]["mapping"]) == list(ITEM_TYPES)
    assert all(ref.rpartition("/")[2] in SCHEMA["$defs"] for ref in SCHEMA["discriminator"]["mapping"].values())


def test_kinds_of_a_newer_version_match_as_unknown() -> None:
    VALIDATOR.validate({"kind": "input_requested", "run_id": "r", "question": "Go on?"})


_START: dict[str, Any] = {"kind": "run_started", "run_id": "r", "parent_run_id": None, "root_run_id": "r", "agent": "a"}


@pytest.mark.parametrize(
    "wrong",
    [
        {**_START, "agent": 1},
        {key: value for key, value in _START.items() if key != "agent"},
        {"run_id": "r"},
        "run_started",
    ],
)
def test_a_known_kind_with_wrong_fields_does_not_pass_as_unknown(wrong: Any) -> None:
    VALIDATOR.validate(_START)
    assert not VALIDATOR.is_valid(wrong)
