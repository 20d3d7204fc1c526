"""Several models as one: the next is asked where one can't answer."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..messages.content import ImageBlock
from ..messages.errors import ConfigurationError, RuntreeError
from ..messages.failure import Failure, FailureCode
from ..messages.model import Discarded, Failed, ModelEvent, ModelRequest
from ..messages.transcript import ToolMessage, UserMessage
from ..messages.usage import NO_USAGE
from .profile import ModelProfile
from .protocol import Model, NeedsSecrets
from .registry import resolve
from .retry import Ask, RetryPolicy, closable, with_retries

_FINAL: frozenset[FailureCode] = frozenset({"agent_error", "cancelled", "limit_exceeded"})
"""Failures that are not the model's: another one would meet the same."""


@dataclass(frozen=True)
class Candidate:
    """A model of a chain, and the way to ask it."""

    profile: ModelProfile
    """What it can do."""
    ask: Ask
    """Asks it."""

    def lacks(self, request: ModelRequest) -> str | None:
        """Return what the request needs and the model has not, as a word for people."""
        if request.tools and not self.profile.tools:
            return "tools"
        if not self.profile.images and _has_images(request):
            return "images"
        if request.output_schema is not None and not self.profile.native_output_schema:
            return "answers in the shape of a schema"
        return None


class FallbackModel:
    """A chain of models: each is asked once, in order, until one answers. A request is retried with a model before the next is asked.

    What a model said before it failed is discarded in the open. A model that lacks what a request needs is skipped, also in the open.

    Args:
        *models: Models or model strings, the preferred one first. One that is named again is left out.
        retry: How a model is retried where the chain is asked directly; in a run the agent's own `Retry` counts.

    Raises:
        ConfigurationError: There is no model.
    """

    def __init__(self, *models: Model | str, retry: RetryPolicy | None = None) -> None:
        if not models:
            raise ConfigurationError("models", "a chain needs a model", "Pass models or model strings, the best first")
        self._named = models
        self._retry = retry or RetryPolicy()

    def __repr__(self) -> str:
        return f"FallbackModel({', '.join(map(repr, self._named))})"

    def __getstate__(self) -> dict[str, Any]:
        # Models that strings stand for are made anew where the chain is used.
        return {name: value for name, value in self.__dict__.items() if name != "models"}

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """The models, resolved and each once; those of a chain in the chain stand in its place.

        Raises:
            UnknownModelError: A string names no model.
            ConfigurationError: The strings lead to nothing but this chain again.
        """
        models = tuple(self._links([]))
        if not models:
            raise ConfigurationError("models", f"{self!r} leads only back to itself", "Name a model that is no chain")
        return models

    def _links(self, seen: list[Model | str]) -> Iterator[Model]:
        for named in self._named:
            # A list, since models need not be hashable. A string that leads back to itself ends here, before it is resolved again.
            if named in seen:
                continue
            seen.append(named)
            model = resolve(named)
            if isinstance(model, FallbackModel):
                yield from model._links(seen)
            else:
                yield model

    @property
    def profile(self) -> ModelProfile:
        """The preferred model's, with what at least one (for answers in the shape of a schema: every) model of the chain can."""
        profiles = [model.profile for model in self.models]
        facts = {
            "tools": any(profile.tools for profile in profiles),
            "images": any(profile.images for profile in profiles),
            "native_output_schema": all(profile.native_output_schema for profile in profiles),
        }
        return profiles[0].model_copy(update=facts)

    @property
    def secret_names(self) -> tuple[str, ...]:
        """Names of the keys to send along."""
        names = [name for model in self.models if isinstance(model, NeedsSecrets) for name in model.secret_names]
        return tuple(dict.fromkeys(names))

    @property
    def key_required(self) -> bool:
        """False: a model without its key fails alone, and the next one is asked."""
        return False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask one model after the other and yield what comes back."""
        candidates = [Candidate(model.profile, self._retried(model)) for model in self.models]
        async with aclosing(fall_back(candidates, request)) as events:
            async for event in events:
                yield event

    def _retried(self, model: Model) -> Ask:
        return lambda request: with_retries(lambda each: _told(model, each), request, self._retry)


def chain_of(model: Model) -> tuple[Model, ...]:
    """Return the models of a chain, or the model itself."""
    return model.models if isinstance(model, FallbackModel) else (model,)


async def fall_back(candidates: Sequence[Candidate], request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    """Ask each candidate once until one answers.

    Every failure but the last is told as `Discarded`, which names the model that is asked next. If the last candidates are skipped, the
    failure is that of the last one that was asked. Another model's name in the request is for
    the first candidate: the next ones, which may be another provider's, are asked as themselves.
    """
    failed: Failed | None = None
    for number, candidate in enumerate(candidates):
        following = candidates[number + 1].profile.model if number + 1 < len(candidates) else None
        if number and request.model is not None:
            request = request.model_copy(update={"model": None})
        lacking = candidate.lacks(request) if len(candidates) > 1 else None
        if lacking is not None:
            skipped = _skipped(candidate, lacking)
            if following is None and failed is None:
                yield Failed(error=skipped, usage=NO_USAGE)
            else:
                yield Discarded(error=skipped, usage=NO_USAGE, model=following)
            continue
        unanswered = False
        async with aclosing(closable(candidate.ask(request))) as events:
            async for event in events:
                if type(event) is Failed and following is not None and event.error.code not in _FINAL:
                    failed, unanswered = event, True
                    break
                yield event
        if failed is None or not unanswered:
            return
        yield Discarded(error=failed.error, usage=failed.usage, model=following)
    if failed is not None:
        # What it said and used was told when it was discarded.
        yield Failed(error=failed.error, usage=NO_USAGE)


def _skipped(candidate: Candidate, lacking: str) -> Failure:
    message = f"model {candidate.profile.model!r} is skipped: it has no {lacking}"
    return Failure(code="invalid_request", message=message)


async def _told(model: Model, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    """Ask a model and tell what it raises, such as a missing key, as its terminal event."""
    try:
        async with aclosing(closable(model.stream(request))) as events:
            async for event in events:
                yield event
    except RuntreeError as error:
        yield Failed(error=error.failure(), usage=NO_USAGE)


def _has_images(request: ModelRequest) -> bool:
    for message in request.messages:
        contents = [message.content] if isinstance(message, UserMessage) else []
        if isinstance(message, ToolMessage):
            contents = [result.content for result in message.results]
        if any(isinstance(block, ImageBlock) for content in contents for block in content):
            return True
    return False
