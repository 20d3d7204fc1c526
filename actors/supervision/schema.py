"""The tables of the store: a few columns to search by, and the facts as JSON. Portable SQL; the journal grows beside them."""

from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, String, Table, Text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import Insert

METADATA: Final = MetaData()

META: Final = Table("meta", METADATA, Column("name", String, primary_key=True), Column("value", String, nullable=False))
"""Whose store it is, and of which version."""

DRIVERS: Final = Table(
    "drivers",
    METADATA,
    Column("driver_id", String, primary_key=True),
    Column("gone", Boolean, nullable=False),
    Column("facts", Text, nullable=False),
)
"""Drivers that are there, or have a run in the table of runs."""

ACTORS: Final = Table(
    "actors",
    METADATA,
    Column("driver_id", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("idle_since", Float),
    Column("facts", Text, nullable=False),
)
"""Actors that wait for a run, or are lent to runs."""

RUNS: Final = Table(
    "runs",
    METADATA,
    Column("run_id", String, primary_key=True),
    Column("ordinal", Integer, nullable=False, index=True),
    Column("root_run_id", String, nullable=False, index=True),
    Column("parent_run_id", String),
    Column("driver_id", String, nullable=False),
    Column("status", String, nullable=False),
    Column("started", Float, nullable=False),
    Column("ended", Float),
    Column("facts", Text, nullable=False),
)
"""Runs, live ones and those of the last ended trees."""

ORDERS: Final = Table(
    "orders",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("process", String, nullable=False),
    Column("facts", Text, nullable=False),
    Index("orders_by_process", "process", "number"),
)
"""Orders that processes have not acknowledged."""


PAUSES: Final = Table(
    "pauses", METADATA, Column("model", String, primary_key=True), Column("until", Float, nullable=False)
)
"""Models that have asked to be left alone."""

CALLS: Final = Table(
    "calls",
    METADATA,
    Column("run_id", String, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("model", String, nullable=False),
    Column("begun", Float, nullable=False, index=True),
    Column("tokens", BigInteger, nullable=False),
)
"""Calls that count for the minute of their model, and those that no longer do until the next one is written."""


def upsert(table: Table, dialect: str) -> Insert:
    """Return the statement that adds rows of a table, and replaces those that are there."""
    insert: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[dialect](table)
    keys = list(table.primary_key.columns)
    changed = {column.name: insert.excluded[column.name] for column in table.columns if not column.primary_key}
    statement: Insert = insert.on_conflict_do_update(index_elements=keys, set_=changed)
    return statement
