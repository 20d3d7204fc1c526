"""Promises that hold for every word: tags, openness, immutability, exports (K01, and the rules of the vocabulary)."""

import importlib
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

import runtree.messages
from runtree.messages import (
    BLOCK_TYPES,
    ITEM_TYPES,
    TERMINAL_KINDS,
    AnyStreamItem,
    AssistantMessage,
    ContentBlock,
    Item,
    ModelEvent,
    OpenValue,
    TextBlock,
    ThinkingBlock,
    ToolMessage,
    UnknownBlock,
    UnknownItem,
    UserMessage,
    Value,
)
from runtree.messages.control import CancelOrder, KillOrder

from .samples import one_of_every_kind

TAGS: dict[str, list[str]] = json.loads((Path(__file__).parent / "tags.json").read_text())


def _values(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in base.__subclasses__():
        yield child
        yield from _values(child)


for _module in pkgutil.iter_modules(runtree.messages.__path__):
    importlib.import_module(f"runtree.messages.{_module.name}")
EVERY_VALUE = sorted(
    {
        value
        for base in (Value, OpenValue)
        for value in (base, *_values(base))
        if value.__module__.startswith("runtree.messages")
    },
    key=lambda value: (value.__module__, value.__name__),
)


def _tag(value: type[BaseModel]) -> str:
    return str(value.model_fields["kind"].default)


def test_tags_are_those_of_the_stored_list() -> None:
    """A tag is written into journals and read by other versions: renaming one breaks both."""
    assert {
        "blocks": [_tag(block) for block in BLOCK_TYPES],
        "items": list(ITEM_TYPES),
        "messages": [_tag(message) for message in (UserMessage, AssistantMessage, ToolMessage)],
        "model_events": [_tag(event) for event in get_args(ModelEvent)],
        "orders": [_tag(order) for order in (CancelOrder, KillOrder)],
    } == TAGS


def test_terminal_kinds_are_tags() -> None:
    assert set(ITEM_TYPES) > TERMINAL_KINDS


@pytest.mark.parametrize("value", EVERY_VALUE, ids=lambda value: value.__name__)
def test_values_are_frozen_and_documented(value: type[BaseModel]) -> None:
    assert value.model_config.get("frozen") is True
    assert value.__doc__


def test_an_emitted_item_can_not_be_changed() -> None:
    for item in one_of_every_kind():
        with pytest.raises(ValidationError):
            setattr(item, "seq", 99)  # noqa: B010  # the type checker refuses it too


@pytest.mark.parametrize("item", one_of_every_kind(), ids=lambda item: item.kind)
def test_items_round_trip_as_json(item: Item) -> None:
    adapter = TypeAdapter[Any](AnyStreamItem)
    text = item.to_json()
    assert "\n" not in text
    assert adapter.validate_json(text) == item
    assert type(item).from_json(text) == item


def test_an_unknown_item_survives_a_round_trip() -> None:
    adapter = TypeAdapter[Any](AnyStreamItem)
    stored = {"kind": "input_requested", "run_id": "r", "seq": 3, "question": {"text": "Go on?", "choices": [1, None]}}
    item = adapter.validate_python(stored)
    assert isinstance(item, UnknownItem)
    again = json.loads(adapter.dump_json(item))
    assert {key: again[key] for key in stored} == stored
    assert adapter.validate_python(again) == item


def test_an_unknown_block_survives_inside_a_message() -> None:
    stored = {"kind": "assistant", "content": [{"kind": "hologram", "frames": [1, 2]}, {"kind": "text", "text": "hi"}]}
    message = AssistantMessage.model_validate(stored)
    assert isinstance(message.content[0], UnknownBlock)
    again = json.loads(message.to_json())
    assert again["content"] == stored["content"]
    assert AssistantMessage.model_validate(again) == message
    assert message.text == "hi"


def test_fields_of_a_newer_version_are_ignored() -> None:
    block = TypeAdapter[Any](ContentBlock).validate_python({"kind": "text", "text": "hi", "annotations": []})
    assert block == TextBlock(text="hi")


def test_k01_an_absent_signature_is_left_out() -> None:
    """K01: absent, not null; and a transcript from before thinking blocks loads as it is."""
    assert json.loads(ThinkingBlock(text="").to_json()) == {"kind": "thinking", "text": ""}
    assert json.loads(ThinkingBlock(text="t", signature="").to_json())["signature"] == ""
    assert json.loads(ThinkingBlock(text="t", signature="s", provider="p").to_json()) == {
        "kind": "thinking",
        "text": "t",
        "signature": "s",
        "provider": "p",
    }
    old = {"kind": "assistant", "content": [{"kind": "text", "text": "hi"}]}
    assert AssistantMessage.model_validate(old).reasoning == ""


def test_exports_are_complete_and_sorted() -> None:
    names = list(runtree.messages.__all__)
    assert names == sorted(set(names), key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    defined = {
        name
        for module in (
            "content",
            "errors",
            "failure",
            "ids",
            "items",
            "limits",
            "model",
            "result",
            "transcript",
            "value",
        )
        for name, thing in vars(importlib.import_module(f"runtree.messages.{module}")).items()
        if isinstance(thing, type) and not name.startswith("_") and thing.__module__ == f"runtree.messages.{module}"
    }
    assert not defined - set(names)
