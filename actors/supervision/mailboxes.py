"""Orders for processes, kept until the process has acknowledged them by its next poll."""

from collections import deque

from ...messages.control import Order, PollReply


class Mailboxes:
    """One numbered list of orders for each process that polls."""

    def __init__(self) -> None:
        self._orders: dict[str, deque[tuple[int, Order]]] = {}
        self._versions: dict[str, int] = {}

    def put(self, process: str, order: Order) -> None:
        """Add an order."""
        version = self._versions.get(process, 0) + 1
        self._versions[process] = version
        self._orders.setdefault(process, deque()).append((version, order))

    def collect(self, process: str, seen: int) -> PollReply:
        """Return what is newer than `seen`, and forget what is not."""
        orders = self._orders.get(process, deque())
        while orders and orders[0][0] <= seen:
            orders.popleft()
        return PollReply(version=max(seen, self._versions.get(process, 0)), orders=tuple(order for _, order in orders))

    def close(self, process: str) -> None:
        """Forget a process that is gone."""
        self._orders.pop(process, None)
        self._versions.pop(process, None)
