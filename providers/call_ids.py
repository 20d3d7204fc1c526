"""Ids of tool calls as the provider that is asked accepts them: another provider may have made them, in another form."""

import hashlib
import re
from collections.abc import Sequence

from pydantic import PositiveInt

from ..messages.content import ToolCallBlock
from ..messages.value import Value

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MADE_LENGTH = 24


class CallIdRule(Value):
    """Which ids a provider accepts."""

    max_length: PositiveInt = 64
    """Longest id."""
    exact: bool = False
    """Whether every id has to be as long as the longest."""
    characters: str = "a-zA-Z0-9_-"
    """What an id may be made of, as the inside of a character class of a regular expression."""

    def fits(self, call_id: str) -> bool:
        """Return whether an id can be sent as it is."""
        size = f"{{{self.max_length}}}" if self.exact else f"{{1,{self.max_length}}}"
        return re.fullmatch(f"[{self.characters}]{size}", call_id) is not None


class CallIds:
    """The ids of one request, given out turn by turn.

    An id that fits is sent as it is. Any other becomes one that depends only on itself and its turn, so that a history is sent in the
    same words every time. Ids of another provider that come again in a later turn, as some count within a turn, are told apart as well.

    Args:
        rule: Which ids are accepted.
        provider: Family of the provider that is asked; its own ids are repeated as it made them.
    """

    def __init__(self, rule: CallIdRule, provider: str) -> None:
        self._rule = rule
        self._provider = provider
        self._used: set[str] = set()
        self._sent: dict[str, str] = {}
        self._turn = 0

    def begin_turn(self, calls: Sequence[ToolCallBlock]) -> None:
        """Take the calls of the next assistant message."""
        self._turn += 1
        for call in calls:
            own = call.provider == self._provider
            call_id = (call.provider_call_id if own else None) or call.call_id
            keep = self._rule.fits(call_id) and (own or call_id not in self._used)
            self._sent[call.call_id] = sent = call_id if keep else self._make(call.call_id)
            self._used.add(sent)

    def sent(self, call_id: str) -> str:
        """Return what is sent for a call of the current turn, in the call and in its result."""
        return self._sent.get(call_id, call_id)

    def _make(self, call_id: str) -> str:
        size = self._rule.max_length if self._rule.exact else min(self._rule.max_length, _MADE_LENGTH)
        number = int.from_bytes(hashlib.blake2b(f"{self._turn}:{call_id}".encode()).digest())
        made = ""
        while len(made) < size:
            number, digit = divmod(number, len(_DIGITS))
            made += _DIGITS[digit]
        return made
