"""What holds for the whole stream of every tree that has ended, whatever happened to it."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from runtree.messages.items import TERMINAL_KINDS
from runtree.messages.result import RunResult

_CALL_KINDS = ("tool_call_args_delta", "tool_progress", "tool_call_completed")


def check_stream(items: Sequence[Any]) -> None:
    """Asserts the rules D1 to D4 for the items of one tree, in the order in which a driver got them.

    Where a tree lost a queue, gaps say so (`lost`), and excuse what a run may have said in them; without such gaps nothing is excused.

    Raises:
        AssertionError: A rule is broken; the text says which, and where.
    """
    assert items, "the stream is empty"
    root = items[-1].root_run_id
    assert items[-1].run_id == root, "the last item is not the root's"
    assert items[-1].kind in TERMINAL_KINDS, f"the last item is a {items[-1].kind}"
    runs: dict[str, list[tuple[int, Any]]] = defaultdict(list)
    for place, item in enumerate(items):
        assert item.root_run_id == root, f"an item of another tree: {item}"
        runs[item.run_id].append((place, item))
    for run_id, placed in runs.items():
        own = [item for _, item in placed]
        _check_numbers(own)
        _check_end(own)
        for attempt in attempts_of(items, run_id):
            _check_calls([item for item in own if item.attempt == attempt])
        _check_attempts(own)
        _check_lineage(own[0], runs, run_id)
    _check_causality(items, runs)


def check_ledger(items: Sequence[Any], result: RunResult) -> None:
    """Asserts that result and ledger tell the same ends as the stream, and that all have ended."""
    ends = ends_of(items)
    assert ends[result.run_id].kind == f"run_{result.status}"
    records = {record.run_id: record for record in result.runs}
    assert set(ends) <= set(records)
    for run_id, record in records.items():
        assert record.ended is not None
        assert run_id not in ends or ends[run_id].kind == f"run_{record.status}", f"{record} ended as {ends[run_id]}"


def attempts_of(items: Sequence[Any], run_id: str) -> list[int]:
    """Returns the attempts of a run that have said anything, in their order."""
    return list(dict.fromkeys(item.attempt for item in items if item.run_id == run_id))


def dropped(items: Sequence[Any], run_id: str | None = None) -> int:
    """Returns how many items were dropped, of one run or of all."""
    return sum(item.count for item in items if item.kind == "items_dropped" and run_id in (None, item.run_id))


def lost(items: Sequence[Any]) -> int:
    """Returns how many items went with a queue, at least."""
    return sum(item.count for item in items if _is_lost(item))


def text_of(items: Sequence[Any], run_id: str) -> str:
    """Returns the visible text of a run, as far as it arrived."""
    return "".join(item.text for item in items if item.kind == "model_delta" and item.run_id == run_id)


def kinds_of(items: Sequence[Any], run_id: str) -> list[str]:
    """Returns the kinds of a run's items."""
    return [item.kind for item in items if item.run_id == run_id]


def ends_of(items: Sequence[Any]) -> dict[str, Any]:
    """Returns the terminal item of every run."""
    return {item.run_id: item for item in items if item.kind in TERMINAL_KINDS}


def runs_of(items: Sequence[Any], agent: str) -> list[str]:
    """Returns the ids of the runs of an agent, in the order in which they began."""
    return [item.run_id for item in items if item.kind == "run_started" and item.agent == agent]


def _is_lost(item: Any) -> bool:
    return item.kind == "items_dropped" and bool(item.lost)


def _has_lost(placed: Sequence[tuple[int, Any]]) -> bool:
    return any(_is_lost(item) for _, item in placed)


def _check_numbers(own: Sequence[Any]) -> None:
    following: dict[int, int] = defaultdict(int)
    for item in own:
        expected = following[item.attempt]
        if item.kind == "items_dropped":
            assert item.first_seq == expected, f"a gap that starts at {item.first_seq} stands at {expected}: {item}"
            assert item.count == item.last_seq - item.first_seq + 1, f"a gap that counts wrong: {item}"
            assert item.seq == item.last_seq, f"a gap with a wrong number: {item}"
        else:
            assert item.seq == expected, f"number {item.seq} stands where {expected} was due: {item}"
        following[item.attempt] = item.seq + 1
    assert list(following) == sorted(following), "an older attempt spoke after a newer one"


def _check_end(own: Sequence[Any]) -> None:
    ends = [item for item in own if item.kind in TERMINAL_KINDS]
    assert len(ends) == 1, f"{len(ends)} terminal items of run {own[0].run_id}"
    assert own[-1] is ends[0], f"run {own[0].run_id} spoke after its end: {own[-1]}"
    for attempt in attempts_of(own, own[0].run_id):
        said = [item for item in own if item.attempt == attempt]
        # An attempt whose process died before it could speak has nothing but its end.
        begun = said[0].kind == "run_started" or said[0] is said[-1] or _is_lost(said[0])
        assert begun, f"an attempt begins with {said[0]}"


def _check_attempts(own: Sequence[Any]) -> None:
    """S7: every attempt but the last is discarded, whole, by its own last item, and the next one follows it."""
    attempts = attempts_of(own, own[0].run_id)
    assert attempts == list(range(1, attempts[-1] + 1)), f"attempts of run {own[0].run_id}: {attempts}"
    for attempt in attempts:
        said = [item for item in own if item.attempt == attempt]
        discards = [item for item in said if item.kind == "attempt_discarded" and item.scope == "run"]
        if attempt == attempts[-1]:
            assert not discards, f"a discarded attempt without another: {discards[0]}"
            continue
        assert discards == said[-1:], f"attempt {attempt} was not discarded by its last item: {said[-1]}"
        last = discards[0]
        assert (last.discarded_attempt, last.first_seq, last.last_seq) == (attempt, 0, last.seq - 1), last
        assert last.reason, f"no reason: {last}"


def _check_calls(own: Sequence[Any]) -> None:
    names: dict[str, str] = {}
    completed: set[str] = set()
    excused: set[str] = set()
    holed = False
    for item in own:
        if _is_lost(item):
            holed = True
            excused |= set(names) - completed
        elif item.kind == "tool_call_started":
            assert item.call_id not in names, f"a call was started twice: {item}"
            names[item.call_id] = item.tool_name
        elif item.kind in _CALL_KINDS:
            if holed:
                names.setdefault(item.call_id, item.tool_name)
            assert names.get(item.call_id) == item.tool_name, f"an item of a call that was not started: {item}"
            assert item.call_id not in completed, f"an item of a call that was completed: {item}"
            if item.kind == "tool_call_completed":
                completed.add(item.call_id)
    assert set(names) <= completed | excused, f"calls without completion: {sorted(set(names) - completed - excused)}"


def _check_lineage(first: Any, runs: dict[str, list[tuple[int, Any]]], run_id: str) -> None:
    for _, item in runs[run_id]:
        same = (item.parent_run_id, item.depth) == (first.parent_run_id, first.depth)
        assert same, f"a run that changed its place in the tree: {item}"
    if run_id == first.root_run_id:
        assert first.parent_run_id is None, "the root has a parent"
        assert first.depth == 0, "the root is not at depth 0"
        return
    assert first.parent_run_id in runs, f"a run whose parent is not in the stream: {first}"
    place, parent = runs[first.parent_run_id][0]
    assert first.depth == parent.depth + 1, f"a run at a wrong depth: {first}"
    assert place < runs[run_id][0][0], f"a run that spoke before its parent: {first}"


def _check_causality(items: Sequence[Any], runs: dict[str, list[tuple[int, Any]]]) -> None:
    completions = {
        (item.run_id, item.attempt, item.call_id): at
        for at, item in enumerate(items)
        if item.kind == "tool_call_completed"
    }
    for run_id, placed in runs.items():
        (first_place, first), (last_place, last) = placed[0], placed[-1]
        parent = first.parent_run_id
        if parent is None:
            continue
        # A child belongs to the attempt of its parent that speaks when it begins, and is silent when that attempt is over.
        attempt = next(item.attempt for at, item in reversed(runs[parent]) if at < first_place)
        over = max(at for at, item in runs[parent] if item.attempt == attempt)
        assert last_place < over, f"attempt {attempt} of a parent was over before its child {run_id} was"
        call_id = getattr(first, "call_id", None)
        if call_id is not None:
            at = completions.get((parent, attempt, call_id), len(items) if _has_lost(runs[parent]) else -1)
            assert last_place < at, f"the call of a child was completed before its end: {last}"
    for at, item in enumerate(items):
        if item.kind == "tool_call_completed" and item.child_run_id in runs:
            assert runs[item.child_run_id][-1][0] < at, f"a completion before the end of its child: {item}"
