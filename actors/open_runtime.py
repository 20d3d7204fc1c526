"""What an entered Runtime holds: its queue actors, its pool, and the trees it started."""

import asyncio
import contextlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..messages.control import (
    AdmitRequest,
    CancelRequest,
    ChildRequest,
    KillOrder,
    Order,
    RefillOrder,
    RetireOrder,
    StartOrder,
)
from ..messages.errors import MissingSecretError, NotPicklableError
from ..messages.ids import new_run_id
from ..messages.limits import Limits
from ..messages.result import CancelReport
from ..messages.transcript import Message
from ..messages.usage import Totals
from ..messages.version import VERSION
from ..providers import secrets
from .actor_start import ActorStarts
from .admission import admitted_or_raise, check_limits, checked_tags, packed_messages
from .agent import Agent, AgentSet
from .driver_queues import DriverQueues
from .handle import RunHandle
from .jobs import Keys, RunJob, TreeContext
from .pickling import pack
from .pool import Pool
from .remote import ActorGoneError
from .run_actor import start_run_actor
from .run_call import RunCaller
from .run_channels import RunChannels
from .session import Session
from .stream.lanes import Bounds
from .supervisor_client import SupervisorClient
from .variables import StoredVariable, stored

EXIT_GRACE: Final = 2.0
"""Seconds a live run gets when its Runtime is left."""


class OpenRuntime:
    """What an entered Runtime holds."""

    def __init__(
        self,
        supervisor: SupervisorClient,
        queues: DriverQueues,
        pool: Pool,
        driver_id: str,
        given_secrets: Mapping[str, str],
        bounds: Bounds,
        schedule_timeout: float,
        *,
        cancel_unread: bool,
    ) -> None:
        self.supervisor = supervisor
        self.pool = pool
        self._queues = queues
        self._driver_id = driver_id
        self._secrets = given_secrets
        self._bounds = bounds
        self._schedule_timeout = schedule_timeout
        self._cancel_unread = cancel_unread
        self._caller = RunCaller(supervisor, queues.clients, ActorStarts(start_run_actor), RunChannels())
        self._sessions: dict[str, Session] = {}
        self._poll = asyncio.create_task(supervisor.poll_for_ever(driver_id, self._obey))

    async def start(
        self,
        agent: Agent,
        value: Any,
        messages: Sequence[Message],
        limits: Limits | None,
        deps: Any,
        variables: Mapping[str, Any] | None,
        tags: Mapping[str, str] | None,
    ) -> RunHandle:
        """See `Runtime.start`."""
        agents = AgentSet.of(agent)
        await asyncio.to_thread(check_limits, agents, limits)
        keys = self._keys(agents)
        tree = self._tree(agents, deps, await stored(variables, agents))
        packed_value, conversation, labels = _pickled("input", value), packed_messages(messages), checked_tags(tags)
        run_id = new_run_id()
        request = ChildRequest(
            run_id=run_id,
            agent=agent.name,
            limits=(limits or Limits()).narrow(agent.limits),
            model=agent.model_name,
            poolable=agent.poolable,
            max_attempts=agent.max_attempts,
            runs_per_actor=agent.runs_per_actor,
            agent_key=agents.root_key,
            resources=dict(agent.resources or {}),
        )
        reply = await self.supervisor.admit(AdmitRequest(driver_id=self._driver_id, children=(request,)))
        admitted = admitted_or_raise(reply.admissions[0])
        session = Session(
            admitted,
            self._queues,
            self.supervisor,
            self._bounds,
            on_reader_gone=(lambda: self.cancel(run_id, "its reader is gone", EXIT_GRACE))
            if self._cancel_unread
            else None,
        )
        await session.open()
        job = RunJob(
            tree=tree,
            admitted=admitted,
            agent_key=agents.root_key,
            value=packed_value,
            messages=conversation,
            tags=labels,
        )
        root_call = asyncio.create_task(self._caller.run(job, keys, agent.resources, agent.unrepeatable))
        session.follow(root_call)
        self._sessions[run_id] = session
        root_call.add_done_callback(lambda _: self._sessions.pop(run_id, None))
        return RunHandle(agent, session, self.supervisor, self.cancel)

    async def cancel(self, run_id: str, reason: str, grace: float) -> CancelReport:
        """See `Runtime.cancel`."""
        return await self.supervisor.cancel(CancelRequest(run_id=run_id, reason=reason, grace=grace))

    async def aclose(self, *, interrupted: bool) -> None:
        """Cancel what is live and free everything; prints what was spent if the user interrupted."""
        sessions = list(self._sessions.values())
        try:
            await asyncio.gather(*(self.cancel(each.run_id, "its Runtime was closed", EXIT_GRACE) for each in sessions))
            if sessions:
                await asyncio.wait({each.call for each in sessions}, timeout=2 * EXIT_GRACE)
            if interrupted:
                for each in sessions:
                    _print_spent(each.run_id, await self.supervisor.totals(each.run_id))
        finally:
            for each in sessions:
                each.call.cancel()
            self._poll.cancel()
            await self.pool.aclose()
            await self._queues.aclose()
            with contextlib.suppress(ActorGoneError):  # somebody ended it for good
                await self.supervisor.leave(self._driver_id)

    async def _obey(self, order: Order) -> None:
        if isinstance(order, KillOrder):
            await self.pool.kill(order.actor)
            await self.supervisor.killed(order.run_id)
        elif isinstance(order, RetireOrder):
            self.pool.retire(order.actor, shrink=order.shrink)
        elif isinstance(order, StartOrder):
            self.pool.start(order.actor, order.resources)
        elif isinstance(order, RefillOrder):
            self.pool.refill()

    def _keys(self, agents: AgentSet) -> Keys:
        names = agents.secret_names()
        found = {**secrets.collect(names), **{name: self._secrets[name] for name in names if name in self._secrets}}
        for name, required in names.items():
            if required and name not in found:
                fix = f"Set {name} in the environment of the driver, or pass Runtime(secrets={{{name!r}: ...}})"
                raise MissingSecretError(f"secret {name}", "a model of the tree needs it and it is not set", fix)
        return Keys(found)

    def _tree(self, agents: AgentSet, deps: Any, variables: Mapping[str, StoredVariable]) -> TreeContext:
        return TreeContext(
            driver_id=self._driver_id,
            namespace=self.supervisor.namespace,
            version=VERSION,
            agents=agents.dump(),
            deps=_pickled("deps", deps),
            variables=variables,
            bounds=self._bounds,
            schedule_timeout=self._schedule_timeout,
        )


def _pickled(field: str, value: Any) -> bytes:
    try:
        data: bytes = pack(value)
    except Exception as error:  # noqa: BLE001 - pickling runs any user code
        problem = f"can't be sent to an actor: {type(error).__name__}: {error}"
        raise NotPicklableError(field, problem, "Pass plain data, or make the object inside a tool") from None
    return data


def _print_spent(run_id: str, totals: Totals) -> None:
    usage, cost = totals.total_usage, totals.total_cost
    about = "about " if cost.precision == "estimated" else ""
    money = "cost unknown" if cost.amount is None or cost.precision == "unknown" else f"{about}${cost.amount}"
    sys.stderr.write(f"runtree: cancelled {run_id}: {usage.tokens} tokens ({usage.precision}), {money}\n")
