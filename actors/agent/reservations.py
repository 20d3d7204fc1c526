"""Reservations of one run: what its calls may consume is asked for before they are made, and given back or settled after them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from ...messages.failure import Failure
from ...messages.model import ModelRequest
from ...messages.reservations import ReserveReply, ReserveRequest, ThrottleReport
from ...messages.transcript import Message
from ...messages.usage import Usage
from ...providers.pricing import dearest
from ...providers.profile import ModelProfile
from ...providers.prompt_bound import after, most_tokens
from .retry import policy_of

if TYPE_CHECKING:
    from .state import RunState

_ROOM: Final = 4096
"""Tokens for the answer proper, beside those a request gives the model to think."""


@dataclass(frozen=True, slots=True)
class Permit:
    """A model call that may be made."""

    number: int | None = None
    """Its reservation; `None`: no bound stands over it."""
    output_tokens: int | None = None
    """Tokens its answer may have; `None`: as many as its settings say."""
    lowered_by: Failure | None = None
    """The bound because of which that is less than was asked for."""
    refusal: Failure | None = None
    """Why it must not be made after all."""

    def applied(self, request: ModelRequest) -> ModelRequest:
        """Return the request with the limit of its answer."""
        if self.output_tokens is None:
            return request
        settings = request.settings.model_copy(update={"max_output_tokens": self.output_tokens})
        return request.model_copy(update={"settings": settings})


_FREE: Final = Permit()


@dataclass(frozen=True, slots=True)
class _Counted:
    """A call whose tokens the provider has counted."""

    request: ModelRequest
    usage: Usage


class Reservations:
    """What the run has reserved. Where no bound stands over it, nothing is asked and nothing is kept."""

    def __init__(self, state: "RunState") -> None:
        self._state = state
        self._host = state.host
        self._policy = policy_of(state.agent.middleware)
        self._counted: dict[str, _Counted] = {}
        self._waited: dict[str, float] = {}
        self._asking = 0

    async def model_call(self, profile: ModelProfile, request: ModelRequest) -> Permit:
        """Return when a model may be called, or must not be.

        Args:
            profile: That of the model that is called.
            request: The call.
        """
        host, key = self._host, profile.key
        await self._pause(key)
        if not host.limits.bounds_model_calls and key not in host.limited_models:
            return _FREE
        wished = _wished(profile, request)
        fields = self._bound(profile, request) | {"model_calls": 1, "model": key, "output_tokens": wished}
        number, reply = await self._reserve(fields, key)
        if not reply.granted_model_calls:
            return Permit(refusal=reply.error or _used_up("model calls", "max_model_calls"))
        permit = Permit(number, reply.output_tokens, _lowered_by(reply, wished))
        try:
            await self._pause(key)
        except BaseException:
            self.settle(permit, 0)
            raise
        return permit

    async def model_call_again(self, profile: ModelProfile, request: ModelRequest) -> Permit:
        """Return the same for a call that the model makes again by itself: the limit of its answer can't be lowered any more."""
        again = await self.model_call(profile, request)
        if again.lowered_by is None:
            return again
        self.settle(again, 0)
        return Permit(refusal=again.lowered_by)

    async def tool_calls(self, count: int) -> ReserveReply:
        """Return how many tool calls may be made; they are counted as made from now on."""
        if self._host.limits.max_tool_calls is None:
            granted = ReserveReply(granted_tool_calls=count)
        else:
            self._asking += count
            try:
                number, granted = await self._reserve({"tool_calls": count}, "tool calls")
            finally:
                self._asking -= count
            self._state.accounts.settle(number, 0)
        self._state.accounts.add_tool_calls(granted.granted_tool_calls)
        return granted

    @property
    def tool_calls_asked(self) -> int:
        """Tool calls that were made, and those that are being asked for."""
        return (self._state.accounts.usage.tool_calls or 0) + self._asking

    def settle(self, permit: Permit, tokens: int) -> None:
        """Say that a call is over and has used so many tokens; what it used is in the accounts. Others may wait for what it leaves."""
        if permit.number is not None:
            self._release(permit.number, tokens)

    def learn(self, profile: ModelProfile, request: ModelRequest, usage: Usage) -> None:
        """Remember what a call was counted for: the next prompt that goes on from it is known but for its end."""
        if usage.precision == "exact" and usage.input_tokens is not None:
            self._counted[profile.key] = _Counted(request, usage)

    def heard(self, profile: ModelProfile, error: Failure) -> None:
        """Take note of a failed call: if the provider asks to be left alone, every run of the namespace does so."""
        seconds = self._policy.pause(error)
        if seconds is not None:
            self._waited[profile.key] = self._host.pauses.put_for(profile.key, seconds)
            report = ThrottleReport(model=profile.key, seconds=seconds)
            self._state.in_background(lambda: self._host.throttle(report))

    async def _pause(self, key: str) -> None:
        pauses = self._host.pauses
        # The run's own retry has waited already for what it was told itself.
        while (left := pauses.left(key, self._waited.get(key, 0.0))) > 0.0:
            seconds = pauses.spread(left)
            with self._state.waits.told("pause", key):
                await anyio.sleep(seconds)

    def _bound(self, profile: ModelProfile, request: ModelRequest) -> dict[str, Any]:
        """Return what the call consumes at most."""
        tokens = self._prompt(profile, request)
        fields: dict[str, Any] = {"input_tokens": tokens}
        if self._host.limits.max_cost is not None:
            prices = dearest(profile, profile.model, tokens)
            if prices is not None:
                fields["input_cost"], fields["output_price"] = prices
        return fields

    def _prompt(self, profile: ModelProfile, request: ModelRequest) -> int:
        counted = self._counted.get(profile.key)
        if counted is not None and (rest := _rest(counted.request, request)) is not None:
            usage, answer = counted.usage, request.messages[len(counted.request.messages)]
            return after(usage.input_tokens or 0, usage.output_tokens or 0, answer, rest, profile)
        return most_tokens(request, profile)

    async def _reserve(self, fields: dict[str, Any], detail: str) -> tuple[int, ReserveReply]:
        host, number = self._host, self._host.next_number()
        stamp = host.stamp
        request = ReserveRequest(run_id=stamp.run_id, attempt=stamp.attempt, number=number, **fields)
        asking: asyncio.Future[ReserveReply] | None = None

        async def ask() -> ReserveReply:
            nonlocal asking
            asking = asyncio.ensure_future(host.reserve(request))
            return await asyncio.shield(asking)

        try:
            return number, await self._state.waits.grant(number, ask, detail)
        except BaseException:
            # Nobody makes the call any more: what was granted, or is being granted, goes back.
            if asking is None or asking.done():
                self._release(number, 0)
            else:
                asking.add_done_callback(partial(self._release_late, number))
            raise

    def _release_late(self, number: int, _: "asyncio.Future[ReserveReply]") -> None:
        self._release(number, 0)

    def _release(self, number: int, tokens: int) -> None:
        self._state.accounts.settle(number, tokens)
        # A run that ends settles everything by its last report.
        if self._state.stop is None:
            self._state.in_background(lambda: self._state.accounts.report(self._host))


def _wished(profile: ModelProfile, request: ModelRequest) -> int:
    settings = request.settings
    if settings.max_output_tokens is not None:
        return settings.max_output_tokens
    thinking = 0 if settings.reasoning_budget is None else settings.reasoning_budget + _ROOM
    return max(profile.max_output_tokens, thinking)


def _rest(earlier: ModelRequest, request: ModelRequest) -> Sequence[Message] | None:
    """Return the messages behind the answer to an earlier request, if that is a part of this one and nothing before it has changed."""
    count = len(earlier.messages)
    if len(request.messages) <= count or request.messages[count].kind != "assistant":
        return None
    same = (
        all(a is b for a, b in zip(earlier.messages, request.messages, strict=False))
        and (earlier.instructions, earlier.tools, earlier.output_schema) == (request.instructions, request.tools, request.output_schema)
        and earlier.thinking_from == request.thinking_from
    )  # fmt: skip
    return request.messages[count + 1 :] if same else None


def _lowered_by(reply: ReserveReply, wished: int) -> Failure | None:
    if reply.output_tokens is None or reply.output_tokens >= wished:
        return None
    text = f"only {reply.output_tokens} tokens were left for the answer"
    return reply.error or Failure(code="limit_exceeded", message=text)


def _used_up(what: str, limit: str) -> Failure:
    return Failure(code="limit_exceeded", message=f"the tree's {what} are used up", limit=limit)
