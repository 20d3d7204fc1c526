"""A check that all that changes in a registry is said to have changed: what would be saved is compared with what there is after every call."""

import functools
from collections.abc import Callable
from typing import Any

from runtree.actors.supervision.changes import BegunCall, Changes, Permit
from runtree.actors.supervision.facts import facts_of_actor, facts_of_driver, facts_of_run
from runtree.actors.supervision.registry import Registry

_MANY = 100
"""Runs above which a registry is not compared any more: that would take longer than the test."""


class Kept:
    """What a store would hold."""

    def __init__(self) -> None:
        self.runs: dict[str, str] = {}
        self.drivers: dict[str, str] = {}
        self.actors: dict[tuple[str, str], str] = {}
        self.pauses: dict[str, float] = {}
        self.calls: dict[Permit, tuple[str, float, int]] = {}

    def save(self, changes: Changes) -> None:
        """Carry out changes."""
        self.runs.update((name, facts_of_run(run).to_json()) for name, run in changes.runs.items())
        self.drivers.update((name, facts_of_driver(driver).to_json()) for name, driver in changes.drivers.items())
        for key, driver in changes.actors.items():
            actor = facts_of_actor(driver.leases, key[1])
            if actor is not None:
                self.actors[key] = actor.to_json()
            else:
                self.actors.pop(key, None)
        self.pauses.update(changes.pauses)
        self.calls.update({permit: _plain(call) for permit, call in changes.calls.items()})
        for root in changes.forgotten_trees:
            self.runs = {name: kept for name, kept in self.runs.items() if f'"root_run_id":"{root}"' not in kept}
        for name in changes.forgotten_drivers:
            del self.drivers[name]
            self.actors = {key: kept for key, kept in self.actors.items() if key[0] != name}


def watch(registry: Registry) -> None:
    """Fail the call of a registry's method after which something has changed that nobody called `touch` for."""
    kept = Kept()
    changes = registry._changes
    for name in dir(registry):
        method = getattr(registry, name)
        if not name.startswith("_") and callable(method):
            setattr(registry, name, _checked(method, lambda: _check(registry, changes, kept)))


def _checked(method: Callable[..., Any], check: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(method)
    def checked(*args: Any, **kwargs: Any) -> Any:
        answer = method(*args, **kwargs)
        check()
        return answer

    return checked


def _check(registry: Registry, changes: Changes, kept: Kept) -> None:
    kept.save(changes.take())
    for gate in registry._allowances.models.gates():
        assert kept.pauses.get(gate.key, 0.0) == gate.paused_until, (
            f"the pause of {gate.key} is not said to have changed"
        )
        for call in gate._window:
            assert kept.calls.get(call.permit) == _plain(call), f"call {call.permit} is not said to have changed"
    if len(registry._runs) > _MANY:
        return
    runs = {name: facts_of_run(run).to_json() for name, run in registry._runs.items()}
    for name, facts in runs.items():
        assert kept.runs.get(name) == facts, f"run {name} has changed, and nobody called its touch()"
    assert kept.runs.keys() == runs.keys(), "runs are forgotten in the registry, but not in the store"
    for driver_id, driver in registry._drivers.items():
        for name in driver.leases._idle.keys() | driver.leases._held.keys():
            actor = facts_of_actor(driver.leases, name)
            assert actor is not None
            assert kept.actors.get((driver_id, name)) == actor.to_json(), f"actor {name}: on_change was not called"
    for name, driver in registry._drivers.items():
        facts = facts_of_driver(driver).to_json()
        assert kept.drivers.get(name) == facts, f"driver {name} has changed, and nobody called its touch()"


def _plain(call: BegunCall) -> tuple[str, float, int]:
    return call.model, call.time, call.tokens
