"""A model that runs on this node, as any other model."""

from collections.abc import AsyncIterator
from decimal import Decimal

from ...messages.model import ModelEvent, ModelRequest
from ..chat.dialects import LLAMA_CPP
from ..chat.model import OpenAIChat
from ..chat.profile import ChatProfile
from ..profile import Price
from . import weights
from .server import ensure_server
from .server_files import ServerAddress

_QUEUE_SILENCE = 600.0
_FREE = Price(input=Decimal(0), output=Decimal(0))


class LocalModel:
    """`local:NAME`: weights from the cache, served by llama.cpp on loopback.

    The server is found or started by the process that streams, on the first request; all processes of a user on a node share it.

    Args:
        name: What stands after `local:`.

    Raises:
        UnknownModelError: There is no local model of this name.
    """

    def __init__(self, name: str) -> None:
        self.name = weights.known(name).name
        self._chat: tuple[ServerAddress, OpenAIChat] | None = None

    @property
    def profile(self) -> ChatProfile:
        """What the model can do: it costs nothing, and may be silent for long while others are served before it."""
        facts = {"model": self.name, "price": _FREE, "silence": _QUEUE_SILENCE}
        return LLAMA_CPP.model_copy(update=facts)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Send the request to this node's server and yield what comes back.

        Raises:
            LocalModelError: The server can't be used; the text says what to do.
        """
        address = await ensure_server(self.name)
        # A server that was started anew has another address.
        if self._chat is None or self._chat[0] != address:
            chat = OpenAIChat(self.name, base_url=address.base_url, api_key=address.api_key, profile=self.profile)
            self._chat = address, chat
        events = self._chat[1].stream(request)
        try:
            async for event in events:
                yield event
        finally:
            # Leaving the loop early must close the connection now, so that the slot is free for others.
            await events.aclose()

    def __reduce__(self) -> tuple[type["LocalModel"], tuple[str]]:
        # The address is that of one node; the process that unpickles may be on another.
        return LocalModel, (self.name,)

    def __repr__(self) -> str:
        return f"LocalModel({self.name!r})"
