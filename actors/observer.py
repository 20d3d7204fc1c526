"""A look at a namespace from outside: what runs, and a way to stop it, without a pool or queues of one's own."""

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from ..messages.control import CancelRequest
from ..messages.errors import VersionMismatchError
from ..messages.overview import NamespaceView, SupervisorInfo
from ..messages.result import CancelReport, RunInfo
from .connection import answers, cluster_address, connect, is_connected
from .remote import ActorGoneError, shut_down
from .supervisor_client import SupervisorClient

_DOWN_GRACE = 2.0
"""Seconds for the runs of a namespace that is taken down."""


class Observer:
    """Lists and cancels the runs of a namespace, whoever started them. It starts nothing, neither Ray nor a supervisor."""

    def __init__(self, address: str | None = None, namespace: str = "runtree") -> None:
        """Describe the connection; see `Runtime`."""
        self._address, self._namespace = address, namespace
        self._joined = False
        self._known: SupervisorClient | None = None

    async def __aenter__(self) -> Self:
        """Join the Ray that runs.

        Raises:
            AddressError: There is none.
        """
        self._joined = not is_connected()
        connect(self._address, self._namespace, {"logging_level": "ERROR"}, start=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._joined:
            shut_down()

    async def runs(self, *, all: bool = False) -> tuple[RunInfo, ...]:  # noqa: A002 - reads well at the call
        """Return the live runs; with `all`, ended ones too, as far as they are remembered.

        Raises:
            VersionMismatchError: The supervisor of the namespace runs another version.
        """
        try:
            supervisor = await SupervisorClient.join(self._namespace)
        except ActorGoneError:
            return ()
        return await supervisor.runs(ended=all)

    async def view(self, *, ended: bool = False, most: int = 1000) -> NamespaceView | None:
        """Return what runs at this moment, made to be asked again and again; `None` without a supervisor.

        Args:
            ended: Also runs that have ended, as far as they are remembered.
            most: Runs that are told one by one.

        Raises:
            RuntimeUnavailableError: The supervisor, or Ray, is out of reach for the moment.
            VersionMismatchError: The supervisor of the namespace runs another version.
        """
        try:
            if self._known is None:
                self._known = await SupervisorClient.join(self._namespace)
            return await self._known.view(ended=ended, most=most)
        except ActorGoneError:
            self._known = None
            return None

    async def describe(self) -> SupervisorInfo | None:
        """Return what the supervisor is, also one of another version; `None` without one.

        Raises:
            RuntimeUnavailableError: It does not answer, or is too old to know the question.
        """
        try:
            return await (await SupervisorClient.known(self._namespace)).describe()
        except ActorGoneError:
            return None

    async def ray_answers(self) -> bool:
        """Return whether the head of the cluster that was joined is still there."""
        return await asyncio.to_thread(answers, cluster_address())

    async def cancel(self, run_id: str, reason: str = "user", grace: float = 2.0) -> CancelReport:
        """Cancel a run and all below it; see `RunHandle.cancel`.

        Raises:
            VersionMismatchError: The supervisor of the namespace runs another version.
        """
        try:
            supervisor = await SupervisorClient.join(self._namespace)
        except ActorGoneError:
            return CancelReport(run_id=run_id, was_live=False)
        return await supervisor.cancel(CancelRequest(run_id=run_id, reason=reason, grace=grace))

    async def down(self) -> bool:
        """Cancel all runs of the namespace and end its supervisor, of whatever version; returns whether there was one."""
        try:
            supervisor = await SupervisorClient.known(self._namespace)
        except ActorGoneError:
            return False
        with contextlib.suppress(VersionMismatchError):  # what runs under another version ends with its drivers
            roots = [run.run_id for run in await self.runs() if run.parent_run_id is None]
            await asyncio.gather(*(self.cancel(run_id, "runtree down", _DOWN_GRACE) for run_id in roots))
        await supervisor.down()
        return True
