"""The innermost layer of a model call: bounds, accounts, and the promise of exactly one terminal event."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import anyio

from ...messages.errors import LimitExceededError, ProviderError, ProviderProtocolError, RuntreeError
from ...messages.failure import Failure
from ...messages.model import (
    Completed,
    Discarded,
    Failed,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
)
from ...messages.result import ModelCallRecord
from ...messages.usage import NO_USAGE, Usage
from ...providers.fold import UNKNOWN_USAGE
from ...providers.pricing import price
from ...providers.profile import ModelProfile
from ...providers.protocol import Model
from ...providers.secrets import clean
from .accounts import usage_of_broken_call
from .middleware import is_cancelled
from .reservations import Permit
from .state import RunState, failure_of
from .time_limit import OutOfTimeError, within


class ModelCalls:
    """The requests that one turn sends to one model: one, unless a layer repeats it. Each is charged, bounded and counted by itself."""

    def __init__(self, state: RunState, model: Model) -> None:
        self._state = state
        self._model = model
        self._attempts = 0

    async def events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send the request; the last event is `Completed` or `Failed`."""
        reservations, profile = self._state.reservations, priced_as(self._model.profile, request.model)
        permit = await reservations.model_call(profile, request)
        if permit.refusal is not None:
            yield Failed(error=permit.refusal, usage=NO_USAGE)
            return
        request = permit.applied(request)
        call = self._begin(request, permit)
        stream: AsyncIterator[ModelEvent] | None = None
        bounded: AsyncIterator[ModelEvent] | None = None
        try:
            stream = self._model.stream(request)
            bounded = stream if request.timeout is None else within(stream, _stretched(request.timeout))
            async for event in bounded:
                # By exact type: a miss of isinstance costs a microsecond with pydantic classes, and this runs for every token.
                if type(event) is TextDelta or type(event) is ReasoningDelta:
                    call.receive(event.text)
                elif type(event) is ToolCallDelta:
                    call.receive(event.arguments)
                elif type(event) is UsageDelta:
                    call.usage = event.usage
                elif type(event) is Completed or type(event) is Failed:
                    call.end = event
                    break
                elif type(event) is Discarded:
                    # The model, such as a chain in a wrapper, asks again by itself: that try is a line of its own.
                    call.fail(event.error, event.usage)
                    yield event
                    permit = await reservations.model_call_again(profile, request)
                    call = self._begin(request, permit)
                    if permit.refusal is not None:
                        call.refuse(permit.refusal)
                        break
                    continue
                yield event
            else:
                call.end = Failed(error=broken_off())
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            call.end = Failed(error=_failure(error, request))
        finally:
            if bounded is not stream:
                await close(bounded)
            await close(stream)
            call.settle()
        yield call.answer()

    def _begin(self, request: ModelRequest, permit: Permit) -> "_Call":
        self._attempts += 1
        return _Call(self._state, self._model, request, permit, self._attempts)


class _Call:
    """What is known of one request until it is settled."""

    def __init__(self, state: RunState, model: Model, request: ModelRequest, permit: Permit, attempt: int) -> None:
        self._state = state
        self._profile = model.profile
        self._request = request
        self._permit = permit
        self._attempt = attempt
        self._started = time.time()
        self._clock = time.perf_counter()
        self._settled = False
        self.received = 0
        self.usage: Usage | None = None
        self.end: Completed | Failed | None = None

    def receive(self, text: str) -> None:
        """Count what came, in bytes."""
        self.received += len(text) if text.isascii() else len(text.encode("utf-8", "replace"))

    def fail(self, error: Failure, usage: Usage) -> None:
        """Enter a try that the model itself follows by another."""
        self.end = Failed(error=error, usage=usage)
        self.settle()

    def refuse(self, error: Failure) -> None:
        """Note that the request must not be sent: there is nothing to enter."""
        self.end = Failed(error=error, usage=NO_USAGE)
        self._settled = True

    def answer(self) -> Completed | Failed:
        """Return the last event: an answer that a bound has cut is none."""
        end, bound = self.end, self._permit.lowered_by
        assert end is not None
        if bound is not None and isinstance(end, Completed) and end.response.finish_reason == "length":
            return Failed(error=bound, partial=end.response.message, usage=end.response.usage)
        return end

    def settle(self) -> None:
        """Enter the request into the run's ledger, and free what of its reservation it did not use; once."""
        if self._settled:
            return
        self._settled = True
        end, profile = self.end, self._profile
        reservations = self._state.reservations
        named = priced_as(profile, self._request.model)
        response = end.response if isinstance(end, Completed) else None
        if isinstance(end, Failed):
            reservations.heard(named, end.error)
        if response is not None and response.cached:
            reservations.settle(self._permit, 0)
            return  # entered by whoever takes the answer, be it from a model or from a layer before it
        usage = self._used() if response is None else self._counted(response.usage)
        if response is not None:
            reservations.learn(named, self._request, usage)
        answered = response.model if response is not None else None
        self._state.accounts.add_model_call(
            ModelCallRecord(
                model=answered or self._request.model or profile.model,
                provider=profile.provider,
                usage=usage,
                cost=price(
                    named,
                    usage,
                    response.cost if response is not None else None,
                    requested=self._request.model,
                    answered=answered,
                    at=self._started,
                ),
                finish_reason=response.finish_reason if response is not None else None,
                failure=None if response is not None else end.error.code if isinstance(end, Failed) else "cancelled",
                attempt=self._attempt,
                started=self._started,
                duration=time.perf_counter() - self._clock,
            )
        )
        reservations.settle(self._permit, usage.tokens)

    def _counted(self, usage: Usage) -> Usage:
        """Return the usage of an answer; a reservation is settled at an estimate where the provider counts nothing."""
        if self._permit.number is None or usage.input_tokens is not None or usage.output_tokens is not None:
            return usage
        return usage_of_broken_call(self._request, self.received, usage, None, self._profile.image_tokens)

    def _used(self) -> Usage:
        last, code = self.usage, None
        if isinstance(self.end, Failed):
            code = self.end.error.code
            last = self.end.usage if self.end.usage != UNKNOWN_USAGE else last
        return usage_of_broken_call(self._request, self.received, last, code, self._profile.image_tokens)


def broken_off() -> Failure:
    """Return the failure of a stream that ended without a terminal event."""
    return Failure(code="protocol", message="the model's stream ended before its terminal event", retryable=True)


async def close(stream: Any) -> None:
    """Close a stream, also in a cancelled scope, and not for longer than a moment."""
    aclose = getattr(stream, "aclose", None)
    if aclose is None:
        return
    with anyio.move_on_after(1, shield=True):
        try:
            await aclose()
        except Exception:  # noqa: BLE001  # how a stream ends is told by its terminal event
            return


def priced_as(profile: ModelProfile, requested: str | None) -> ModelProfile:
    """Return the profile under which a call is bounded and priced.

    A price in the profile is its own model's; that of another one is looked up under its name, or unknown.
    """
    other = requested is not None and requested != profile.model
    return profile.model_copy(update={"model": requested, "price": None}) if other else profile


def _failure(error: BaseException, request: ModelRequest) -> Failure:
    """Return what a model raised; it may be anybody's code, whose error ends the call, not the process."""
    if isinstance(error, OutOfTimeError):
        return _too_slow(request)
    if isinstance(error, asyncio.CancelledError):
        # Something that the model waited for was cancelled, and nobody cancelled the run.
        return Failure(code="provider", message="the model cancelled itself", retryable=True)
    failure = failure_of(error)
    return failure if isinstance(error, RuntreeError) else failure.model_copy(update={"code": "provider"})


def _too_slow(request: ModelRequest) -> Failure:
    text = f"the model call took longer than {request.timeout:g} seconds (model_call_timeout)"
    return Failure(code="timeout", message=text, retryable=True, limit="model_call_timeout")


def _stretched(timeout: float) -> float:
    # The provider keeps the same bound and has the better error: it gets a moment to say so.
    return timeout + min(1.0, timeout / 10)


async def end_of(stream: AsyncIterator[ModelEvent]) -> ModelResponse:
    """Return the response at the end of a stream of which nothing else is wanted.

    Raises:
        ProviderError: The call failed.
        ProviderProtocolError: The stream broke off.
    """
    response: ModelResponse | None = None
    # To the end, as what layers do after the last event is part of the call.
    async for event in stream:
        if isinstance(event, Completed):
            response = event.response
        elif isinstance(event, Failed):
            raise ProviderError(event.error)
    if response is None:
        raise ProviderProtocolError(broken_off())
    return response


def cut_before_text(response: ModelResponse) -> bool:
    """Return whether all of an answer went into reasoning."""
    message = response.message
    return response.finish_reason == "length" and not message.text and not message.tool_calls


def check_granted(response: ModelResponse) -> None:
    """Stop at an answer that is none, or not whole; what there is of it is in the transcript.

    Raises:
        ProviderError: The model refused, or the provider withheld the answer or its end.
    """
    reason = response.finish_reason
    if reason == "content_filter":
        raise ProviderError(Failure(code=reason, message="the model was stopped by a content filter"))
    if reason == "refusal":
        said = clean(response.message.text)
        why = f": {said}" if said else ""
        raise ProviderError(Failure(code=reason, message=f"the model refused to answer{why}"))


def answer_of(response: ModelResponse) -> str:
    """Return the text of a last answer.

    Raises:
        LimitExceededError: There is none, because the answer was cut before it.
    """
    if cut_before_text(response):
        raise LimitExceededError("max_output_tokens", "no text came before it", scope="model call")
    return response.message.text
