"""S6: every fact of the registry is kept over a restart, or is known to follow from those that are."""

from dataclasses import fields

from runtree.actors.supervision.changes import Changes
from runtree.actors.supervision.facts import DERIVED_OF_DRIVER, DERIVED_OF_RUN, ActorFacts, DriverFacts, RunFacts
from runtree.actors.supervision.leases import Leases, LentActor
from runtree.actors.supervision.mailboxes import Mailboxes
from runtree.actors.supervision.model_limits import Gate
from runtree.actors.supervision.records import Driver, Run
from runtree.actors.supervision.registry import Registry

TELL = (
    "A new field goes into the facts (actors/supervision/facts.py) or, with its reason, into the list of derived ones"
)


def test_s6_every_field_of_a_run_is_kept_or_derived() -> None:
    kept = RunFacts.model_fields.keys() - {"driver_id"}
    assert kept | DERIVED_OF_RUN == {field.name for field in fields(Run)}, TELL
    assert not kept & DERIVED_OF_RUN


def test_s6_every_field_of_a_driver_is_kept_or_derived() -> None:
    kept = DriverFacts.model_fields.keys() - {"lease_numbers", "pool_shrunk"}
    assert kept | DERIVED_OF_DRIVER == {field.name for field in fields(Driver)}, TELL
    assert not kept & DERIVED_OF_DRIVER


def test_s6_every_field_of_an_actor_is_kept_or_derived() -> None:
    kept = ActorFacts.model_fields.keys() - {"idle_since"}
    assert kept | {"name"} == {field.name for field in fields(LentActor)}, TELL


def test_s6_all_else_that_the_registry_remembers_is_kept_or_derived() -> None:
    """Attributes of these classes: a new one has to be restored too, in `actors/supervision/restore.py`."""
    kept = {"_idle", "_held", "_numbers", "_shrunk"}
    derived = {"_open", "_dying", "on_change"}
    assert vars(Leases()).keys() == kept | derived
    kept = {"_namespace", "_drivers", "_runs"}
    derived = {"_mailboxes", "_changes", "_ended_trees", "_graces", "tally", "_lending", "_newcomers", "_allowances"}
    assert vars(Registry("test", Mailboxes())).keys() == kept | derived
    kept = {"paused_until", "_window", "_tokens"}
    derived = {"key", "limit", "line", "_open", "_changes"}
    assert vars(Gate("model", Changes())).keys() == kept | derived
    kept = {"_orders"}
    derived = {"_number", "_on_put", "changes"}
    assert vars(Mailboxes()).keys() == kept | derived


def test_s6_what_could_not_be_saved_has_still_changed() -> None:
    changes = Changes()
    assert not changes
    changes.forgotten_drivers.append("a")
    taken = changes.take()
    assert taken
    assert not changes
    changes.put_back(taken)
    assert changes.forgotten_drivers == ["a"]
