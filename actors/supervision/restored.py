"""From facts to a registry: what an earlier supervisor knew, and all that follows from it."""

from .changes import BegunCall
from .facts import WAITERS, ActorFacts, RunFacts, restore_waiters
from .leases import Leases, LentActor
from .lending import Kill
from .mailboxes import Mailboxes
from .model_limits import ModelUse
from .records import Driver, Run
from .registry import Registry
from .saved import Saved


def restored(namespace: str, mailboxes: Mailboxes, saved: Saved, now: float) -> Registry:
    """Return the registry whose facts were saved; nothing of it counts as changed.

    Args:
        namespace: Ray's namespace.
        mailboxes: Empty ones, which get the orders.
        saved: What the store holds.
        now: From when on silence counts: nobody could be heard before.
    """
    mailboxes.resume(saved.orders)
    drivers = _drivers(saved, mailboxes, now)
    runs: dict[str, Run] = {}
    for facts in saved.runs:
        parent = runs[facts.stamp.parent_run_id] if facts.stamp.parent_run_id is not None else None
        run = _run(facts, drivers[facts.driver_id], parent, mailboxes, now)
        runs[run.run_id] = run
    calls = [
        BegunCall((call.run_id, call.attempt, call.number), call.model, call.begun, call.tokens) for call in saved.calls
    ]
    use = ModelUse(saved.pauses, calls)
    registry = Registry(namespace, mailboxes, drivers.values(), tuple(runs.values()), use)
    for run in runs.values():
        if run.live:
            registry.tally.go_on(run.agent)
    return registry


def pending_kills(registry: Registry) -> list[Kill]:
    """Return the runs whose actors were to be killed when the earlier supervisor ended."""
    return [
        Kill(run, run.lease)
        for run in registry.every_run()
        if run.live and run.forced and run.driver.leases.lent(run.lease.actor) is None
    ]


def _drivers(saved: Saved, mailboxes: Mailboxes, now: float) -> dict[str, Driver]:
    idle: dict[str, dict[str, float]] = {}
    lent: dict[str, list[LentActor]] = {}
    for driver_id, name, facts in saved.actors:
        if facts.idle_since is not None:
            idle.setdefault(driver_id, {})[name] = facts.idle_since
        else:
            lent.setdefault(driver_id, []).append(_lent(name, facts))
    drivers: dict[str, Driver] = {}
    for driver in saved.drivers:
        name = driver.hello.driver_id
        leases = Leases()
        leases.resume(idle.get(name, {}), lent.get(name, []), driver.lease_numbers, shrunk=driver.pool_shrunk)
        drivers[name] = Driver(
            hello=driver.hello,
            leases=leases,
            next_queue=driver.next_queue,
            seen=now,
            gone=driver.gone,
            changes=mailboxes.changes,
        )
    return drivers


def _lent(name: str, facts: ActorFacts) -> LentActor:
    return LentActor(
        name=name,
        of_driver=facts.of_driver,
        returns=facts.returns,
        packing=facts.packing,
        warm=facts.warm,
        holders={lease.number: lease for lease in facts.holders},
        condemned=set(facts.condemned),
        draining=facts.draining,
        kill_at=facts.kill_at,
    )


def _run(facts: RunFacts, driver: Driver, parent: Run | None, mailboxes: Mailboxes, now: float) -> Run:
    kept = {name: getattr(facts, name) for name in RunFacts.model_fields if name not in {"driver_id", *WAITERS}}
    progress = now if facts.ended is None else facts.ended
    run = Run(**kept, driver=driver, parent=parent, progress=progress, changes=mailboxes.changes)
    restore_waiters(run, facts)
    if parent is None:
        driver.trees += 1
    else:
        parent.adopt(run)
    for above in run.lineage()[1:]:
        if not run.live:
            above.live_below -= 1
    return run
