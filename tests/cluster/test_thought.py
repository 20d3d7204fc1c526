"""What a grandchild thinks, on its way to the driver and back to the provider."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from runtree import Agent, RunHandle, Runtime
from runtree.messages.content import ThinkingBlock
from runtree.messages.model import ModelSettings, ReasoningDelta, SignatureDelta, ToolCallDelta
from runtree.providers.scripted import Hang, ScriptedModel, reasoning
from tests.kit.agents import lead
from tests.kit.gates import Gates
from tests.kit.loopback import Answer, Loopback, body, hang, send
from tests.kit.stream_check import check_ledger, check_stream, ends_of, runs_of, text_of
from tests.kit.thought import Gate, Pace, Paced, above, get_weather, paced, streamed, thinker
from tests.kit.wires.families import FAMILIES, Family
from tests.kit.wires.script import Said, Script, Thought, until
from tests.kit.wires.scripts import CALLING, SIGNATURE
from tests.kit.wires.talks import canonical

THOUGHT, CALL, HALF = "I need ", "get_weather", "HALF"
ANSWER = Script([Thought(("Now I ", "know."), "sig-of-the-second=="), Said(("It is ", "sunny."))])
families = pytest.mark.parametrize("family", FAMILIES, ids=str)

Seen = Callable[[Any], bool]
Deed = Callable[[], Awaitable[None]]


def thinks(item: Any) -> bool:
    """Whether the first piece of the thought is there, as it was sent."""
    return bool(item.kind == "model_delta" and item.reasoning == THOUGHT)


def names(item: Any) -> bool:
    """Whether the call is there."""
    return bool(item.kind == "tool_call_started" and item.tool_name == CALL)


def argues(item: Any) -> bool:
    """Whether the first half of the arguments is there."""
    return bool(item.kind == "tool_call_args_delta" and HALF in item.delta)


async def watch(run: RunHandle, deeds: Mapping[Seen, Deed]) -> list[Any]:
    """The whole stream, checked. Each deed is done once, when a run at depth 2 has said what it waits for."""
    items, left = [], dict(deeds)
    async for item in run:
        items.append(item)
        for seen in [seen for seen in left if item.depth == 2 and seen(item)]:
            await left.pop(seen)()
    assert not left, f"never seen: {[seen.__name__ for seen in left]}"
    check_stream(items)
    check_ledger(items, await run.outcome())
    return items


def check_grandchild(items: list[Any], name: str = "thinker") -> list[Any]:
    """The items of the grandchild, whose lineage and order are right."""
    root, middle, own = (runs_of(items, agent)[0] for agent in ("lead", "middle", name))
    said = [item for item in items if item.run_id == own]
    assert {(item.parent_run_id, item.root_run_id, item.depth) for item in said} == {(middle, root, 2)}
    thought = "".join(item.reasoning for item in said if item.kind == "model_delta")
    assert thought == "I need the weather.Now I know.", "reasoning is told exactly once"
    kinds = [item.kind for item in said]
    call = kinds.index("tool_call_started")
    assert kinds.index("model_delta") < call < kinds.index("tool_call_args_delta") < kinds.index("assistant_message")
    assert [item.outcome for item in said if item.kind == "tool_call_completed"] == ["ok"]
    return said


def check_message(said: list[Any], provider: str, signature: str | None) -> None:
    """The thought stands whole in the message."""
    first = next(item.message for item in said if item.kind == "assistant_message")
    (block,) = [block for block in first.content if isinstance(block, ThinkingBlock)]
    assert (block.text, block.signature, block.provider) == (CALLING.reasoning, signature, provider)


@families
async def test_x06_d7_t2_over_http(runtime: Runtime, loopback: Loopback, family: Family) -> None:
    """Thought, name and half of the arguments are at the driver before the provider has sent what follows them.

    K02: the next turn of the grandchild sends back what it was sent.
    """
    route = await loopback.route(
        paced(family, CALLING, thought=THOUGHT, named=CALL, argued=HALF), streamed(family, ANSWER)
    )
    run = await runtime.start(above(thinker(family.model(route.base_url))), "go")
    deeds: dict[Seen, Deed] = {
        thinks: lambda: route.release("thought"),
        names: lambda: route.release("named"),
        argues: lambda: route.release("argued"),
    }
    items = await watch(run, deeds)
    said = check_grandchild(items)
    signed = "signature" in family.wire.abilities
    check_message(said, family.model().profile.provider, SIGNATURE if signed else None)
    assert text_of(items, said[0].run_id) == "Let me look.It is sunny."
    _, second = await route.requests()
    (turn,) = family.wire.history(second["json"])
    assert canonical(turn) == canonical(family.wire.kept(CALLING.parts))
    assert family.wire.results(second["json"]) == [CALLING.calls[0].call_id]
    usage = said[-1].usage
    assert (usage.input_tokens, usage.output_tokens, usage.precision) == (40, 18, "exact")
    assert usage.reasoning_tokens == 6


@families
async def test_t4_unary_over_http(runtime: Runtime, loopback: Loopback, family: Family) -> None:
    """Without a stream the thought comes after the fact, and once."""
    route = await loopback.route(body(family.wire.body(CALLING)), body(family.wire.body(ANSWER)))
    agent = Agent(
        "thinker", family.model(route.base_url), tools=[get_weather], model_settings=ModelSettings(stream=False)
    )
    items = await watch(await runtime.start(above(agent), "go"), {})
    check_grandchild(items)
    _, second = await route.requests()
    assert canonical(family.wire.history(second["json"])[0]) == canonical(family.wire.kept(CALLING.parts))


async def test_x01_d7_all_at_once(runtime: Runtime, loopback: Loopback) -> None:
    """Children of all protocols think side by side: nobody's provider goes on before all have been heard."""
    speakers = [family for family in FAMILIES if family.name != "chat-details"]
    routes = [await loopback.route(paced(family, ANSWER, heard="Now I ")) for family in speakers]
    agents = [
        thinker(family.model(route.base_url), family.name.replace("-", "_"))
        for family, route in zip(speakers, routes, strict=True)
    ]
    run = await runtime.start(lead(*agents), "go")
    items: list[Any] = []
    heard: set[str] = set()
    item: Any
    async for item in run:
        items.append(item)
        if item.kind == "model_delta" and item.reasoning and item.run_id not in heard:
            heard.add(item.run_id)
            if len(heard) == len(speakers):
                for route in routes:
                    await route.release("heard")
    check_stream(items)
    check_ledger(items, await run.outcome())
    assert heard == {runs_of(items, agent.name)[0] for agent in agents}
    for run_id in heard:
        own = [item for item in items if item.run_id == run_id]
        assert "".join(item.reasoning for item in own if item.kind == "model_delta") == ANSWER.reasoning
        assert text_of(items, run_id) == ANSWER.text


async def test_x06_d7_t2_from_a_script(runtime: Runtime, gates: Gates) -> None:
    def call(arguments: str = "") -> ToolCallDelta:
        return ToolCallDelta(call_id="call_1a", tool_name=CALL, arguments=arguments)

    turn: list[Pace] = [
        ReasoningDelta(text=THOUGHT),
        Gate("thought"),
        ReasoningDelta(text="the weather."),
        SignatureDelta(signature=SIGNATURE),
        call(),
        Gate("named"),
        call('{"city": "HALF'),
        Gate("argued"),
        call('"}'),
    ]

    def opens(name: str) -> Deed:
        async def deed() -> None:
            gates.open(name)

        return deed

    run = await runtime.start(above(thinker(Paced([turn], gates))), "go")
    items = await watch(run, {thinks: opens("thought"), names: opens("named"), argues: opens("argued")})
    said = [item for item in items if item.depth == 2]
    check_message(said, "paced", SIGNATURE)
    (told,) = [item.message for item in said if item.kind == "assistant_message"][1:]
    assert f'"text":"{CALLING.reasoning}","signature":"{SIGNATURE}"' in told.text, "it is sent back as it was"


@families
async def test_c02_u05_cancel_while_it_thinks(runtime: Runtime, loopback: Loopback, family: Family) -> None:
    route = await loopback.route(Answer([send(b"".join(until(family.wire.frames(CALLING), THOUGHT))), hang()]))
    run = await runtime.start(above(thinker(family.model(route.base_url))), "go")
    reports = []

    async def cancel() -> None:
        reports.append(await run.cancel(reason="enough", grace=5))
        await route.until("disconnected")

    items = await watch(run, {thinks: cancel})
    assert len(reports[0].cancelled) == 3
    assert {end.kind for end in ends_of(items).values()} == {"run_cancelled"}
    check_estimate(items, (await run.outcome()).runs)


def check_estimate(items: list[Any], records: Any) -> None:
    """What a broken call cost is counted, and said to be estimated."""
    (record,) = [record for record in records if record.agent == "thinker"]
    usage = record.usage
    assert (usage.precision, usage.model_calls) == ("estimated", 1)
    assert usage.input_tokens
    assert usage.output_tokens
    assert ends_of(items)[record.run_id].usage == usage
    assert items[-1].total_usage.precision == "estimated"


async def test_c03_u05_cancel_of_the_thinker_alone(runtime: Runtime) -> None:
    """Those above it go on, and the sum says that it holds an estimate."""
    model = ScriptedModel([[reasoning(THOUGHT), Hang()]])
    run = await runtime.start(above(thinker(model)), "go")

    async def cancel() -> None:
        (own,) = [info for info in await runtime.runs() if info.agent == "thinker" and info.root_run_id == run.run_id]
        assert (await runtime.cancel(own.run_id, reason="not needed")).cancelled == (own.run_id,)

    items = await watch(run, {thinks: cancel})
    result = await run.result()
    assert result.output == "done"
    assert [item.outcome for item in items if item.kind == "tool_call_completed"] == ["cancelled", "ok"]
    check_estimate(items, result.runs)
