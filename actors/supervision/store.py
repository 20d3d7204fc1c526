"""The supervisor's store: the facts of the registry in a database, written in one transaction for each batch of changes.

SQLite with a write-ahead log, not synchronised at each commit: a process that is killed loses nothing it has committed. A machine that stops without
warning may lose the last commits, and with it all processes they are about.

The module is imported by the supervisor alone: SQLAlchemy takes longer to import than a run actor to start.
"""

import logging
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection, Engine, Table, bindparam, create_engine, delete, event, select
from sqlalchemy.exc import DatabaseError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from ...messages.control import Order
from ...messages.errors import StoreError
from .changes import DropOrders, PutOrder
from .facts import ActorFacts, DriverFacts, RunFacts
from .model_limits import WINDOW
from .saved import Batch, CallFacts, Saved
from .schema import ACTORS, CALLS, DRIVERS, META, METADATA, ORDERS, PAUSES, RUNS, upsert

_LOG: Final = logging.getLogger(__name__)
_ORDER: Final[TypeAdapter[Order]] = TypeAdapter(Order)
_ENDINGS: Final = ("", "-wal", "-shm")
"""What SQLite adds to the names of its files."""

_SELECT_ROWS: Final = 1000
_PRAGMAS: Final = ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=5000")

_DROP_ACTOR: Final = delete(ACTORS).where(
    ACTORS.c.driver_id == bindparam("of_driver"), ACTORS.c.name == bindparam("of_name")
)
_DROP_ORDERS: Final = delete(ORDERS).where(
    ORDERS.c.process == bindparam("of_process"), ORDERS.c.number <= bindparam("up_to")
)


class Store:
    """One database file. Used by one thread at a time."""

    def __init__(self, path: Path, engine: Engine) -> None:
        self._path = path
        self._engine = engine
        name = engine.dialect.name
        self._puts = {table: upsert(table, name) for table in (DRIVERS, ACTORS, RUNS, ORDERS, PAUSES, CALLS)}

    @classmethod
    def open(cls, path: Path, identity: dict[str, str]) -> tuple[Self, Saved]:
        """Open a store, or make it; returns it with what it holds.

        A file that is damaged, or was written by another supervisor or version, is moved aside, and a new one is begun: what runs under another
        supervisor does not speak to this one, and the words of another version are not guessed at.

        Args:
            path: The file.
            identity: What tells this supervisor and its version from others.

        Raises:
            StoreError: The file can't be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
        except OSError as error:
            raise _error(path, error) from error
        try:
            return cls._open(path, identity)
        except _ForeignError as error:
            _LOG.warning("%s %s: it is moved aside, and the supervisor starts empty", path, error)
        with _typed(path):
            _move_aside(path)
            return cls._open(path, identity)

    @classmethod
    def _open(cls, path: Path, identity: dict[str, str]) -> tuple[Self, Saved]:
        engine = create_engine(f"sqlite:///{path}", poolclass=StaticPool)
        event.listen(engine, "connect", _prepare)
        try:
            with engine.begin() as connection:
                METADATA.create_all(connection)
                rows: dict[str, str] = {row.name: row.value for row in connection.execute(select(META))}
                if not rows:
                    connection.execute(META.insert(), [{"name": name, "value": identity[name]} for name in identity])
                elif rows != identity:
                    raise _ForeignError(f"belongs to another supervisor ({rows})")
                saved = _load(connection)
        except (DatabaseError, ValidationError) as error:
            engine.dispose()
            if isinstance(error, OperationalError) and not _other_tables(error):
                raise _error(path, error) from error
            raise _ForeignError(f"can't be read ({type(error).__name__}: {_first_line(error)})") from error
        except _ForeignError:
            engine.dispose()
            raise
        return cls(path, engine), saved

    def write(self, batch: Batch) -> None:
        """Write a batch, all of it or nothing.

        Raises:
            StoreError: It could not be written.
        """
        with _typed(self._path), self._engine.begin() as connection:
            self._put(connection, DRIVERS, map(_driver_row, batch.drivers))
            self._put(connection, RUNS, map(_run_row, batch.runs))
            self._put_actors(connection, batch)
            self._put_orders(connection, batch.orders)
            self._put(connection, PAUSES, ({"model": model, "until": until} for model, until in batch.pauses.items()))
            self._put_calls(connection, batch.calls)
            if batch.forgotten_trees:
                connection.execute(delete(RUNS).where(RUNS.c.root_run_id.in_(batch.forgotten_trees)))
            for driver_id in batch.forgotten_drivers:
                connection.execute(delete(DRIVERS).where(DRIVERS.c.driver_id == driver_id))
                connection.execute(delete(ACTORS).where(ACTORS.c.driver_id == driver_id))

    def close(self) -> None:
        """Close the file."""
        self._engine.dispose()

    def remove(self) -> None:
        """Close the file and remove it."""
        self.close()
        for ending in _ENDINGS:
            Path(f"{self._path}{ending}").unlink(missing_ok=True)

    def _put(self, connection: Connection, table: Table, rows: Iterator[dict[str, Any]]) -> None:
        values = list(rows)
        if values:
            connection.execute(self._puts[table], values)

    def _put_actors(self, connection: Connection, batch: Batch) -> None:
        put = (
            {"driver_id": driver_id, "name": name, "idle_since": facts.idle_since, "facts": facts.to_json()}
            for driver_id, name, facts in batch.actors
            if facts is not None
        )
        self._put(connection, ACTORS, put)
        gone = [{"of_driver": driver_id, "of_name": name} for driver_id, name, facts in batch.actors if facts is None]
        if gone:
            connection.execute(_DROP_ACTOR, gone)

    def _put_calls(self, connection: Connection, calls: list[CallFacts]) -> None:
        if calls:
            self._put(connection, CALLS, (call._asdict() for call in calls))
            newest = max(call.begun for call in calls)
            connection.execute(delete(CALLS).where(CALLS.c.begun <= newest - WINDOW))

    def _put_orders(self, connection: Connection, orders: list[PutOrder | DropOrders]) -> None:
        # Numbers only grow: an order that was dropped was put before, so that all can be put first.
        put = (
            {"number": each.number, "process": each.process, "facts": each.order.to_json()}
            for each in orders
            if isinstance(each, PutOrder)
        )
        self._put(connection, ORDERS, put)
        drops = [{"of_process": each.process, "up_to": each.up_to} for each in orders if isinstance(each, DropOrders)]
        if drops:
            connection.execute(_DROP_ORDERS, drops)


class _ForeignError(Exception):
    """The file is not one this supervisor can go on with."""


def _load(connection: Connection) -> Saved:
    drivers = connection.execute(select(DRIVERS.c.facts)).scalars()
    actors = connection.execute(select(ACTORS).order_by(ACTORS.c.idle_since, ACTORS.c.name))
    runs = connection.execute(select(RUNS.c.facts).order_by(RUNS.c.ordinal)).yield_per(_SELECT_ROWS).scalars()
    orders = connection.execute(select(ORDERS).order_by(ORDERS.c.number))
    return Saved(
        drivers=[DriverFacts.from_json(facts) for facts in drivers],
        actors=[(row.driver_id, row.name, ActorFacts.from_json(row.facts)) for row in actors],
        runs=[RunFacts.from_json(facts) for facts in runs],
        orders=[(row.number, row.process, _ORDER.validate_json(row.facts)) for row in orders],
        pauses={row.model: row.until for row in connection.execute(select(PAUSES))},
        calls=[CallFacts(*row) for row in connection.execute(select(CALLS).order_by(CALLS.c.begun))],
    )


def _driver_row(facts: DriverFacts) -> dict[str, Any]:
    return {"driver_id": facts.hello.driver_id, "gone": facts.gone, "facts": facts.to_json()}


def _run_row(facts: RunFacts) -> dict[str, Any]:
    stamp = facts.stamp
    return {
        "run_id": stamp.run_id,
        "ordinal": facts.ordinal,
        "root_run_id": stamp.root_run_id,
        "parent_run_id": stamp.parent_run_id,
        "driver_id": facts.driver_id,
        "status": facts.status,
        "started": facts.started,
        "ended": facts.ended,
        "facts": facts.to_json(),
    }


def _prepare(connection: Any, _record: object) -> None:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _other_tables(error: OperationalError) -> bool:
    """Whether the file has other tables than it should, and the disk is not to blame."""
    return getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR


def _move_aside(path: Path) -> None:
    for ending in _ENDINGS:
        part = Path(f"{path}{ending}")
        if part.exists():
            part.replace(f"{path}.aside{ending}")


@contextmanager
def _typed(path: Path) -> Generator[None]:
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        raise _error(path, error) from error
    except _ForeignError as error:
        raise StoreError(str(path), str(error), "Remove the file") from error


def _error(path: Path, error: Exception) -> StoreError:
    fix = "Free space on its disk or make its folder writable, on the node of the supervisor"
    return StoreError(str(path), _first_line(error), fix)


def _first_line(error: Exception) -> str:
    """Return what the driver said; SQLAlchemy adds the statement and its values, which are no news and long."""
    cause = getattr(error, "orig", None) or error
    return str(cause).partition("\n")[0]
