"""What a run waits for at the supervisor: decisions that come as orders, and are asked for again in case one was lost."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from ...messages.control import Admission, AdmissionOrder, AdmitAnswer, GrantOrder
from ...messages.items import Waiting
from ...messages.reservations import ReserveReply

ASK_AGAIN: Final = (20.0, 30.0)
"""Seconds after which a decision that has not come is asked for, drawn from this range: an order may be lost with a supervisor."""

T = TypeVar("T")


class Waits:
    """The decisions that are still to come. It belongs to the run's event loop.

    Args:
        emit: Puts an item into the run's stream.
    """

    def __init__(self, emit: Callable[..., None]) -> None:
        self._emit = emit
        self._grants: dict[int, asyncio.Future[ReserveReply]] = {}
        self._admissions: dict[str, asyncio.Future[Admission]] = {}
        self._nudges: set[asyncio.Future[None]] = set()

    def deliver(self, order: GrantOrder | AdmissionOrder) -> None:
        """Take a decision; one that nobody waits for any more is dropped."""
        if isinstance(order, GrantOrder):
            _decide(self._grants.get(order.number), order.reply)
        else:
            admission = order.admission
            run_id = admission.run_id if admission.kind == "refused" else admission.stamp.run_id
            _decide(self._admissions.get(run_id), admission)

    def ask_again(self) -> None:
        """Ask for everything that is not decided: orders may have been lost."""
        for nudge in self._nudges:
            _decide(nudge, None)

    async def grant(self, number: int, ask: Callable[[], Awaitable[ReserveReply]], detail: str) -> ReserveReply:
        """Return what is decided on a request.

        Args:
            number: The request's.
            ask: Asks; may be called again.
            detail: For readers, if it takes a while.
        """
        future: asyncio.Future[ReserveReply] = asyncio.get_running_loop().create_future()
        self._grants[number] = future

        async def decision() -> ReserveReply | None:
            reply = await ask()
            return None if reply.waits_for is not None else reply

        try:
            first = await ask()
            if first.waits_for is None:
                return first
            if future.done():
                return future.result()
            with self.told(first.waits_for, detail):
                return await self._decided(future, decision)
        finally:
            del self._grants[number]

    @contextmanager
    def expected(self, run_id: str) -> "Generator[asyncio.Future[Admission]]":
        """Listen for the admission of a child, from before it is asked for."""
        future: asyncio.Future[Admission] = asyncio.get_running_loop().create_future()
        self._admissions[run_id] = future
        try:
            yield future
        finally:
            del self._admissions[run_id]

    async def admission(
        self, future: "asyncio.Future[Admission]", ask: Callable[[], Awaitable[AdmitAnswer]]
    ) -> Admission:
        """Return what is decided on a child that was postponed."""

        async def decision() -> Admission | None:
            answer = await ask()
            return None if answer.kind == "postponed" else answer

        return await self._decided(future, decision)

    @contextmanager
    def told(self, what: str, detail: str) -> Generator[None]:
        """Tell readers of a wait, and of its end."""
        began = time.perf_counter()
        self._emit(Waiting, what=what, detail=detail)
        try:
            yield
        finally:
            self._emit(Waiting, what=what, detail=detail, duration=time.perf_counter() - began)

    async def _decided(self, future: "asyncio.Future[T]", ask: Callable[[], Awaitable[T | None]]) -> T:
        while not future.done():
            nudge: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._nudges.add(nudge)
            try:
                seconds = random.uniform(*ASK_AGAIN)
                await asyncio.wait((future, nudge), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._nudges.discard(nudge)
            if future.done():
                break
            answer = await ask()
            if answer is not None:
                return answer
        return future.result()


def _decide(future: "asyncio.Future[Any] | None", value: Any) -> None:
    if future is not None and not future.done():
        future.set_result(value)
