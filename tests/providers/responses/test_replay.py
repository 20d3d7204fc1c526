"""K02 and T2 as a property: whatever a conversation with tools was served as, that is what goes back."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runtree.messages.transcript import AssistantMessage, Message, UserMessage
from runtree.providers.responses.profile import AZURE, GENERIC

from .answers import CREATED, Event, answer, call, end, events_of, message, pieces, reasoning, search, stream
from .reading import completed, decode, results, sent

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# Opaque to us: any characters, and longer than one could look through.
SECRETS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


@st.composite
def turns(draw: st.DrawFn) -> list[Event]:
    """The items of one answer: reasoning, each followed by what it led to, a call at the end."""
    turn = draw(st.integers(0, 10**6))
    items: list[Event] = []
    for _ in range(draw(st.integers(0, 3))):
        number = turn * 10 + len(items)
        kind = draw(st.sampled_from(["reasoning", "message", "search", "call"]))
        if kind == "reasoning":
            items.append(reasoning(*draw(st.lists(TEXTS, max_size=3)), encrypted=draw(SECRETS), number=number))
        elif kind == "message":
            items.append(message(*draw(st.lists(TEXTS, max_size=3)), number=number))
        elif kind == "search":
            items.append(search(number))
        else:
            items.append(_call(draw, number))
    return [*items, _call(draw, turn * 10 + 9)]


def _call(draw: st.DrawFn, number: int) -> Event:
    arguments = draw(st.sampled_from(['{"city": "Zürich"}', "{}", "", '{"a":1 }', "{broken"]) | TEXTS)
    return call(arguments, call_id=f"call_{number}", number=number)


def _shuffled(items: Sequence[Event], dice: Any, size: int) -> list[Event]:
    """The events of several items, each in its own order, between each other's."""
    rows = [list(events_of(item, index, size)) for index, item in enumerate(items)]
    streamed: list[Event] = []
    while any(rows):
        streamed.append(dice.choice([row for row in rows if row]).pop(0))
    return [CREATED, *streamed, end(*items)]


@given(
    st.lists(turns(), min_size=3, max_size=3, unique_by=lambda items: items[-1]["id"]),
    st.randoms(use_true_random=False),
    st.integers(1, 9),
    st.booleans(),
)
def test_k02_three_turns_go_back_as_they_were_served(
    conversation: list[list[Event]], dice: Any, size: int, mixed: bool
) -> None:
    history: list[Message] = [UserMessage.of("hi")]
    served: list[Event] = []
    for items in conversation:
        body = stream(*(_shuffled(items, dice, size) if mixed else answer(*items, size=size)))
        cuts = sorted(dice.sample(range(len(body)), min(5, len(body))))
        reads = [body[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(body)], strict=True)]
        said = AssistantMessage.from_json(completed(decode(reads)).to_json())
        history += [said, results(said)]
        served += items
    back = [item for item in sent(*history)[1:] if item["type"] != "function_call_output"]
    assert back == served
    _check_strangers(history, served)


def _check_strangers(history: list[Message], served: list[Event]) -> None:
    """K05: nothing that is another's goes to a stranger, and every result still has its call."""
    for stranger in (AZURE, GENERIC):
        items = sent(*history, profile=stranger)
        assert not [item for item in items if "id" in item or item.get("type") in ("reasoning", "web_search_call")]
        calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
        assert calls == [item["call_id"] for item in items if item.get("type") == "function_call_output"]
        assert calls == [item["call_id"] for item in served if item["type"] == "function_call"]


@given(TEXTS.filter(bool), st.integers(1, 5))
def test_k07_reasoning_is_told_once_however_it_comes(words: str, size: int) -> None:
    items = [reasoning(*pieces(words, 5)), message(words)]
    whole = completed(decode([stream(*answer(*items, size=size))]))
    unary = completed(decode([json.dumps(end(*items)["response"]).encode()]))
    assert whole == unary
    assert whole.reasoning == "\n\n".join(pieces(words, 5))
