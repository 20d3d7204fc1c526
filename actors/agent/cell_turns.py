"""The turns of an agent with a REPL: fenced code in an answer is a cell, and prose the answer.

It is imported when the first such agent runs: nobody else needs the parser of Markdown and the sandbox.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self

import anyio.lowlevel
from markdown_it import MarkdownIt

from ...messages.errors import LimitExceededError, ReplCancelledError, ReplLimitError, ReplStoppedError
from ...messages.items import Custom
from ...messages.model import ModelResponse
from ...messages.repl import ReplPolicy, ReplResult
from ...messages.transcript import UserMessage
from ...providers.fallback import chain_of
from ...providers.protocol import Model
from ...providers.secrets import redact
from ..repl.session import ReplSession
from .cell_host import RunCells
from .cell_prompts import NUDGE, instructions
from .signature import InvalidArgumentsError
from .state import RunState
from .subagents import SubAgent
from .tool import Tool
from .tool_output import as_text
from .toolbox import Toolbox

_PYTHON: Final = frozenset({"python", "py", "python3", "repl"})
"""Languages of blocks that are cells; blocks without a language are cells where there is no other."""

_MARKDOWN: Final = MarkdownIt("commonmark")


def code_of(text: str) -> str | None:
    """Return the program in an answer: its fenced blocks of Python, one after the other; `None` if there is none."""
    blocks = [
        ((token.info.split() or [""])[0].lower(), token.content)
        for token in _MARKDOWN.parse(text)
        if token.type == "fence" and token.content.strip()
    ]
    found = [code for language, code in blocks if language in _PYTHON] or [
        code for language, code in blocks if not language
    ]
    return "\n".join(found) or None


class CellTurns:
    """What becomes of each answer of the model. An async context manager; its end is the end of the sandbox.

    Args:
        state: The run.
        toolbox: Its tools and sub-agents.
        model: Its model.
        policy: How the REPL is used, and its bounds.
        variables: What the cells find from the start, by name.
    """

    def __init__(
        self, state: RunState, toolbox: Toolbox, model: Model, policy: ReplPolicy, variables: Mapping[str, Any]
    ) -> None:
        self._state = state
        self._toolbox = toolbox
        self._policy = policy
        self._cells = RunCells(state, toolbox, chain_of(model))
        self._session = ReplSession(self._cells, policy=policy, inputs=variables, cancelled=state.flag)
        self._stack = AsyncExitStack()
        self._nudged = self._spent = False
        self.instructions = ""
        """System prompt of the model."""
        self.has_output = False
        self.output: Any = None

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._session)
        targets = [self._toolbox.get(name) for name in self._toolbox.names]
        self.instructions = instructions(
            self._policy,
            self._state.agent.instructions,
            [each for each in targets if isinstance(each, Tool)],
            [each for each in targets if isinstance(each, SubAgent)],
            {name: str(variable) for name, variable in self._session.variables.items()},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def take(self, response: ModelResponse) -> None:
        """Evaluate the program of an answer and tell the model what came of it, or take the answer for the output.

        Raises:
            LimitExceededError: The model goes on writing programs after it was told that no cell is left.
            OutputInvalidError: The last try to give an output of the agent's type failed.
        """
        text = response.message.text
        code = code_of(text)
        if code is not None and response.finish_reason == "length":
            self._say("Your answer was cut at its size limit, and nothing of it was run. Write a shorter program.")
        elif code is not None:
            await self._evaluate(code)
        elif not (self._nudged or self._spent):
            self._nudged = True
            self._say(NUDGE)
        else:
            self._accept(text, as_text=True)

    async def _evaluate(self, code: str) -> None:
        stop: ReplStoppedError | None = None
        try:
            result = await self._session.eval_cell(code)
        except ReplStoppedError as error:
            stop, result = error, error.result
        finally:
            await self._cells.settle()
        if self._cells.fatal is not None:
            raise self._cells.fatal
        if isinstance(stop, ReplCancelledError):
            await anyio.lowlevel.checkpoint()  # where the run is cancelled as well, it ends here
            raise stop
        self._tell_readers(result, stop)
        if isinstance(stop, ReplLimitError) and stop.limit == "cells":
            if self._spent:
                raise LimitExceededError("cells", stop.allowed, "session")
            self._spent = True
            self._say("No cells are left. Write the answer now, as plain text.")
        elif stop is None and result.answered and result.error is None:
            self._accept(result.final_answer, as_text=False)
        else:
            self._say(_shown(result, stop, self._policy.shown_bytes))

    def _accept(self, answer: Any, *, as_text: bool) -> None:
        plan = self._toolbox.plan
        try:
            self.output = plan.accept_text(answer, bare=True) if as_text else plan.accept_value(answer)
        except InvalidArgumentsError as error:
            self._say(f"The answer does not fit: {error}")
        else:
            self.has_output = True

    def _say(self, text: str) -> None:
        self._state.messages.append(UserMessage.of(text))

    def _tell_readers(self, result: ReplResult, stop: ReplStoppedError | None) -> None:
        shown, error = self._policy.shown_bytes, stop or result.error
        data = {
            "session_id": self._session.session_id,
            "cell": self._session.cells,
            "stdout": _cut(redact(result.stdout), shown),
            "value": None if result.value is None else _cut(redact(as_text(result.value)), shown),
            "error": None if error is None else _cut(redact(str(error)), shown),
            "answered": result.answered,
            "elapsed": result.elapsed,
        }
        self._state.emit(Custom, name="repl_cell", data=data)


def _shown(result: ReplResult, stop: ReplStoppedError | None, most: int) -> str:
    """Return what the model is told of a cell."""
    parts = [f"Printed:\n{_cut(result.stdout, most)}"] if result.stdout else []
    if stop is not None:
        parts.append(f"The cell was stopped: {stop}")
        parts.append("Variables are as before." if result.variables_kept else "Variables of earlier cells are lost.")
    elif result.error is not None:
        parts.append(f"Error:\n{_cut(result.error.traceback or str(result.error), most)}")
    elif result.value is not None:
        parts.append(f"Value:\n{_cut(as_text(result.value), most)}")
    if result.variables_changed:
        parts.append(f"Variables set: {', '.join(result.variables_changed)}")
    return "\n\n".join(parts) or "The cell ended and printed nothing."


def _cut(text: str, most: int) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text
    return f"{data[:most].decode('utf-8', 'ignore')}\n… cut: {len(data)} bytes in all"
