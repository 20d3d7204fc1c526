"""A model with a price that uses what it is allowed to use, and counts what goes on at once."""

from collections.abc import AsyncGenerator, Callable, Sequence
from decimal import Decimal

import anyio
import anyio.lowlevel

from runtree.messages.content import ContentBlock, TextBlock, ToolCallBlock
from runtree.messages.failure import Failure
from runtree.messages.model import Completed, Failed, ModelEvent, ModelRequest, ModelResponse, TextDelta
from runtree.messages.transcript import AssistantMessage, FinishReason
from runtree.messages.usage import Usage
from runtree.providers.profile import ModelProfile, Price
from runtree.providers.prompt_bound import most_tokens

PRICE = Price(input=Decimal(1_000), output=Decimal(10_000))
"""A tenth of a cent for a token of the prompt, and a cent for one of the answer: figures that can be read."""


FREE = Price(input=Decimal(0), output=Decimal(0))


def profile(model: str = "metered", price: Price = PRICE) -> ModelProfile:
    """Return a profile with a price, and short answers."""
    return ModelProfile(provider="acme", model=model, price=price, max_output_tokens=100)


_PROFILE = profile()


class MeteredModel:
    """Answers each request by what `answer` says of it, and counts the prompt as high as it may be.

    Args:
        answer: Makes the answer to the n-th request: text, calls, or how it fails.
        output: Tokens of each answer; by default all that the request allows.
        gate: Awaited before each answer.
    """

    def __init__(
        self,
        answer: Callable[[int, ModelRequest], str | Sequence[ToolCallBlock] | Failure] = lambda _, __: "fine",
        *,
        output: int | None = None,
        gate: anyio.Event | None = None,
        profile: ModelProfile = _PROFILE,
    ) -> None:
        self._answer, self._output, self._gate = answer, output, gate
        self.profile = profile
        self.requests: list[ModelRequest] = []
        self.at_once = 0
        self.most_at_once = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Answer."""
        self.requests.append(request)
        answer = self._answer(len(self.requests) - 1, request)
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            yield TextDelta(text="…")
            if self._gate is not None:
                await self._gate.wait()
            await anyio.lowlevel.checkpoint()
        finally:
            self.at_once -= 1
        allowed = request.settings.max_output_tokens or self.profile.max_output_tokens
        left = allowed if self._output is None else self._output
        usage = Usage(input_tokens=most_tokens(request, self.profile), output_tokens=min(left, allowed))
        if isinstance(answer, Failure):
            yield Failed(error=answer, usage=usage)
            return
        content: tuple[ContentBlock, ...] = (TextBlock(text=answer),) if isinstance(answer, str) else tuple(answer)
        reason: FinishReason = "stop" if isinstance(answer, str) else "tool_calls"
        if left > allowed:
            reason = "length"
        message = AssistantMessage(content=content, provider="acme")
        yield Completed(response=ModelResponse(message=message, finish_reason=reason, usage=usage))
