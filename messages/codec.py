"""The batch codec: items of one run as a frame that queues can count, bound and thin out without decoding it.

A frame is `header length (4 bytes, big endian) | header (JSON) | body`. The header holds the stamp, the range of sequence numbers and a
mark for every item that is not a delta; the body has one JSON object a line, without the stamp. JSON never contains a raw line feed, so
lines can be cut out without parsing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from pydantic_core import from_json, to_json

from .items import DELTA_KINDS, ITEM_TYPES, TERMINAL_KINDS, Item, ItemsDropped, Stamp, StreamItem, UnknownItem

MAX_LINE_BYTES: Final = 1024 * 1024
"""Size of an item beyond which its line only refers to it; what it says is kept outside of the bounded buffers."""

_REFERENCE: Final = b'"ref":'
_REFERENCE_FIELDS: Final = {"kind", "seq", "time", "ref", "size"}

_STAMP_FIELDS = frozenset(Stamp.model_fields)
_LENGTH_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a non-delta stands in a frame, and what a queue must know of it."""

    index: int
    """Line in the body."""
    kind: str
    """Kind of the item."""
    call_id: str | None = None
    """For tool call items."""
    first_seq: int | None = None
    """For `items_dropped`: first missing number; the last one is the line's own number."""
    tool_name: str | None = None
    """For tool call items."""


def encode_item(item: Item) -> tuple[bytes, Mark | None]:
    """Return an item's line (index 0 in its mark; the frame sets it) and its mark, `None` for a delta."""
    line = item.__pydantic_serializer__.to_json(item, exclude=set(_STAMP_FIELDS))
    kind: str = getattr(item, "kind", "")
    if kind in DELTA_KINDS:
        return line, None
    first_seq = item.first_seq if isinstance(item, ItemsDropped) else None
    return line, Mark(0, kind, getattr(item, "call_id", None), first_seq, getattr(item, "tool_name", None))


def encode_delta(kind: str, seq: int, time: float, fields: dict[str, Any]) -> bytes:
    """Return the line of a delta without building the item: the hot path of every token.

    The caller guarantees the fields' names and types; the line is the one `encode_item` would give, but for left-out defaults.
    """
    return to_json({"kind": kind, "seq": seq, "time": time, **fields})


class _Row(NamedTuple):
    line: bytes
    mark: Mark | None
    seq: int


def reference_line(line: bytes, reference: str) -> bytes:
    """Return the line that stands for a large one and names the place where that is kept."""
    row = from_json(line)
    return to_json({"kind": row["kind"], "seq": row["seq"], "time": row["time"], "ref": reference, "size": len(line)})


@dataclass(frozen=True, slots=True)
class Frame:
    """A parsed header beside its undecoded body."""

    stamp: Stamp
    """Who speaks."""
    first_seq: int
    """Number of the first item, or of the first one that was dropped in its place."""
    last_seq: int
    """Number of the last item."""
    count: int
    """Lines in the body."""
    marks: tuple[Mark, ...]
    """One for every non-delta, in order."""
    body: bytes
    """One JSON object a line."""

    @classmethod
    def of(cls, stamp: Stamp, first_seq: int, last_seq: int, lines: Sequence[bytes], marks: Sequence[Mark]) -> "Frame":
        """Make a frame of encoded lines."""
        return cls(stamp, first_seq, last_seq, len(lines), tuple(marks), b"\n".join(lines))

    @classmethod
    def of_items(cls, items: Sequence[Item]) -> "Frame":
        """Make a frame of items that share one stamp."""
        first = items[0]
        stamp = Stamp(**{name: getattr(first, name) for name in _STAMP_FIELDS})
        lines: list[bytes] = []
        marks: list[Mark] = []
        for index, item in enumerate(items):
            line, mark = encode_item(item)
            lines.append(line)
            if mark is not None:
                marks.append(Mark(index, mark.kind, mark.call_id, mark.first_seq, mark.tool_name))
        start = first.first_seq if isinstance(first, ItemsDropped) else first.seq
        return cls.of(stamp, start, items[-1].seq, lines, marks)

    @property
    def deltas(self) -> int:
        """Number of items that may be dropped."""
        return self.count - len(self.marks)

    def to_bytes(self) -> bytes:
        """Return the frame as it travels."""
        stamp = self.stamp
        header = to_json(
            {
                "run": [stamp.run_id, stamp.parent_run_id, stamp.root_run_id, stamp.depth, stamp.attempt],
                "seq": [self.first_seq, self.last_seq, self.count],
                "marks": [[m.index, m.kind, m.call_id, m.first_seq, m.tool_name] for m in self.marks],
            }
        )
        return len(header).to_bytes(_LENGTH_BYTES, "big") + header + self.body

    @classmethod
    def from_bytes(cls, data: bytes) -> "Frame":
        """Read the header of a frame; the body is kept as it is.

        Raises:
            ValueError: The bytes are not a frame.
        """
        end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")
        try:
            header = from_json(data[_LENGTH_BYTES:end])
            run_id, parent, root, depth, attempt = header["run"]
            first, last, count = header["seq"]
            marks = tuple(Mark(*mark) for mark in header["marks"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a frame of stream items: {error}") from error
        stamp = Stamp(run_id=run_id, parent_run_id=parent, root_run_id=root, depth=depth, attempt=attempt)
        return cls(stamp, first, last, count, marks, data[end:])

    def line(self, index: int) -> bytes:
        """Return a line of the body."""
        return self.body.split(b"\n")[index]

    def references(self) -> tuple[str, ...]:
        """Return where the large items of the frame are kept."""
        if _REFERENCE not in self.body:
            return ()
        return tuple(row["ref"] for row in self._decoded() if row.keys() == _REFERENCE_FIELDS)

    def items(self, large: Mapping[str, bytes] = MappingProxyType({})) -> list[StreamItem]:
        """Decode the items.

        Args:
            large: The lines of large items, by reference; one that is missing is decoded as `items_dropped`.

        Raises:
            ValueError: A line is not a valid item.
        """
        stamp = dict(self.stamp)
        decoded: list[StreamItem] = []
        has_references = _REFERENCE in self.body
        for row in self._decoded():
            if has_references and row.keys() == _REFERENCE_FIELDS:
                row = _resolved(row, large)
            row.update(stamp)
            item: Any = ITEM_TYPES.get(row["kind"], UnknownItem).__pydantic_validator__.validate_python(row)
            decoded.append(item)
        return decoded

    def _decoded(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = from_json(b"[" + self.body.replace(b"\n", b",") + b"]")
        return rows

    def without_deltas(self, time: float = 0.0) -> "Frame":
        """Return the frame with every stretch of deltas replaced by one `items_dropped` line."""
        if not self.deltas:
            return self
        lines: list[bytes] = []
        marks: list[Mark] = []
        dropped_from: int | None = None
        dropped = 0
        seq = self.first_seq - 1

        def close_gap(last: int) -> None:
            nonlocal dropped_from, dropped
            if dropped_from is not None:
                fields = {"count": dropped, "first_seq": dropped_from, "last_seq": last}
                marks.append(Mark(len(lines), "items_dropped", None, dropped_from))
                lines.append(encode_delta("items_dropped", last, time, fields))
                dropped_from, dropped = None, 0

        for line, mark, line_seq in self._rows():
            if mark is None or mark.kind == "items_dropped":
                first = line_seq if mark is None or mark.first_seq is None else mark.first_seq
                dropped_from = first if dropped_from is None else dropped_from
                dropped += line_seq - first + 1
            else:
                close_gap(seq)
                marks.append(Mark(len(lines), mark.kind, mark.call_id, None, mark.tool_name))
                lines.append(line)
            seq = line_seq
        close_gap(seq)
        return Frame.of(self.stamp, self.first_seq, self.last_seq, lines, marks)

    @property
    def is_gap(self) -> bool:
        """Whether the frame is nothing but one `items_dropped` line."""
        return self.count == 1 and len(self.marks) == 1 and self.marks[0].kind == "items_dropped"

    def joined_gap(self, later: "Frame", time: float = 0.0) -> "Frame":
        """Return one gap for two that follow each other in the same attempt of a run."""
        count = later.last_seq - self.first_seq + 1
        fields = {"count": count, "first_seq": self.first_seq, "last_seq": later.last_seq}
        line = encode_delta("items_dropped", later.last_seq, time, fields)
        return Frame.of(
            self.stamp, self.first_seq, later.last_seq, [line], [Mark(0, "items_dropped", None, self.first_seq)]
        )

    def after(self, seq: int) -> "Frame":
        """Return the part of the frame behind a number: what is new of a batch that was sent twice.

        The second sending may have been thinned: a gap that began at or before the number is narrowed.
        """
        rows = [row for row in self._rows() if row.seq > seq]
        first = rows[0]
        if first.mark is not None and first.mark.first_seq is not None and first.mark.first_seq <= seq:
            fields = {"count": first.seq - seq, "first_seq": seq + 1, "last_seq": first.seq}
            line = encode_delta("items_dropped", first.seq, from_json(first.line)["time"], fields)
            rows[0] = _Row(line, Mark(0, "items_dropped", None, seq + 1), first.seq)
        return self._of_rows(rows, seq + 1)

    def end_at(self, seq: int) -> "Frame | None":
        """Return the end of an attempt under another number: whoever wrote it did not know how far the run had come.

        `None` if the frame has no such end: no terminal item, and nothing that discards the attempt.
        """
        mark = self.marks[-1] if self.marks else None
        if mark is None or mark.kind not in TERMINAL_KINDS | {"attempt_discarded"}:
            return None
        row = from_json(self.line(mark.index))
        if mark.kind == "attempt_discarded":
            if row["scope"] != "run":
                return None
            row["last_seq"] = seq - 1
        return Frame.of(self.stamp, seq, seq, [to_json({**row, "seq": seq})], [Mark(0, mark.kind)])

    def cut(self, max_items: int, max_bytes: int) -> "tuple[Frame, Frame | None]":
        """Return the front of the frame that keeps to the bounds, one line at least, and the rest of it."""
        rows = list(self._rows())
        count = 0
        for row in rows[: max(1, max_items)]:
            max_bytes -= len(row.line) + 1
            if count and max_bytes < 0:
                break
            count += 1
        if count == len(rows):
            return self, None
        return self._of_rows(rows[:count], self.first_seq), self._of_rows(rows[count:], rows[count - 1].seq + 1)

    def _of_rows(self, rows: "Sequence[_Row]", first_seq: int) -> "Frame":
        marks = [
            Mark(index, row.mark.kind, row.mark.call_id, row.mark.first_seq, row.mark.tool_name)
            for index, row in enumerate(rows)
            if row.mark is not None
        ]
        return Frame.of(self.stamp, first_seq, rows[-1].seq, [row.line for row in rows], marks)

    def _rows(self) -> "Iterator[_Row]":
        """Yield each line with its mark and its number."""
        marks = {mark.index: mark for mark in self.marks}
        # Numbers are dense but for `items_dropped` lines, which span a range; the line's own number is the last of it and is only
        # written in the line. It follows from the numbers after it, so the walk goes from the back.
        numbers = [0] * self.count
        number = self.last_seq
        for index in range(self.count - 1, -1, -1):
            numbers[index] = number
            mark = marks.get(index)
            number = (mark.first_seq if mark is not None and mark.first_seq is not None else number) - 1
        for index, line in enumerate(self.body.split(b"\n")):
            yield _Row(line, marks.get(index), numbers[index])


def _resolved(row: dict[str, Any], large: Mapping[str, bytes]) -> dict[str, Any]:
    line = large.get(row["ref"])
    if line is not None:
        whole: dict[str, Any] = from_json(line)
        return {**whole, "seq": row["seq"]}
    seq = row["seq"]
    if row["kind"] == "run_completed":
        # The end itself always arrives; what made it large is gone.
        unknown = {"precision": "unknown"}
        accounts = dict.fromkeys(("usage", "cost", "total_usage", "total_cost"), unknown)
        return {"kind": "run_completed", "seq": seq, "time": row["time"], "output": None, **accounts}
    gap = {"count": 1, "first_seq": seq, "last_seq": seq, "lost": True}
    return {"kind": "items_dropped", "seq": seq, "time": row["time"], **gap}
