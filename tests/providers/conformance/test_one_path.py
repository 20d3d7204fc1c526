"""Streamed, unary, cached and scripted answers become the same events: cases K07, K08 and rule T4."""

import pytest

from runtree.messages.content import ContentBlock, RedactedThinkingBlock, ThinkingBlock
from runtree.messages.model import ModelEvent, ModelRequest, ModelResponse
from runtree.messages.transcript import UserMessage
from runtree.providers.fold import Fold
from runtree.providers.profile import ModelProfile
from runtree.providers.scripted import ScriptedModel, ScriptedTurn
from runtree.providers.unfold import unfold
from tests.kit.wires.check import expected, merged, response_of, unsigned
from tests.kit.wires.families import FAMILIES, UNARY, Family
from tests.kit.wires.script import Script, events_of
from tests.kit.wires.scripts import ANSWERS, INTERLEAVED
from tests.kit.wires.wire import adapted

SCRIPTS = {**ANSWERS, "interleaved": INTERLEAVED}
PAIRS = [
    (family, name)
    for family in FAMILIES
    for name in SCRIPTS
    if name != "interleaved" or "order" in family.wire.abilities  # a unary answer of the others has none
]
pairs = pytest.mark.parametrize("family, name", PAIRS, ids=str)


async def scripted(turn: ScriptedTurn, provider: str = "scripted") -> list[ModelEvent]:
    model = ScriptedModel([turn], model="m-1", profile=ModelProfile(provider=provider, model="m-1"))
    return [event async for event in model.stream(ModelRequest(messages=(UserMessage.of("hi"),)))]


def script_of(family: Family, name: str) -> Script:
    return adapted(family.wire, SCRIPTS[name])


@pairs
async def test_k07_t4_one_path(family: Family, name: str) -> None:
    script = script_of(family, name)
    streamed = family.decode(family.wire.frames(script))
    response = response_of(streamed)
    ways = {
        "unary": family.decode([family.wire.body(script)], UNARY),
        "json in place of a stream": family.decode([family.wire.body(script)]),
        "cached": unfold(response),
        "stored": unfold(ModelResponse.model_validate_json(response.model_dump_json())),
        "scripted": await scripted(response),
    }
    assert unsigned(merged(streamed)) == expected(script), "reasoning is told exactly once"
    for way, events in ways.items():
        assert merged(events) == merged(streamed), way
        assert response_of(events) == response, way
        assert events[0].kind == "started", way


@pairs
async def test_t4_a_script_is_told_like_the_wire(family: Family, name: str) -> None:
    """What a scripted model says of the same script differs in nothing but what a script has no words for."""
    script = script_of(family, name)
    provider = family.model().profile.provider
    wire, played = family.decode(family.wire.frames(script)), await scripted(events_of(script), provider)
    assert unsigned(merged(played)) == unsigned(merged(wire)) == expected(script)
    assert [_plain(block) for block in response_of(played).message.content if _has_words(block)] == [
        _plain(block) for block in response_of(wire).message.content if _has_words(block)
    ]
    assert response_of(played).finish_reason == response_of(wire).finish_reason


@pairs
async def test_t4_the_deltas_make_the_message(family: Family, name: str) -> None:
    script = script_of(family, name)
    events = family.decode(family.wire.frames(script))
    fold = Fold()
    for event in events:
        fold.add(event)
    told, message = fold.message("stop"), response_of(events).message
    assert (told.text, told.reasoning) == (message.text, message.reasoning)
    assert [(call.call_id, call.arguments) for call in told.tool_calls] == [
        (call.call_id, call.arguments) for call in message.tool_calls
    ]


def _has_words(block: ContentBlock) -> bool:
    return bool(getattr(block, "text", True)) and not isinstance(block, RedactedThinkingBlock)


def _plain(block: ContentBlock) -> dict[str, object]:
    opaque = {"extras", "provider"} | ({"signature"} if isinstance(block, ThinkingBlock) else set())
    return {name: value for name, value in block.model_dump().items() if name not in opaque}
