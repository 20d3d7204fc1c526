"""Orders for processes, kept until the process has acknowledged them by its next poll."""

from collections import deque
from collections.abc import Callable, Iterable

from ...messages.control import Order, PollReply
from .changes import Changes, DropOrders, PutOrder


class Mailboxes:
    """One list of orders for each process that polls.

    Orders are numbered over all processes, so that a process that is forgotten and comes again never takes a new order for one it has seen.
    """

    def __init__(
        self, start: int = 0, on_put: Callable[[str], None] | None = None, changes: Changes | None = None
    ) -> None:
        """Make empty mailboxes.

        Args:
            start: Number before the first order; above all that an earlier supervisor has given.
            on_put: Called with the name of a process for which an order has come.
            changes: Told of every order that comes and goes, and of all else that changes in the registry.
        """
        self.changes = Changes() if changes is None else changes
        self._on_put = on_put
        self._orders: dict[str, deque[tuple[int, Order]]] = {}
        self._number = start

    def __len__(self) -> int:
        return len(self._orders)

    def resume(self, orders: Iterable[tuple[int, str, Order]]) -> None:
        """Take up orders of an earlier supervisor: number, process and order, by number."""
        for number, process, order in orders:
            self._orders.setdefault(process, deque()).append((number, order))
            self._number = max(self._number, number)

    def put(self, process: str, order: Order) -> None:
        """Add an order."""
        self._number += 1
        self._orders.setdefault(process, deque()).append((self._number, order))
        self.changes.orders.append(PutOrder(self._number, process, order))
        if self._on_put is not None:
            self._on_put(process)

    def collect(self, process: str, seen: int) -> PollReply:
        """Return what is newer than `seen`, and forget what is not."""
        orders = self._orders.get(process, deque())
        if orders and orders[0][0] <= seen:
            self.changes.orders.append(DropOrders(process, seen))
        while orders and orders[0][0] <= seen:
            orders.popleft()
        if not orders:
            self._orders.pop(process, None)
            return PollReply(version=seen)
        # They were checked when they came in: ten thousand are told at once when a large tree is cancelled.
        return PollReply.model_construct(version=orders[-1][0], orders=tuple(order for _, order in orders))

    def close(self, process: str) -> None:
        """Forget what a process was to be told."""
        orders = self._orders.pop(process, None)
        if orders:
            self.changes.orders.append(DropOrders(process, orders[-1][0]))
