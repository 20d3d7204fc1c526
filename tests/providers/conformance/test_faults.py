"""What every provider makes of an answer that breaks: cases P03 to P05 and P18."""

from typing import Any

import anyio
import pytest

from runtree.messages.model import Completed, Failed, ModelEvent, ToolCallDelta
from tests.kit.loopback import Answer, Loopback, Step, cut, hang, pause, reset, send, wait
from tests.kit.wires.check import end_of, failure_of, message_of, response_of
from tests.kit.wires.families import ASKED, FAMILIES, KEY, Family
from tests.kit.wires.script import Said, Script, Thought, until
from tests.kit.wires.scripts import CALLING, PLAIN, SIGNATURE

from .talk import ask, ask_and

SLOW = Script([Thought(("so far",), SIGNATURE), Said(("never seen",))])


@pytest.mark.parametrize("trouble, retryable", [("rate_limit", True), ("overloaded", True), ("invalid_request", False)])
@pytest.mark.parametrize("word", [None, "so far", "HALF", "TAIL"])
def test_p04_an_error_in_the_stream(family: Family, trouble: Any, retryable: bool, word: str | None) -> None:
    script = SLOW if word == "so far" else CALLING
    frames = until(family.wire.frames(script), word) if word else []
    events = family.decode([*frames, family.wire.error_frame(trouble, "no luck"), *family.wire.frames(PLAIN)])
    failure = failure_of(events)
    assert (failure.code, failure.retryable) == (trouble, retryable)
    assert "no luck" in failure.message
    message = message_of(events)
    assert (message.reasoning if message else "") == ("" if word is None else script.reasoning)
    calls = message.tool_calls if message else ()
    assert all(call.truncated and call.arguments is None for call in calls) or word == "TAIL"


def test_p04_what_was_reported_before_the_error_is_kept(family: Family) -> None:
    """A provider that tells the input at the start has told it."""
    events = family.decode([*until(family.wire.frames(SLOW), "so far"), family.wire.error_frame("overloaded", "no")])
    end = end_of(events)
    assert isinstance(end, Failed)
    assert (end.usage.input_tokens or 20) == 20


def test_p05_a_stream_that_ends_anywhere(family: Family) -> None:
    """Only what came to its end is an answer, and only what came whole can be run."""
    for script in (CALLING, PLAIN):
        body = b"".join(family.wire.frames(script))
        whole = response_of(family.decode([body])).message
        for end in range(0, len(body), len(body) // 250):
            events = family.decode([body[:end]])
            last = end_of(events)
            if isinstance(last, Completed):
                assert response_of(events).message == whole, f"cut at {end}"
            else:
                failure = failure_of(events)
                assert (failure.code, failure.retryable) == ("protocol", True), f"cut at {end}"


@pytest.mark.parametrize("framing", ["chunked", "close"])
@pytest.mark.parametrize("step", [cut, reset, None])
async def test_p05_the_connection_ends_inside_a_call(
    family: Family, loopback: Loopback, framing: str, step: Any
) -> None:
    """Broken off, reset, or closed as if nothing were missing."""
    head: list[Step] = [send(b"".join(until(family.wire.frames(CALLING), "HALF"))), wait("seen")]
    route = await loopback.route(Answer([*head, *([step()] if step else [])], framing=framing))

    async def seen(event: ModelEvent) -> None:
        if isinstance(event, ToolCallDelta) and "HALF" in event.arguments:
            await route.release("seen")

    events = await ask_and(family.model(route.base_url), seen)
    failure = failure_of(events)
    assert failure.code in ("transport", "protocol")
    assert failure.retryable
    message = message_of(events)
    assert message is not None
    assert (message.text, message.reasoning) == (CALLING.text, CALLING.reasoning)
    (call,) = message.tool_calls
    assert (call.tool_name, call.arguments, call.truncated) == ("get_weather", None, True)


_STALLS = {
    "before-the-head": Answer(before=[hang()]),
    "before-the-body": Answer([hang()]),
    "in-an-error": Answer([hang()], status=529),
}


@pytest.mark.parametrize("place", [*_STALLS, "in-mid-stream"])
async def test_p18_silence(family: Family, loopback: Loopback, place: str) -> None:
    head = b"".join(until(family.wire.frames(SLOW), "so far"))
    route = await loopback.route(_STALLS.get(place) or Answer([send(head), hang()]))
    events = await ask(family.model(route.base_url), ASKED.model_copy(update={"idle_timeout": 0.1}))
    failure = failure_of(events)
    assert failure.retryable
    if place != "in-an-error":
        assert (failure.code, failure.limit) == ("timeout", "stream_idle_timeout")
        assert "0.1 s" in failure.message
    message = message_of(events)
    assert (message.reasoning if message else "") == ("so far" if place == "in-mid-stream" else "")
    await route.until("disconnected")


async def test_p18_the_total_time_is_another_limit(family: Family, loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(b"".join(until(family.wire.frames(SLOW), "so far"))), hang()]))
    failure = failure_of(await ask(family.model(route.base_url), ASKED.model_copy(update={"timeout": 0.1})))
    assert (failure.code, failure.retryable, failure.limit) == ("timeout", True, "model_call_timeout")
    await route.until("disconnected")


async def test_p18_a_model_may_declare_a_longer_silence(family: Family, loopback: Loopback) -> None:
    route = await loopback.route(Answer(before=[pause(0.2)], steps=[send(b"".join(family.wire.frames(PLAIN)))]))
    profile: Any = family.model().profile.model_copy(update={"silence": 20.0})
    model = family.model(route.base_url, profile=profile)
    events = await ask(model, ASKED.model_copy(update={"idle_timeout": 0.05}))
    assert response_of(events).message.text == PLAIN.text


async def test_p03_comments_are_no_silence(loopback: Loopback) -> None:
    """Each one starts the idle time anew; all pauses together are longer than it. All providers wait side by side."""
    texts: list[str] = []

    async def one(family: Family) -> None:
        answer = b"".join(family.wire.frames(PLAIN))
        route = await loopback.route(Answer([*[pause(0.4), send(": ping\n\n")] * 4, send(answer)]))
        events = await ask(family.model(route.base_url), ASKED.model_copy(update={"idle_timeout": 1.2}))
        texts.append(response_of(events).message.text)

    async with anyio.create_task_group() as tasks:
        for family in FAMILIES:
            tasks.start_soon(one, family)
    assert texts == [PLAIN.text] * len(FAMILIES)


async def test_p05_nobody_listens(family: Family) -> None:
    failure = failure_of(await ask(family.model()))
    assert (failure.code, failure.retryable) == ("transport", True)
    assert "127.0.0.1:9" in failure.message
    assert KEY not in failure.message
