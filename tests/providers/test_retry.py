"""How long a failed call is waited for, and what is told of it: cases R01 to R03."""

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from runtree.messages.failure import Failure
from runtree.messages.model import Completed, Discarded, Failed, ModelEvent, ModelRequest, TextDelta
from runtree.messages.transcript import UserMessage
from runtree.providers.retry import NO_RETRIES, RetryPolicy, with_retries
from runtree.providers.scripted import ScriptedModel

REQUEST = ModelRequest(messages=(UserMessage.of("hi"),))
QUICK = RetryPolicy(initial=0.001)


def failed(code: str = "overloaded", *, retryable: bool = True, after: float | None = None) -> Failed:
    failure = {"code": code, "message": "busy", "retryable": retryable, "retry_after": after}
    return Failed(error=Failure.model_validate(failure))


async def events_of(model: ScriptedModel, policy: RetryPolicy = QUICK) -> list[ModelEvent]:
    with anyio.fail_after(10):
        return [event async for event in with_retries(model.stream, REQUEST, policy)]


@given(st.floats(0.001, 100), st.floats(0.001, 1000), st.integers(1, 10_000))
def test_r01_backoff_grows_to_its_bound_and_is_never_zero(initial: float, maximum: float, attempt: int) -> None:
    policy = RetryPolicy(initial=initial, maximum=maximum)
    delay = policy.delay(attempt, failed().error)
    backoff = min(initial * 2.0 ** min(attempt - 1, 64), maximum)
    assert 0 < backoff <= delay <= backoff * 1.26


@given(st.floats(0, 10_000))
def test_r01_retry_after_lengthens_only_and_is_clamped(asked: float) -> None:
    policy = RetryPolicy(initial=2, max_retry_after=60)
    delay = policy.delay(1, failed(after=asked).error)
    assert max(2, min(asked, 60)) <= delay <= max(2, min(asked, 60)) * 1.26


def test_many_callers_do_not_come_back_as_one() -> None:
    assert len({RetryPolicy().delay(1, failed().error) for _ in range(50)}) > 10


async def test_an_answer_needs_no_second_try() -> None:
    model = ScriptedModel([["fine"]])
    assert [event.kind for event in await events_of(model)] == [
        event.kind async for event in ScriptedModel([["fine"]]).stream(REQUEST)
    ]


async def test_r02_what_was_shown_is_discarded_before_it_is_said_again() -> None:
    events = await events_of(ScriptedModel([["ha", failed()], ["whole"]]))
    kinds = [event.kind for event in events]
    assert kinds.index("discarded") < events.index(TextDelta(text="whole"))
    [discarded] = [event for event in events if isinstance(event, Discarded)]
    assert discarded.error.code == "overloaded"
    assert discarded.delay is not None
    assert discarded.delay >= QUICK.initial
    assert isinstance(events[-1], Completed)
    assert events[-1].response.message.text == "whole"


async def test_the_last_failure_is_the_answer() -> None:
    events = await events_of(ScriptedModel([[failed()], [failed()], [failed("transport")]]))
    assert [event.kind for event in events if event.kind in ("discarded", "failed")] == ["discarded"] * 2 + ["failed"]
    assert isinstance(events[-1], Failed)
    assert events[-1].error.code == "transport"


@pytest.mark.parametrize("code", ["authentication", "quota", "invalid_request", "context_overflow"])
async def test_l7_what_no_waiting_helps_is_not_retried(code: str) -> None:
    assert [event.kind for event in await events_of(ScriptedModel([[failed(code, retryable=False)]]))][-1] == "failed"


async def test_retries_can_be_switched_off() -> None:
    assert [event.kind for event in await events_of(ScriptedModel([[failed()]]), NO_RETRIES)][-1] == "failed"


async def test_an_open_try_is_closed_with_the_stream() -> None:
    closed = anyio.Event()

    async def ask(_: ModelRequest):  # type: ignore[no-untyped-def]
        try:
            yield TextDelta(text="a")
            yield TextDelta(text="b")
        finally:
            closed.set()

    events = with_retries(ask, REQUEST, QUICK)
    await anext(events)
    await events.aclose()
    assert closed.is_set()


@pytest.mark.parametrize("field", ["max_attempts", "initial", "maximum", "max_retry_after"])
def test_bad_policies_are_refused(field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        RetryPolicy.model_validate({field: 0})
