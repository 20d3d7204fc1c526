"""The loop: turns, caps, ends, accounts."""

import json
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.actors.agent import Agent, Retry, ToolContext, tool
from runtree.messages.content import TextBlock, ThinkingBlock, ToolCallBlock
from runtree.messages.failure import Failure
from runtree.messages.limits import Limits
from runtree.messages.model import (
    Completed,
    Failed,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
)
from runtree.messages.result import RunResult
from runtree.messages.transcript import AssistantMessage, FinishReason, ToolMessage, UserMessage
from runtree.messages.usage import Cost, Usage
from runtree.providers.profile import ModelProfile, Price
from runtree.providers.retry import NO_RETRIES
from runtree.providers.scripted import Hang, ScriptedModel, Turn, reasoning, tool_call
from tests.kit.host import MemoryTree


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def response(*blocks: Any, finish: FinishReason = "stop", **fields: Any) -> ModelResponse:
    return ModelResponse(message=AssistantMessage(content=blocks, finish_reason=finish), finish_reason=finish, **fields)


def outcomes(tree: MemoryTree) -> list[str]:
    return [item.outcome for item in tree.of("tool_call_completed")]


def assert_valid(result: RunResult) -> None:
    """Every call of the transcript has a result, in the message after it and in its order."""
    messages = result.messages
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and message.tool_calls:
            answer = messages[index + 1]
            assert isinstance(answer, ToolMessage)
            assert [each.call_id for each in answer.results] == [call.call_id for call in message.tool_calls]
        if isinstance(message, ToolMessage):
            before = messages[index - 1]
            assert isinstance(before, AssistantMessage)
            assert before.tool_calls


async def test_answer_after_a_tool_call() -> None:
    model = ScriptedModel([["let me ", "see", tool_call("add", {"a": 2, "b": 3}, "c1")], ["it is ", "5"]])
    tree = MemoryTree(Agent("lead", model, tools=[add], instructions="Be brief."))
    result = await tree.execute("2+3?", tags={"case": "x"})
    assert (result.status, result.output, result.error) == ("completed", "it is 5", None)
    assert tree.kinds() == [
        "run_started",
        "turn_started",
        "model_delta",
        "model_delta",
        "tool_call_started",
        "tool_call_args_delta",
        "assistant_message",
        "usage_updated",
        "tool_call_completed",
        "turn_started",
        "model_delta",
        "model_delta",
        "assistant_message",
        "usage_updated",
        "run_completed",
    ]
    started = tree.items[0]
    assert (started.agent, started.model, started.call_id, started.tags) == ("lead", "scripted", None, {"case": "x"})
    assert [message.kind for message in result.messages] == ["user", "assistant", "tool", "assistant"]
    answer = result.messages[2]
    assert isinstance(answer, ToolMessage)
    assert (answer.results[0].outcome, answer.results[0].text) == ("ok", "5")
    assert (result.usage.model_calls, result.usage.tool_calls) == (2, 1)
    assert result.total_usage == result.usage
    assert (model.requests[0].instructions, model.requests[0].tools) == ("Be brief.", (add.definition,))
    assert model.requests[1].messages == result.messages[:3]


async def test_history_and_deps() -> None:
    """L09: `messages` continue a conversation, thinking included; deps reach tools, also those of sub-agents."""
    history = (
        UserMessage.of("before"),
        AssistantMessage(content=(ThinkingBlock(text="hm", signature="s"), TextBlock(text="yes"))),
    )
    seen: list[Any] = []

    @tool
    def look(ctx: ToolContext) -> str:
        seen.append(ctx.deps)
        return "ok"

    sub = Agent("sub", ScriptedModel([[tool_call("look")], ["s"]]), tools=[look])
    model = ScriptedModel([[tool_call("look"), tool_call("sub", {"input": "x"})], ["done"]])
    deps = object()
    tree = MemoryTree(Agent("lead", model, tools=[look], agents=[sub]), deps=deps)
    result = await tree.execute("and now", messages=history)
    assert model.requests[0].messages == (*history, UserMessage.of("and now"))
    assert result.messages[:2] == history
    assert seen == [deps, deps]


@pytest.mark.parametrize("allowed", [1, 2])
async def test_turn_cap_is_inclusive(allowed: int) -> None:
    """L01."""
    model = ScriptedModel([[tool_call("add", {"a": 1, "b": 1})], ["done"]])
    tree = MemoryTree(Agent("lead", model, tools=[add], max_turns=allowed))
    result = await tree.execute()
    assert len(model.requests) == allowed
    if allowed == 2:
        assert result.output == "done"
    else:
        assert result.error is not None
        assert (result.status, result.error.code, result.error.limit) == ("failed", "limit_exceeded", "max_turns")
        assert_valid(result)


@pytest.mark.parametrize("own, of_tree", [(2, None), (5, 2), (2, 5)])
async def test_tool_cap_in_the_middle_of_a_batch(own: int, of_tree: int | None) -> None:
    """L01, L02: the smaller cap holds, every call gets a result, only executed ones count."""
    calls = [tool_call("add", {"a": 1, "b": n}) for n in range(4)]
    model = ScriptedModel([[tool_call("add", {"bad": 1}), *calls], ["done"]])
    tree = MemoryTree(Agent("lead", model, tools=[add], max_tool_calls=own), limits=Limits(max_tool_calls=of_tree))
    result = await tree.execute()
    answer = result.messages[2]
    assert isinstance(answer, ToolMessage)
    assert [each.outcome for each in answer.results] == ["invalid", "ok", "ok", "refused", "refused"]
    assert "max_tool_calls" in answer.results[3].text
    assert result.usage.tool_calls == 2
    assert result.status == "completed"


async def test_model_calls_of_the_tree() -> None:
    """L01."""
    model = ScriptedModel([[tool_call("add", {"a": 1, "b": 1})]], loop=True)
    tree = MemoryTree(Agent("lead", model, tools=[add]), limits=Limits(max_model_calls=2))
    result = await tree.execute()
    assert len(model.requests) == 2
    assert result.error is not None
    assert (result.status, result.error.limit, result.usage.model_calls) == ("failed", "max_model_calls", 2)


async def test_nothing_is_charged_without_a_bound() -> None:
    steps: list[str] = []
    model = ScriptedModel([[tool_call("add", {"a": 1, "b": 1})], ["done"]])
    await MemoryTree(Agent("lead", model, tools=[add]), step=lambda _, name: steps.append(name)).execute()
    assert "reserve" not in steps


async def test_length_before_any_text_is_tried_once_with_more_room() -> None:
    """L03: the larger limit does not leak into later turns, and readers see that the first try does not count."""
    cut: list[Any] = [
        reasoning("thinking…"),
        Completed(response=response(ThinkingBlock(text="thinking…"), finish="length")),
    ]
    model = ScriptedModel([cut, [tool_call("add", {"a": 1, "b": 1})], ["done"]])
    settings = ModelSettings(max_output_tokens=100)
    tree = MemoryTree(Agent("lead", model, tools=[add], model_settings=settings))
    result = await tree.execute()
    assert result.output == "done"
    assert [request.settings.max_output_tokens for request in model.requests] == [100, 200, 100]
    discarded = tree.of("attempt_discarded")[0]
    assert (discarded.scope, discarded.first_seq, discarded.last_seq) == ("model_call", 2, 2)
    assert len([message for message in result.messages if message.kind == "assistant"]) == 2
    assert result.usage.model_calls == 3


@pytest.mark.parametrize("limit", [None, 100])
async def test_length_without_text_for_good(limit: int | None) -> None:
    """L03."""
    model = ScriptedModel([[Completed(response=response(finish="length"))]] * 2)
    result = await MemoryTree(Agent("lead", model, model_settings=ModelSettings(max_output_tokens=limit))).execute()
    assert result.error is not None
    assert (result.status, result.error.limit) == ("failed", "max_output_tokens")
    assert len(model.requests) == (1 if limit is None else 2)


@pytest.mark.parametrize("finish", ["refusal", "content_filter"])
async def test_answers_that_were_withheld(finish: FinishReason) -> None:
    model = ScriptedModel([[Completed(response=response(finish=finish))]])
    result = await MemoryTree(Agent("lead", model)).execute()
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", finish)


@pytest.mark.parametrize("finish", ["refusal", "content_filter"])
async def test_part_of_an_answer_that_was_withheld_is_no_answer(finish: FinishReason) -> None:
    """It stays in the transcript; calls in it are not run, and the model is not asked again."""
    call = ToolCallBlock(call_id="c", tool_name="add", arguments=None, arguments_json="{", truncated=True)
    end = response(TextBlock(text="I can't help"), call, finish=finish)
    model = ScriptedModel([[Completed(response=end)]])
    result = await MemoryTree(Agent("lead", model, tools=[add])).execute()
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", finish)
    assert ("I can't help" in result.error.message) == (finish == "refusal")
    assert result.messages[1] == end.message
    assert_valid(result)


async def test_pause_goes_on() -> None:
    model = ScriptedModel([[Completed(response=response(TextBlock(text="a"), finish="pause"))], ["b"]])
    result = await MemoryTree(Agent("lead", model)).execute()
    assert (result.output, len(model.requests)) == ("b", 2)
    assert model.requests[1].messages[-1].kind == "assistant"


BROKEN: list[tuple[str, Any, str]] = [
    ("cut", Turn(("some", tool_call("add", "{", "c")), complete=False), "protocol"),
    ("empty", Turn((), complete=False), "protocol"),
    (
        "failed",
        ["some", tool_call("add", "{", "c"), Failed(error=Failure(code="overloaded", message="busy", retryable=True))],
        "overloaded",
    ),
    (
        "partial",
        [
            "some",
            Failed(
                error=Failure(code="transport", message="reset"),
                partial=AssistantMessage(
                    content=(TextBlock(text="some"), ToolCallBlock(call_id="c", tool_name="add", arguments={}))
                ),
            ),
        ],
        "transport",
    ),
    (
        "twins",
        [Completed(response=response(*[ToolCallBlock(call_id="c", tool_name="add", arguments={})] * 2))],
        "protocol",
    ),
]


@pytest.mark.parametrize("name, turn, code", BROKEN, ids=[each[0] for each in BROKEN])
async def test_broken_answers_fail_the_run(name: str, turn: Any, code: str) -> None:
    """L3, L07: no terminal event is a failure; what was said is kept, half-received calls are closed and not run."""
    tree = MemoryTree(Agent("lead", ScriptedModel([turn]), tools=[add], middleware=[Retry(NO_RETRIES)]))
    result = await tree.execute()
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", code)
    assert all(outcome == "truncated" for outcome in outcomes(tree))
    assert_valid(result)
    if name not in ("empty", "twins"):
        last = result.messages[-1]
        assert isinstance(last, AssistantMessage)
        assert last.text == "some"
    assert result.usage.tool_calls == 0


class Custom:
    """A model made of one function."""

    def __init__(self, events: Any, **profile: Any) -> None:
        self._events = events
        self.profile = ModelProfile(provider="custom", model="custom-1", **profile)

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        events: AsyncIterator[ModelEvent] = self._events(request)
        return events


async def test_a_model_that_raises() -> None:
    """L07."""

    async def events(_: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta(text="half")
        raise RuntimeError("boom")

    result = await MemoryTree(Agent("lead", Custom(events))).execute()
    assert result.error is not None
    assert (result.status, result.error.code, result.error.message) == ("failed", "provider", "RuntimeError: boom")


async def test_a_model_that_cannot_even_start() -> None:
    """L07."""

    def events(_: ModelRequest) -> AsyncIterator[ModelEvent]:
        raise ValueError("no")

    result = await MemoryTree(Agent("lead", Custom(events))).execute()
    assert result.status == "failed"


async def test_response_decides_over_fragments() -> None:
    """L3: a call the response does not hold is closed as invalid; one it holds alone is started late."""
    end = response(
        ToolCallBlock(call_id="b", tool_name="add", arguments_json='{"a":1,"b":2}', arguments={"a": 1, "b": 2})
    )
    model = ScriptedModel([[tool_call("add", {"a": 9, "b": 9}, "a"), Completed(response=end)], ["done"]])
    tree = MemoryTree(Agent("lead", model, tools=[add]))
    result = await tree.execute()
    assert [(item.call_id, item.outcome) for item in tree.of("tool_call_completed")] == [("a", "invalid"), ("b", "ok")]
    assert tree.of("tool_call_args_delta")[-1].delta == '{"a":1,"b":2}', "T04: raw arguments are visible"
    assert_valid(result)


async def test_calls_are_started_at_the_first_fragment() -> None:
    """L2."""
    fragments = [ToolCallDelta(call_id="c", tool_name="add", arguments=part) for part in ("", '{"a":1', ',"b":2}')]
    tree = MemoryTree(Agent("lead", ScriptedModel([fragments, ["done"]]), tools=[add]))
    await tree.execute()
    assert tree.kinds()[2:6] == [
        "tool_call_started",
        "tool_call_args_delta",
        "tool_call_args_delta",
        "assistant_message",
    ]


async def test_model_call_timeout() -> None:
    agent = Agent("lead", ScriptedModel([["some", Hang()]]), middleware=[Retry(NO_RETRIES)])
    tree = MemoryTree(agent, limits=Limits(model_call_timeout=0.02))
    result = await tree.execute()
    assert result.error is not None
    assert (result.status, result.error.code, result.error.retryable) == ("failed", "timeout", True)
    assert "model_call_timeout" in result.error.message


async def test_timeouts_reach_the_provider() -> None:
    model = ScriptedModel([["x"]])
    await MemoryTree(Agent("lead", model), limits=Limits(model_call_timeout=9, stream_idle_timeout=3)).execute()
    assert (model.requests[0].timeout, model.requests[0].idle_timeout) == (9, 3)


async def test_deadline_ends_the_run() -> None:
    """T06: unlike a tool's own timeout."""

    @tool
    async def wait() -> str:
        await anyio.sleep_forever()
        return "late"

    model = ScriptedModel([[tool_call("wait")]])
    tree = MemoryTree(Agent("lead", model, tools=[wait]), limits=Limits(deadline=0.05))
    result = await tree.execute()
    assert result.error is not None
    assert (result.status, result.error.limit) == ("failed", "deadline")
    assert outcomes(tree) == ["cancelled"]
    assert_valid(result)


async def test_deadline_that_has_passed() -> None:
    model = ScriptedModel([["x"]])
    tree = MemoryTree(Agent("lead", model), limits=Limits(deadline=1e-9))
    result = await tree.execute()
    assert result.status == "failed"
    assert not model.requests


async def test_unresolvable_model_fails_the_run() -> None:
    """L07."""
    tree = MemoryTree(Agent("lead", ScriptedModel([])))
    object.__setattr__(tree.agents.agent("lead"), "model", "nobody:x")
    result = await tree.execute()
    assert result.error is not None
    assert "nobody" in result.error.message


@pytest.mark.parametrize("value", [3, None, {"a": 1}])
async def test_input_that_is_no_text(value: Any) -> None:
    model = ScriptedModel([["x"]])
    result = await MemoryTree(Agent("lead", model)).execute(value)
    assert (result.status, model.requests) == ("failed", [])


PRICED = ModelProfile(provider="p", model="m", price=Price(input=Decimal(2), output=Decimal(10)))
TOKENS = Usage(input_tokens=1000, output_tokens=100)


@pytest.mark.parametrize(
    "profile, reported, cost",
    [
        pytest.param(PRICED, None, Cost(amount=Decimal("0.003")), id="price"),
        pytest.param(PRICED, Cost(amount=Decimal("0.5")), Cost(amount=Decimal("0.5")), id="reported"),
        pytest.param(ModelProfile(provider="p"), None, Cost(amount=Decimal(0), precision="unknown"), id="unknown"),
    ],
)
async def test_cost(profile: ModelProfile, reported: Cost | None, cost: Cost) -> None:
    end = Completed(response=response(TextBlock(text="x"), usage=TOKENS, cost=reported))
    tree = MemoryTree(Agent("lead", ScriptedModel([[end]], profile=profile)))
    result = await tree.execute()
    assert (result.usage, result.cost) == (TOKENS.model_copy(update={"model_calls": 1}), cost)
    assert tree.of("usage_updated")[0].usage == result.usage
    assert tree.items[-1].totals.total_cost == cost


@pytest.mark.parametrize(
    "events, expected",
    [
        pytest.param(["four", Failed(error=Failure(code="transport", message="x"))], "estimated", id="estimated"),
        pytest.param(
            ["four", UsageDelta(usage=TOKENS), Failed(error=Failure(code="transport", message="x"))],
            "exact",
            id="delta",
        ),
        pytest.param([Failed(error=Failure(code="transport", message="x"), usage=TOKENS)], "exact", id="failed"),
        pytest.param([Failed(error=Failure(code="authentication", message="x"))], "exact", id="refused"),
    ],
)
async def test_usage_of_calls_that_failed(events: Sequence[Any], expected: str) -> None:
    """U05."""
    result = await MemoryTree(Agent("lead", ScriptedModel([events], profile=PRICED))).execute()
    assert (result.usage.precision, result.usage.model_calls) == (expected, 1)
    assert (result.cost.precision, result.cost.amount is not None) == (expected, True)


PARTS = st.lists(
    st.one_of(
        st.text(min_size=1, max_size=5),
        st.builds(reasoning, st.text(min_size=1, max_size=5)),
        st.builds(
            tool_call,
            st.sampled_from(["add", "nowhere"]),
            st.one_of(
                st.just('{"a": 1, "b": 2}'),
                st.just("{"),
                st.just("[]"),
                st.dictionaries(st.sampled_from("abc"), st.integers()).map(json.dumps),
            ),
        ),
    ),
    max_size=6,
)


@given(st.lists(PARTS, min_size=1, max_size=3), st.booleans(), st.integers(1, 3), st.integers(1, 4))
async def test_any_script_gives_a_valid_stream_and_transcript(
    script: list[list[Any]], complete: bool, parallel: int, cap: int
) -> None:
    """D1, D4, L07 for whatever a model says."""
    model = ScriptedModel([*(Turn(tuple(turn)) for turn in script[:-1]), Turn(tuple(script[-1]), complete)])
    once = [Retry(NO_RETRIES)]
    tree = MemoryTree(Agent("lead", model, tools=[add], middleware=once, max_parallel=parallel, max_tool_calls=cap))
    result = await tree.execute()
    assert_valid(result)
    assert tree.items[-1].kind == f"run_{result.status}"
    executed = [each for each in outcomes(tree) if each == "ok"]
    assert result.usage.tool_calls == len(executed) <= cap
