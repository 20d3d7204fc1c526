"""Characters that a server cut in two: one half of an escaped pair at the end of a text, the other at the beginning of the next.

A JSON reader takes neither.
"""

import json
from typing import Any

from .shapes import is_array, is_object

_Place = tuple[str | int, ...]


class Halves:
    """Reads the payloads of one answer that a JSON reader does not take.

    A half at the end of a text waits for the text that stands in the same place of the next such payload; a half that stays alone is
    left out. Bytes that are no UTF-8 and halves inside of a text are replaced.
    """

    def __init__(self) -> None:
        self._waiting: dict[_Place, str] = {}

    def read(self, data: bytes) -> Any:
        """Return the JSON value, `None` if it is none."""
        try:
            return self._mended(json.loads(data.decode("utf-8", "replace")), ())
        except (ValueError, RecursionError):
            return None

    def _mended(self, value: Any, place: _Place) -> Any:
        if isinstance(value, str):
            return self._joined(value, place)
        if is_array(value):
            return [self._mended(item, (*place, at)) for at, item in enumerate(value)]
        if is_object(value):
            return {_whole(name): self._mended(item, (*place, name)) for name, item in value.items()}
        return value

    def _joined(self, text: str, place: _Place) -> str:
        if not text:
            return text
        first = self._waiting.pop(place, "")
        if "\udc00" <= text[0] <= "\udfff":
            text = first + text
        if "\ud800" <= text[-1] <= "\udbff":
            self._waiting[place], text = text[-1], text[:-1]
        return _whole(text)


def _whole(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
