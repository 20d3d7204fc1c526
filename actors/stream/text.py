"""The visible text of one run, out of the items of its tree."""

from ...messages.items import AttemptDiscarded, ModelDelta, StreamItem


class VisibleText:
    """Takes items and gives the text of one run.

    Text can't be taken back: where a try of the model, or an attempt of the run, is discarded after some of it was shown, a line in brackets
    says so.

    Args:
        run_id: The run.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._shown = -1

    def of(self, item: StreamItem) -> str:
        """Return what an item adds; empty for most."""
        if isinstance(item, ModelDelta) and item.run_id == self._run_id:
            if item.text:
                self._shown = item.seq
            return item.text
        if not isinstance(item, AttemptDiscarded) or item.run_id != self._run_id:
            return ""
        hidden = item.first_seq <= self._shown <= item.last_seq
        if not hidden:
            return ""
        if item.scope == "run":
            # The next attempt counts its items from the start.
            self._shown = -1
            return f"\n[all text above is discarded and the run starts again: {item.reason}]\n"
        return f"\n[the text above is discarded and said again: {item.reason}]\n"
