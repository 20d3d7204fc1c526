"""Models behind Anthropic's messages protocol."""

from collections.abc import AsyncGenerator, Sequence

from ...messages.model import ModelEvent, ModelRequest
from ..decoder import AnswerDecoder
from ..http import CONNECT_TIMEOUT, converse
from ..http_model import IDLE_TIMEOUT, HttpModel, address
from .profile import ANTHROPIC, ANTHROPIC_URL, AnthropicProfile
from .request import build_call
from .stream import MessageStream

API_VERSION = "2023-06-01"
"""Version of the protocol, which every request has to name."""

_PATH = "/v1/messages"


class AnthropicMessages(HttpModel[AnthropicProfile]):
    """A model behind Anthropic's messages protocol: Anthropic's own, and every server that speaks it.

    Args:
        model: Name of the model, as the server knows it.
        base_url: Address without `/v1/messages`. By default the profile's, then `ANTHROPIC_BASE_URL`, then Anthropic's own.
        api_key: The key. By default the one of the profile's `secret_name`, `ANTHROPIC_API_KEY`, given to the Runtime or in the
            environment.
        profile: Facts of the server. By default Anthropic's own, also at another address; a server with models of another provider
            needs one of its own, because thinking goes back only to the family that made it.
        betas: Names for the header `anthropic-beta`, beside those that a request needs by itself.
        timeout: Seconds for a call whose request does not say.
        idle_timeout: Seconds without a byte for a call whose request does not say.
        connect_timeout: Seconds until the connection has to stand.

    Raises:
        ConfigurationError: The address or the key can't be used.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        profile: AnthropicProfile | None = None,
        betas: Sequence[str] = (),
        timeout: float | None = None,
        idle_timeout: float | None = IDLE_TIMEOUT,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        profile = profile or ANTHROPIC
        base_url = address(base_url or profile.base_url, "ANTHROPIC_BASE_URL", ANTHROPIC_URL).rstrip("/")
        rule = profile.rule(model)
        native = profile.native_output_schema and rule.output_schema
        limit = min(rule.max_tokens, profile.max_output_tokens)
        super().__init__(
            model,
            profile.model_copy(update={"native_output_schema": native, "max_output_tokens": limit}),
            base_url.removesuffix(_PATH).removesuffix("/v1"),
            _PATH,
            api_key=api_key,
            timeout=timeout,
            idle_timeout=idle_timeout,
            connect_timeout=connect_timeout,
        )
        self._betas = (betas,) if isinstance(betas, str) else tuple(betas)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send the request and yield what comes back.

        Raises:
            MissingSecretError: There is no key, and the server needs one.
        """
        call = build_call(request, self._model, self._profile)
        headers = {"anthropic-version": API_VERSION}
        betas = dict.fromkeys((*self._betas, *call.betas))
        if betas:
            headers["anthropic-beta"] = ",".join(betas)
        exchange = self._exchange(request, call.body, headers)
        decoder = AnswerDecoder(MessageStream(self._profile, request.model or self._model, secret=exchange.secret))
        return converse(exchange, decoder)
