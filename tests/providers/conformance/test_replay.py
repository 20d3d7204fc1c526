"""What goes back to a provider, and what goes to none but the one that made it: cases K01 to K06, P17."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtree.messages.content import ProviderDataBlock, RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolCallBlock
from runtree.messages.model import ModelRequest
from runtree.messages.transcript import AssistantMessage
from runtree.providers import OpenAIChat
from runtree.providers.chat.dialects import OPENAI
from tests.kit.wires.families import FAMILIES, Family
from tests.kit.wires.script import Called, Part, Script
from tests.kit.wires.scripts import INTERLEAVED
from tests.kit.wires.talks import TOOL, answered, canonical, conversation, turns

TALK = st.tuples(turns(0, last=False), turns(1, last=False), turns(2, last=True))
FAMILY = st.sampled_from(FAMILIES)
TARGETS = [
    *FAMILIES,
    Family(
        "openai",
        FAMILIES[0].wire,
        lambda model, **options: OpenAIChat(model, profile=OPENAI, **options),
        "OPENAI_API_KEY",
    ),
]


def replayed(family: Family, request: ModelRequest) -> list[list[Part]]:
    return [canonical(turn) for turn in family.wire.history(family.sent(request))]


def said(family: Family, scripts: Sequence[Script]) -> list[list[Part]]:
    return [canonical(family.wire.kept(script.parts)) for script in scripts]


@settings(max_examples=60)
@given(FAMILY, TALK, st.booleans())
def test_k02_a_conversation_is_replayed_byte_for_byte(
    family: Family, scripts: Sequence[Script], streamed: bool
) -> None:
    """Every thought, signature, hidden block and call of every turn, in its place."""
    request = conversation([answered(family, script, streamed=streamed) for script in scripts])
    before = request.model_dump_json()
    assert replayed(family, request) == said(family, scripts)
    assert family.wire.results(family.sent(request)) == [call.call_id for script in scripts for call in script.calls]
    assert request.model_dump_json() == before, "the transcript is untouched"


def test_k02_p17_several_blocks_stay_several(family: Family) -> None:
    request = conversation([answered(family, INTERLEAVED)])
    assert replayed(family, request) == said(family, [INTERLEAVED])


def test_k02_what_was_sent_once_is_sent_the_same_again(family: Family) -> None:
    """Histories are append-only also on the wire: signatures and caches depend on it."""
    talk = [answered(family, INTERLEAVED), answered(family, Script(INTERLEAVED.parts[:4], "tool_calls"))]
    short, long = (family.sent(conversation(talk[:count])) for count in (1, 2))
    (place,) = {"messages", "input"} & set(short)
    assert long[place][: len(short[place])] == short[place]


@settings(max_examples=60)
@given(TALK, st.tuples(FAMILY, FAMILY, FAMILY), st.sampled_from(TARGETS))
def test_k03_k05_a_switch_in_mid_conversation(
    scripts: Sequence[Script], speakers: Sequence[Family], target: Family
) -> None:
    """Nobody is sent what another has thought; text, calls and results go to everybody."""
    talk = [answered(family, script) for family, script in zip(speakers, scripts, strict=True)]
    request = conversation(talk)
    before = request.model_dump_json()
    sent = target.sent(request)
    text = json.dumps(sent, ensure_ascii=False)
    own = [number for number, speaker in enumerate(speakers) if speaker is target]
    found = {int(number) for number in re.findall(r"SECRET(\d)", text)}
    assert found <= set(own), f"{target} was sent what {[speakers[number].name for number in found]} thought"
    for script in scripts:
        _check_words(script, text)
    _check_ids(target, sent, sum(len(script.calls) for script in scripts))
    history = replayed(target, request)
    for number in own:
        assert history[number] == said(target, [scripts[number]])[0]
    assert request.model_dump_json() == before, "the transcript is untouched"


def _check_words(script: Script, text: str) -> None:
    for word in re.findall(r"SAID[\d.a-z]+", script.text):
        assert word in text


def _check_ids(target: Family, sent: dict[str, Any], count: int) -> None:
    """Every call has its result, right after it, under an id that the provider accepts."""
    calls = [part.call_id or "" for turn in target.wire.history(sent) for part in turn if isinstance(part, Called)]
    assert target.wire.results(sent) == calls
    assert len(calls) == len(set(calls)) == count
    rule = target.model().profile.call_ids
    assert all(rule.fits(call_id) for call_id in calls)


FOREIGN = AssistantMessage(
    content=(
        ThinkingBlock(text="SECRET", signature="SECRET==", extras={"id": "SECRET"}, provider="another"),
        ThinkingBlock(text="SECRET of nobody", signature="SECRET==nobody"),
        RedactedThinkingBlock(data="SECRET", provider="another"),
        ProviderDataBlock(provider="another", data={"type": "SECRET", "id": "SECRET"}),
        TextBlock(text="visible", extras={"annotations": "SECRET"}, provider="another"),
        ToolCallBlock(
            call_id="functions.get_weather:0" + "x" * 60,
            tool_name="get_weather",
            arguments_json="{}",
            arguments={},
            extras={"id": "SECRET", "signature": "SECRET"},
            provider="another",
        ),
    ),
    provider="another",
    finish_reason="tool_calls",
)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_k05_k06_nothing_opaque_goes_to_another(target: Family) -> None:
    """Two turns whose calls have the same id, of a form that not everybody accepts."""
    sent = target.sent(conversation([FOREIGN, FOREIGN]))
    assert "SECRET" not in json.dumps(sent)
    assert json.dumps(sent).count("visible") == 2
    _check_ids(target, sent, 2)


def test_k03_a_turn_of_nothing_but_foreign_thought_leaves_no_empty_message(family: Family) -> None:
    talk = FOREIGN.model_copy(update={"content": FOREIGN.content[:4], "finish_reason": "stop"})
    sent = family.sent(conversation([talk]))
    assert "SECRET" not in json.dumps(sent)
    empty = getattr(family.model().profile, "empty_answers", False)
    for message in sent.get("messages", ()):
        assert message["content"] or empty, "some providers refuse an empty message"


def test_k04_an_empty_signature_is_never_sent(family: Family) -> None:
    provider = family.model().profile.provider
    blocks = (
        ThinkingBlock(text="unsigned", provider=provider),
        ThinkingBlock(text="signed with nothing", signature="", provider=provider),
        ThinkingBlock(text="", provider=provider),
        TextBlock(text="visible"),
    )
    sent = json.dumps(family.sent(conversation([AssistantMessage(content=blocks, provider=provider)])))
    assert '"signature": ""' not in sent
    assert '"encrypted_content": ""' not in sent
    assert "visible" in sent


@pytest.mark.parametrize("thinking", ["", '{"kind":"thinking","text":"hm"},'])
def test_k01_old_transcripts_load_unchanged(family: Family, thinking: str) -> None:
    call = '{"kind":"tool_call","call_id":"c1","tool_name":"get_weather","arguments_json":"{}","arguments":{}}'
    stored = (
        f'{{"kind":"assistant","content":[{thinking}{{"kind":"text","text":"x"}},{call}],"finish_reason":"tool_calls"}}'
    )
    message = AssistantMessage.model_validate_json(stored)
    assert message.model_dump_json() == stored
    request = conversation([message])
    sent = family.sent(request)
    assert family.wire.results(sent) == ["c1"]
    assert "null" not in str(family.wire.history(sent))
    assert TOOL.name in json.dumps(sent)
