"""What every provider does with connections, and with one model object that serves many calls."""

import asyncio
import pickle
from contextlib import aclosing
from typing import Any

import anyio

from runtree.messages.model import ModelEvent, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta
from runtree.messages.transcript import UserMessage
from runtree.providers.protocol import Model, NeedsSecrets
from tests.kit.loopback import Answer, Loopback, Route, hang, send, wait
from tests.kit.wires.check import response_of
from tests.kit.wires.families import ASKED, KEY, UNARY, Family
from tests.kit.wires.script import Said, Script, until
from tests.kit.wires.scripts import ARGUMENTS, CALLING, THINKING

from .talk import ask, ask_and, streaming


async def test_events_come_while_the_server_still_sends(family: Family, loopback: Loopback) -> None:
    """D7, L2: reasoning first, then the call by its name alone, then its arguments piece by piece."""
    frames = family.wire.frames(CALLING)
    thought, named, half = (len(until(frames, word)) for word in ("I need ", "call_1a", "HALF"))
    parts = [frames[:thought], frames[thought:named], frames[named:half], frames[half:]]
    steps = [step for number, part in enumerate(parts) for step in (send(b"".join(part)), wait(f"seen-{number}"))]
    route = await loopback.route(Answer(steps[:-1]))
    seen: list[str] = []

    async def release(event: ModelEvent) -> None:
        if isinstance(event, ReasoningDelta) and event.text == "I need ":
            await _tell(route, seen, 0)
        elif isinstance(event, ToolCallDelta):
            if not event.arguments:
                await _tell(route, seen, 1)
            elif "HALF" in event.arguments:
                await _tell(route, seen, 2)

    events = await ask_and(family.model(route.base_url), release)
    assert response_of(events).message.tool_calls[0].arguments == ARGUMENTS
    assert seen == ["seen-0", "seen-1", "seen-2"]


async def _tell(route: Route, seen: list[str], number: int) -> None:
    seen.append(f"seen-{number}")
    await route.release(f"seen-{number}")


async def test_closing_early_closes_the_socket(family: Family, loopback: Loopback) -> None:
    head = b"".join(until(family.wire.frames(THINKING), "Hm, "))
    route = await loopback.route(Answer([send(head), hang()]))
    stream: Any = family.model(route.base_url).stream(ASKED)
    async with aclosing(stream) as events:
        async for event in events:
            if isinstance(event, ReasoningDelta):
                break
    await route.until("disconnected")


async def test_cancelling_closes_the_socket(family: Family, loopback: Loopback) -> None:
    for request, answer in ((ASKED, Answer([hang()])), (UNARY, Answer(before=[hang()]))):
        route = await loopback.route(answer)
        task = asyncio.create_task(ask(family.model(route.base_url), request))
        await route.until("request")
        task.cancel()
        await asyncio.wait({task}, timeout=10)
        assert task.cancelled()
        await route.until("disconnected")


async def test_a_server_that_stays_after_its_last_word(family: Family, loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(b"".join(family.wire.frames(THINKING))), hang()]))
    assert response_of(await ask(family.model(route.base_url))).message.text == THINKING.text
    await route.until("disconnected")


async def test_concurrent_calls_do_not_mix(family: Family, loopback: Loopback) -> None:
    """Every answer is sent in pieces that are interleaved with those of the others."""
    scripts = [Script([Said(tuple(f"<{number}>" for _ in range(5)))]) for number in range(12)]
    answers = []
    for script in scripts:
        frames = family.wire.frames(script)
        steps = [step for frame in frames for step in (send(frame), wait("go"))]
        answers.append(Answer(steps[:-1]))
    route = await loopback.route(*answers)
    model = family.model(route.base_url)
    texts: list[str] = []

    async def one() -> None:
        texts.append(response_of(await ask(model)).message.text)

    async with anyio.create_task_group() as tasks:
        for _ in scripts:
            tasks.start_soon(one)
        await route.until("sent", len(scripts))
        await route.release("go")
    assert sorted(texts) == sorted(script.text for script in scripts)


async def test_requests_of_concurrent_calls_do_not_mix(family: Family, loopback: Loopback) -> None:
    route = await streaming(loopback, family, THINKING)
    model = family.model(route.base_url)

    async def one(number: int) -> None:
        request = ModelRequest(
            messages=(UserMessage.of(f"call <{number}>"),), model=f"m-{number}", settings=ASKED.settings
        )
        await ask(model, request)

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(one, number)
    for request in await route.requests():
        number = request["json"]["model"].removeprefix("m-")
        assert f"call <{number}>" in str(request["json"])
    assert {request["json"]["model"] for request in await route.requests()} == {f"m-{n}" for n in range(10)}


async def test_what_is_sent_is_what_was_built(family: Family, loopback: Loopback) -> None:
    route = await streaming(loopback, family, THINKING)
    for request in (ASKED, UNARY):
        response_of(await ask(family.model(route.base_url), request))
    streamed, unary = await route.requests()
    assert streamed["json"] == family.sent(ASKED)
    assert unary["json"] == family.sent(UNARY)
    assert streamed["json"]["stream"] is True
    assert not unary["json"].get("stream")


def test_model_objects_are_light(family: Family) -> None:
    """Picklable, without connections and keys, and equal in use on the other side."""
    model = family.model()
    pickled = pickle.dumps(model)
    copy = pickle.loads(pickled)
    assert KEY.encode() not in pickled
    assert len(pickled) < 4096
    assert copy.profile == model.profile
    assert repr(copy) == repr(model)
    assert isinstance(model, Model)
    assert isinstance(model, NeedsSecrets)
    assert model.profile.model == "m-1"


async def test_a_used_model_still_pickles(family: Family, loopback: Loopback) -> None:
    route = await streaming(loopback, family, THINKING)
    model = family.model(route.base_url)
    before = pickle.dumps(model)
    events = await ask(model)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Yes", " it is."]
    assert pickle.dumps(model) == before
    assert response_of(await ask(pickle.loads(before))) == response_of(events)
