"""The models of the demonstration. Plans are fixed, since the smallest models can't be trusted with them; the words are the model's."""

import re
from collections.abc import AsyncIterator
from typing import Final

from pydantic import BaseModel

from ..messages.content import TextBlock
from ..messages.failure import Failure
from ..messages.model import Failed, ModelEvent, ModelRequest, UsageDelta
from ..messages.transcript import AssistantMessage, ToolMessage, UserMessage
from ..messages.usage import NO_USAGE
from ..providers.profile import ModelProfile
from ..providers.protocol import Model, NeedsSecrets
from ..providers.scripted import Part, ScriptedModel, tool_call
from .folder import names_in

SUMMARIZER: Final = "summarizer"
# Put after the text and asked for one sentence, a small model comes to an end by itself.
_ASK: Final = "\n\nWhat is this text about? Answer in one sentence."
_NOTHING_BOUGHT: Final = UsageDelta(usage=NO_USAGE)


class Document(BaseModel):
    """What a summarizer is asked for."""

    name: str
    """Name of the file."""


class ReadThenSummarize:
    """Calls `read_file` in its first turn, by plan; in the second, another model says what the file is about."""

    def __init__(self, words: Model) -> None:
        self._words = words

    @property
    def profile(self) -> ModelProfile:
        """That of the model whose words are heard."""
        return self._words.profile

    @property
    def secret_names(self) -> tuple[str, ...]:
        """Those of the model whose words are heard."""
        return self._words.secret_names if isinstance(self._words, NeedsSecrets) else ()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer the next turn."""
        last = request.messages[-1]
        if isinstance(last, ToolMessage) and last.results[0].outcome != "ok":
            yield Failed(error=Failure(code="tool_error", message=last.results[0].text), usage=NO_USAGE)
            return
        answer = self._answer(request)
        try:
            async for event in answer:
                yield event
        finally:
            # A call that is cancelled gives its connection back now and not when the iterator is collected.
            if (close := getattr(answer, "aclose", None)) is not None:
                await close()

    def _answer(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            question = (UserMessage.of(_question(last.results[0].text)),)
            return self._words.stream(request.model_copy(update={"messages": question, "tools": ()}))
        document = Document.model_validate_json(_text_of(last))
        return ScriptedModel([[tool_call("read_file", {"name": document.name}), _NOTHING_BOUGHT]]).stream(request)


def make_plan() -> ScriptedModel:
    """Return the lead's model: one summarizer for each file, then all summaries under one another."""
    return ScriptedModel([_fan_out, _join], model="plan")


def make_extract() -> ScriptedModel:
    """Return a stand-in for a language model, which takes the first sentence and says so."""
    return ScriptedModel([_first_sentence], model="scripted", loop=True)


def _fan_out(request: ModelRequest) -> list[Part]:
    names = names_in(_text_of(request.messages[-1]))
    return [*(tool_call(SUMMARIZER, {"name": name}) for name in names), _NOTHING_BOUGHT]


def _join(request: ModelRequest) -> list[Part]:
    asked, answered = request.messages[-2:]
    assert isinstance(asked, AssistantMessage)
    assert isinstance(answered, ToolMessage)
    parts: list[Part] = []
    for call, result in zip(asked.tool_calls, answered.results, strict=True):
        name = (call.arguments or {}).get("name")
        said = result.text.strip() if result.outcome == "ok" else f"(no summary, {result.outcome}: {result.text})"
        parts.append(f"{name}: {' '.join(said.split())}\n\n")
    return [*parts, _NOTHING_BOUGHT]


def _first_sentence(request: ModelRequest) -> list[Part]:
    document = _text_of(request.messages[-1]).removesuffix(_ASK)
    body = re.sub(r"^#.*$", "", document, flags=re.MULTILINE).strip()
    sentence = re.split(r"(?<=[.!?])\s", body, maxsplit=1)[0]
    return [f"[scripted, first sentence] {sentence}", _NOTHING_BOUGHT]


def _question(document: str) -> str:
    return document.strip() + _ASK


def _text_of(message: object) -> str:
    blocks = message.content if isinstance(message, UserMessage) else ()
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))
