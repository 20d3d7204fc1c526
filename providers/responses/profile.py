"""What differs between servers that speak the responses protocol, as data.

One profile a family of servers; `OpenAIResponses` knows no server by name. Reasoning is encrypted for one organisation at one provider: what
one family made is never sent to another, even where both have the same model.
"""

import re

from pydantic import PositiveInt

from ..http_model import HttpProfile


class ResponsesProfile(HttpProfile):
    """Facts of a server that speaks the responses protocol."""

    native_output_schema: bool = True
    max_output_tokens: PositiveInt = 16_384
    """Tokens that are reserved for an answer: the most that every model of OpenAI's that speaks this protocol accepts."""
    reasoning_models: str = ""
    """Models known to reason, as a regular expression to search their names for; empty: none is known."""
    plain_models: str = ""
    """Models known not to reason, in the same way; they are sent no reasoning and win over `reasoning_models`."""
    include: tuple[str, ...] = ("reasoning.encrypted_content",)
    """What a reasoning model is asked to add to its answer."""
    reasoning_refuses: tuple[str, ...] = ("temperature", "top_p")
    """Fields that a model refuses while it reasons; they are left out."""
    refuses: tuple[str, ...] = ()
    """Fields that the server refuses always; they are left out."""
    reasoning_text: bool = False
    """Whether reasoning in plain text is sent back; else only what is encrypted is."""
    image_results: bool = True
    """Whether the result of a tool may hold images."""
    default_instructions: str = ""
    """Instructions for a request that has none, where the server insists on some."""

    def reasons(self, model: str, *, asked: bool = False) -> bool | None:
        """Return whether a model reasons, `None` if nobody knows.

        Args:
            model: Its name.
            asked: Whether the request asks it to.
        """
        if self.plain_models and re.search(self.plain_models, model):
            return False
        known = bool(self.reasoning_models and re.search(self.reasoning_models, model))
        return True if known or asked else None


OPENAI_URL = "https://api.openai.com/v1"
"""Where OpenAI is."""

_NAMED_LIKE_REASONING = r"gpt-5|(^|[/.:])o[134](-|$)|codex"
_NAMED_LIKE_PLAIN = r"gpt-[34]|gpt-5[\d.]*-chat"

OPENAI = ResponsesProfile(
    provider="openai",
    base_url=OPENAI_URL,
    secret_name="OPENAI_API_KEY",  # noqa: S106
    key_required=True,
    reasoning_models=".",
    plain_models=_NAMED_LIKE_PLAIN,
)
"""OpenAI's own: every model reasons that is not known not to."""

AZURE = ResponsesProfile(
    provider="azure",
    secret_name="AZURE_OPENAI_API_KEY",  # noqa: S106
    key_required=True,
    key_header="api-key",
    reasoning_models=_NAMED_LIKE_REASONING,
    plain_models=_NAMED_LIKE_PLAIN,
)
"""Azure, below `https://RESOURCE.openai.azure.com/openai/v1`; deployments are judged by their names."""

OPENROUTER = ResponsesProfile(
    provider="openrouter",
    base_url="https://openrouter.ai/api/v1",
    secret_name="OPENROUTER_API_KEY",  # noqa: S106
    key_required=True,
    reasoning_models=_NAMED_LIKE_REASONING,
    reasoning_refuses=(),
    reasoning_text=True,
)
"""OpenRouter, which drops what a model behind it does not take."""

XAI = ResponsesProfile(
    provider="xai",
    base_url="https://api.x.ai/v1",
    secret_name="XAI_API_KEY",  # noqa: S106
    key_required=True,
    reasoning_models=r"grok-(3-mini|4|5|code)",
    plain_models=r"non-reasoning",
    reasoning_refuses=(),
)
"""xAI: the readable reasoning is a summary, only the encrypted one can be sent back."""

DEEPSEEK = ResponsesProfile(
    provider="deepseek",
    base_url="https://api.deepseek.com",
    secret_name="DEEPSEEK_API_KEY",  # noqa: S106
    key_required=True,
    include=(),
    reasoning_refuses=(),
    reasoning_text=True,
)
"""DeepSeek: stateless, reasons in plain text, encrypts nothing."""

BEDROCK = ResponsesProfile(
    provider="bedrock",
    secret_name="AWS_BEARER_TOKEN_BEDROCK",  # noqa: S106
    key_required=True,
    reasoning_models=_NAMED_LIKE_REASONING,
    reasoning_text=True,
)
"""Amazon Bedrock, below `https://bedrock-mantle.REGION.api.aws/v1`: encrypted or plain reasoning, as the model has it."""

GITHUB = ResponsesProfile(
    provider="github",
    base_url="https://api.githubcopilot.com",
    secret_name="GITHUB_TOKEN",  # noqa: S106
    key_required=True,
    reasoning_models=_NAMED_LIKE_REASONING,
    plain_models=_NAMED_LIKE_PLAIN,
)
"""GitHub's models for editors, whose items change their ids from event to event."""

CODEX = ResponsesProfile(
    provider="codex",
    key_required=True,
    reasoning_models=".",
    refuses=("max_output_tokens", "temperature", "top_p"),
    default_instructions="You are a helpful assistant.",
)
"""The backend of OpenAI's own coding client: it insists on instructions and bounds no answer."""

GENERIC = ResponsesProfile(
    provider="openai-compatible",
    secret_name="OPENAI_API_KEY",  # noqa: S106
    reasoning_models=_NAMED_LIKE_REASONING,
    plain_models=_NAMED_LIKE_PLAIN,
    reasoning_text=True,
)
"""Any other server: gets back whatever it sent, as far as that can be understood without its own memory."""

PROFILES = (OPENAI, AZURE, OPENROUTER, XAI, DEEPSEEK, BEDROCK, GITHUB, CODEX, GENERIC)
"""Every profile that is built in."""


def at(base_url: str) -> ResponsesProfile:
    """Return the profile of the server at an address; `GENERIC` for an unknown one."""
    plain = base_url.rstrip("/")
    return next((profile for profile in PROFILES if profile.base_url == plain), GENERIC)
