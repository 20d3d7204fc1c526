"""All items of one answer: which event belongs to which, and the message they make."""

from collections.abc import Iterator
from typing import Any, TypeVar, cast

from ...messages.content import ContentBlock, ThinkingBlock
from ...messages.model import ModelEvent
from ..shapes import as_objects
from .items import CallItem, Item, MessageItem, ReasoningItem, item_class

AnItem = TypeVar("AnItem", bound=Item)


class Answer:
    """Keeps the items by their place in the answer: their ids are changed by some servers from one event to the next."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._by_index: dict[int, Item] = {}
        self._thoughts = 0
        self._call_ids: set[str] = set()

    @property
    def refuses(self) -> bool:
        """Whether a part of the answer is a refusal."""
        return any(isinstance(item, MessageItem) and item.refuses for item in self._items)

    @property
    def has_calls(self) -> bool:
        """Whether a call is asked for."""
        return any(isinstance(item, CallItem) for item in self._items)

    @property
    def nameless(self) -> bool:
        """Whether there is a call whose name never came."""
        return any(isinstance(item, CallItem) and not item.name for item in self._items)

    def find(self, event: dict[str, Any], wanted: type[AnItem]) -> AnItem:
        """Return the item a piece belongs to; begins one if it was never announced."""
        index = _index(event)
        item = self._by_index.get(index) if index is not None else self._with_id(event.get("item_id"))
        if isinstance(item, wanted):
            return item
        if item is not None or index is None:
            fitting = (each for each in reversed(self._items) if isinstance(each, wanted) and not each.done)
            found = next(fitting, None)
            if found is not None:
                return found
        return cast(AnItem, self._make(wanted, index))

    def open(self, event: dict[str, Any], served: dict[str, Any]) -> list[ModelEvent]:
        """Take an item that is announced."""
        index, kind = _index(event), item_class(served)
        item = self._by_index.get(index) if index is not None else None
        if item is None or item.done or item.__class__ is not kind or not item.is_same(served):
            item = self._make(kind, index)
        return item.open(served)

    def close(self, event: dict[str, Any], served: dict[str, Any]) -> list[ModelEvent]:
        """Take a whole item."""
        index, kind = _index(event), item_class(served)
        item = self._unfinished(index, kind, served)
        if item is None:
            known = self._by_index.get(index) if index is not None else self._with_id(served.get("id"))
            if known is not None and known.served.get("id") == served.get("id") and known.__class__ is kind:
                return []
            item = self._make(kind, index)
        return item.close(served)

    def close_rest(self, output: Any) -> list[ModelEvent]:
        """Take the items as the last event repeats them: only those count that were not whole before."""
        served = as_objects(output)
        events: list[ModelEvent] = []
        missing = len(served) - len(self._items)
        for index, each in enumerate(served):
            item = self._unfinished(index, item_class(each), each)
            if item is None and missing > 0 and index not in self._by_index and not self._with_id(each.get("id")):
                missing -= 1
                item = self._make(item_class(each), index)
            if item is not None:
                events += item.close(each)
        return events

    def blocks(self, provider: str, *, ended: bool) -> Iterator[ContentBlock]:
        """Yield the blocks of the message, in the order of the answer.

        Args:
            provider: Family of the provider.
            ended: Whether the answer came to its end.
        """
        items = self._items
        if all(item.index is not None for item in items):
            items = sorted(items, key=lambda item: item.index or 0)
        after = 0
        for item in items:
            for block in item.blocks(provider, after, ended=ended):
                after += isinstance(block, ThinkingBlock)
                yield block

    def _unfinished(self, index: int | None, kind: type[Item], served: dict[str, Any]) -> Item | None:
        """Return the item that may be meant and is not whole yet: by its place, else by an id, else the last of its kind."""
        still_open = [each for each in self._items if not each.done and each.__class__ is kind and each.is_same(served)]
        at_place = self._by_index.get(index) if index is not None else None
        if at_place in still_open:
            return at_place
        for field in ("id", "call_id"):
            named = served.get(field)
            found = next((each for each in still_open if named and each.served.get(field) == named), None)
            if found is not None:
                return found
        return still_open[-1] if index is None and still_open else None

    def _with_id(self, item_id: Any) -> Item | None:
        return next((item for item in self._items if item_id and item.served.get("id") == item_id), None)

    def _make(self, kind: type[Item], index: int | None) -> Item:
        if issubclass(kind, ReasoningItem):
            item: Item = kind(index, self._thoughts)
            self._thoughts += 1
        elif issubclass(kind, CallItem):
            item = kind(index, self._call_ids)
        else:
            item = kind(index)
        self._items.append(item)
        if index is not None:
            self._by_index[index] = item
        return item


def _index(event: dict[str, Any]) -> int | None:
    index = event.get("output_index")
    return index if type(index) is int else None
