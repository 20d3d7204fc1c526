"""S6: what the store keeps, and what it does with a disk that fails and with files it can't use."""

import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import text

from runtree.actors.supervision import registry as registry_module
from runtree.actors.supervision.mailboxes import Mailboxes
from runtree.actors.supervision.restored import restored
from runtree.actors.supervision.saved import Batch
from runtree.actors.supervision.store import Store
from runtree.messages.control import AdmitRequest, ChildRequest, RetireOrder
from runtree.messages.errors import RuntimeUnavailableError, StoreError

from .world import hello

IDENTITY: Final = {"supervisor": "s", "version": "v", "wire_version": "1"}


def opened(path: Path, **identity: str) -> Store:
    return Store.open(path, {**IDENTITY, **identity})[0]


def kept(path: Path, **identity: str) -> list[str]:
    """The runs in a file."""
    store, saved = Store.open(path, {**IDENTITY, **identity})
    store.close()
    return [facts.stamp.run_id for facts in saved.runs]


def changed(*names: str) -> Mailboxes:
    """What a registry has changed that has admitted runs."""
    mailboxes = Mailboxes()
    registry = registry_module.Registry("test", mailboxes)
    registry.join(hello("d"), 0.0)
    for name in names:
        child = ChildRequest(run_id=name, agent="agent")
        registry.admit(AdmitRequest(driver_id="d", children=(child,)), 0.0)
    return mailboxes


def write(path: Path, *names: str) -> None:
    store = opened(path)
    store.write(Batch.of(changed(*names).changes))
    store.close()


def test_s6_a_killed_process_loses_nothing_it_has_committed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    code = f"""
import os, signal, sys
from pathlib import Path
from tests.supervision.test_store import Batch, changed, opened
opened(Path({str(path)!r})).write(Batch.of(changed("a", "b").changes))
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == -signal.SIGKILL
    assert kept(path) == ["a", "b"]


def test_s6_only_words_of_ours_are_kept_and_only_for_their_owner(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    mailboxes = changed("a")
    mailboxes.put("p", RetireOrder(actor="x"))
    store = opened(path)
    store.write(Batch.of(mailboxes.changes))
    store.close()
    assert os.stat(path).st_mode & 0o077 == 0
    database = sqlite3.connect(path)
    for table in ("runs", "drivers", "actors", "orders"):
        rows = database.execute(f"select facts from {table}").fetchall()  # noqa: S608 - names of tables
        assert rows
        for (facts,) in rows:
            assert isinstance(json.loads(facts), dict)
    database.close()


@pytest.mark.parametrize("changed_identity", [{"supervisor": "other"}, {"version": "w"}, {"wire_version": "2"}])
def test_s6_the_file_of_another_supervisor_or_version_is_moved_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changed_identity: dict[str, str]
) -> None:
    path = tmp_path / "store.db"
    write(path, "a")
    with caplog.at_level(logging.WARNING):
        assert kept(path, **changed_identity) == []
    assert str(path) in caplog.text
    assert kept(tmp_path / "store.db.aside") == ["a"]
    assert kept(path, **changed_identity) == []


@pytest.mark.parametrize("damage", ["file", "page", "facts", "columns"])
def test_s6_a_damaged_file_is_moved_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str) -> None:
    path = tmp_path / "store.db"
    write(path, *(f"run{number}" for number in range(50)))
    database = sqlite3.connect(path)
    database.execute("pragma wal_checkpoint(truncate)")
    if damage == "facts":
        database.execute("update runs set facts = '{}'")
    elif damage == "columns":
        database.execute("alter table runs drop column facts")
    database.commit()
    database.close()
    if damage == "file":
        path.write_bytes(os.urandom(10_000))
    elif damage == "page":
        whole = path.read_bytes()
        path.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))
    with caplog.at_level(logging.WARNING):
        assert kept(path) == []
    assert "moved aside" in caplog.text
    assert path.with_name("store.db.aside").exists()
    write(path, "b")
    assert kept(path) == ["b"]


def test_s6_a_folder_that_cannot_be_written_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "store.db"
    with pytest.raises(StoreError) as caught:
        opened(path)
    assert isinstance(caught.value, RuntimeUnavailableError)
    assert str(path) in str(caught.value)
    assert "make its folder writable" in str(caught.value)


def test_s6_a_full_disk_is_a_typed_error_and_what_it_kept_off_is_written_later(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = opened(path)
    write_small = changed("first").changes
    store.write(Batch.of(write_small))
    mailboxes = changed(*(f"run{number}" for number in range(500)))
    batch = Batch.of(mailboxes.changes)
    with store._engine.connect() as connection:
        connection.execute(text("pragma max_page_count = 12"))
    with pytest.raises(StoreError, match="full"):
        store.write(batch)
    with store._engine.connect() as connection:
        assert connection.execute(text("select count(*) from runs")).scalar() == 1, "all or nothing"
        connection.execute(text("pragma max_page_count = 100000"))
    store.write(batch)
    store.close()
    assert len(kept(path)) == 501


def test_s6_forgotten_trees_and_drivers_leave_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "KEPT_TREES", 1)
    path = tmp_path / "store.db"
    store = opened(path)
    mailboxes = Mailboxes()
    registry = registry_module.Registry("test", mailboxes)
    for driver_id in ("gone", "here"):
        registry.join(hello(driver_id), 0.0)
        registry.driver(driver_id).leases.offer(f"warm of {driver_id}")
        child = ChildRequest(run_id=f"run of {driver_id}", agent="agent")
        registry.admit(AdmitRequest(driver_id=driver_id, children=(child,)), 0.0)
        store.write(Batch.of(mailboxes.changes.take()))
    registry.leave("gone", 1.0, "its Runtime was closed")
    store.write(Batch.of(mailboxes.changes.take()))
    assert kept(path) == ["run of gone", "run of here"], "an ended tree is remembered"
    registry.leave("here", 2.0, "its Runtime was closed")
    store.write(Batch.of(mailboxes.changes.take()))
    store.close()
    store, saved = Store.open(path, IDENTITY)
    assert [facts.stamp.run_id for facts in saved.runs] == ["run of here"]
    assert [facts.hello.driver_id for facts in saved.drivers] == ["here"]
    assert {driver_id for driver_id, _, _ in saved.actors} == {"here"}
    again = restored("test", Mailboxes(), saved, 3.0)
    assert again.runs(ended=True)[0].driver == "host:1", "its driver is known although it has left"
    assert not again.drivers()
    store.remove()
    assert not list(tmp_path.iterdir())


def test_s6_sqlalchemy_is_only_imported_where_the_store_is(tmp_path: Path) -> None:
    code = "import sys, runtree.actors.run_actor, runtree.actors.runtime; print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
