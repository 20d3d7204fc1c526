"""Tool calls of a chat completions stream: which fragment belongs to which call.

The protocol's own rule (an `index` in every fragment) is kept by few. Fragments come without index, without id, with the same index for
every call, with the name repeated in each, or with the arguments as an object.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pydantic_core

from ...messages.ids import new_call_id
from ...messages.model import ToolCallDelta
from ..fold import parse_arguments
from ..shapes import as_object, as_objects, is_array


class _Call:
    __slots__ = ("announced", "extras", "id", "name", "pieces")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.announced = False
        self.extras: dict[str, Any] | None = None

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    @property
    def is_whole(self) -> bool:
        text = self.arguments.strip()
        return text.endswith("}") and parse_arguments(text) is not None


class CallAssembler:
    """Puts fragments together and tells them as deltas.

    A call is told as soon as its name and id are known, and at the end with an id of our own if the server sent none.

    Args:
        kept_fields: Fields of a call that the server wants to get back.
    """

    def __init__(self, kept_fields: Sequence[str] = ("extra_content",)) -> None:
        self._kept = kept_fields
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    def feed(self, fragments: Any) -> Iterator[ToolCallDelta]:
        """Take the `tool_calls` of one delta."""
        touched: list[_Call] = []
        for fragment in as_objects(fragments if is_array(fragments) else [fragments]):
            yield from self._take(fragment, touched)

    def go_on(self, fragments: Any) -> ToolCallDelta | None:
        """Take the `tool_calls` of a delta that has more arguments of a known call and nothing else; `None`: it has to be fed."""
        try:
            (fragment,) = fragments
            index, function = fragment["index"], fragment["function"]
            call, arguments = self._by_index[index], function["arguments"]
            if len(fragment) > 2 and (fragment.get("id") not in (None, "") or any(map(fragment.get, self._kept))):
                return None
            if len(function) > 1 and function.get("name") not in (None, ""):
                return None
        except (KeyError, TypeError, ValueError):
            return None
        if not call.announced or index.__class__ is not int or arguments.__class__ is not str or not arguments:
            return None
        call.pieces.append(arguments)
        return ToolCallDelta.of(call.id, call.name, arguments)

    def close(self, *, whole_answer: bool) -> Iterator[ToolCallDelta]:
        """Tell the calls that were waiting for an id.

        Args:
            whole_answer: Whether the answer came to its end; if not, calls without an id are dropped like all that is unfinished.
        """
        for call in self._calls:
            if not call.announced and call.name and whole_answer:
                call.id = call.id or new_call_id()
                yield self._announce(call)

    @property
    def nameless(self) -> bool:
        """Whether there is a call whose name never came."""
        return any(not call.name and (call.id or call.arguments.strip()) for call in self._calls)

    @property
    def extras(self) -> dict[str, dict[str, Any]]:
        """What the server wants to get back with a call, by its id."""
        return {call.id: call.extras for call in self._calls if call.announced and call.extras}

    def _take(self, fragment: dict[str, Any], touched: list[_Call]) -> Iterator[ToolCallDelta]:
        function = as_object(fragment.get("function"))
        call_id, name = _word(fragment.get("id")), _word(function.get("name"))
        call_id = "" if call_id == "null" else call_id  # what one server sends where it has none
        arguments = _arguments(function.get("arguments"))
        call = self._find(_index(fragment.get("index")), call_id, name, arguments, touched)
        touched.append(call)
        call.name = call.name or name
        call.id = call.id or self._unused(call_id)
        for field in self._kept:
            if fragment.get(field):
                call.extras = {**(call.extras or {}), field: fragment[field]}
        if arguments:
            call.pieces.append(arguments)
        if not call.announced:
            if call.name and call.id:
                yield self._announce(call)
        elif arguments:
            yield ToolCallDelta.of(call.id, call.name, arguments)

    def _announce(self, call: _Call) -> ToolCallDelta:
        call.announced = True
        return ToolCallDelta(call_id=call.id, tool_name=call.name, arguments=call.arguments)

    def _find(self, index: int | None, call_id: str, name: str, arguments: str, touched: list[_Call]) -> _Call:
        known = next((call for call in self._calls if call_id and call.id == call_id), None)
        if index is not None:
            call = self._by_index.get(index)
            if call is None:
                call = known
            elif call_id and call.id and call.id != call_id:
                call = known or self._new()
        else:
            call = known
            if call is None and self._calls and not (call_id and self._calls[-1].id):
                call = self._calls[-1]
        if call is None or self._begins_another(call, call_id, name, arguments, index, touched):
            call = self._new()
        if index is not None:
            self._by_index[index] = call
        return call

    def _begins_another(
        self, call: _Call, call_id: str, name: str, arguments: str, index: int | None, touched: list[_Call]
    ) -> bool:
        """Whether a fragment that seems to go on with a call is a new one in truth: it has a name, and the call is finished."""
        if not (name and call.name):
            return False
        if index is None and not call_id and call in touched:
            return True
        if index is not None and self._by_index.get(index) is call and call_id:
            return False
        return bool(arguments.strip()) and call.is_whole

    def _new(self) -> _Call:
        call = _Call()
        self._calls.append(call)
        return call

    def _unused(self, call_id: str) -> str:
        """Return the id, or one of our own where another call has it already."""
        return new_call_id() if call_id and any(call.id == call_id for call in self._calls) else call_id


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value) if type(value) is int else ""


def _index(value: Any) -> int | None:
    if type(value) is int:
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else None


def _arguments(value: Any) -> str:
    if isinstance(value, str):
        return value
    return pydantic_core.to_json(value).decode() if isinstance(value, dict | list) else ""
