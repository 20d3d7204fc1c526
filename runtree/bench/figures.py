"""What a measurement found, as a table and as JSON."""

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from ..messages.value import Value
from ..messages.version import VERSION

Tell = Callable[[str], None]
"""Is told what is being measured at the moment."""

Unit = Literal["/s", "s", "ms", "x", ""]


class Figure(Value):
    """One figure."""

    name: str
    """What was measured."""
    value: float
    """How much."""
    unit: Unit = ""
    """Of what."""
    ratio: float | None = None
    """Against the baseline of the same run: above 1 is faster or better."""
    note: str = ""
    """How it came about."""
    kept: bool = True
    """Whether what has to hold did."""


class Measurement(Value):
    """The figures of one measurement, and where they were taken."""

    kind: Literal["measurement"] = "measurement"
    name: str
    """Name of the measurement."""
    settings: dict[str, Any]
    """Its options."""
    figures: tuple[Figure, ...]
    """What was found."""
    version: str = VERSION
    """Version of runtree."""
    python: str = platform.python_version()
    """Version of Python."""
    processors: int = os.cpu_count() or 1
    """Processors of this machine."""
    load: float = 0.0
    """Load average of this machine over the last minute, afterwards."""


_TITLES: Final = ("measurement", "value", "ratio", "")


def measurement(name: str, settings: dict[str, Any], figures: Sequence[Figure]) -> Measurement:
    """Return the figures with where they were taken."""
    return Measurement(name=name, settings=settings, figures=tuple(figures), load=round(os.getloadavg()[0], 1))


def table(found: Measurement) -> list[str]:
    """Return a measurement as lines."""
    rows = [_TITLES, *((each.name, _value(each), _ratio(each), each.note) for each in found.figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"{name:{widths[0]}}  {value:>{widths[1]}}  {ratio:>{widths[2]}}  {note}".rstrip()
        for name, value, ratio, note in rows
    ]
    settings = ", ".join(f"{name} {value}" for name, value in found.settings.items())
    where = f"runtree {found.version}, Python {found.python}, {found.processors} processors, load {found.load:g}"
    return [*lines, "", f"{settings}; {where}"]


def median(values: Sequence[float]) -> float:
    """Return the median, 0 of nothing."""
    return statistics.median(values) if values else 0.0


def _value(figure: Figure) -> str:
    digits = 0 if figure.unit in ("/s", "ms") or figure.value == int(figure.value) else 2
    return f"{figure.value:,.{digits}f}{'' if figure.unit in ('', '/s', 'x') else ' '}{figure.unit}"


def _ratio(figure: Figure) -> str:
    return "" if figure.ratio is None else f"{figure.ratio:,.{2 if figure.ratio < 10 else 0}f} x"
