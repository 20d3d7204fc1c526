"""What differs between models and servers behind the messages protocol, as data: further ones are further entries here."""

import re
from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from ...messages.value import Value
from ..call_ids import CallIdRule
from ..http_model import HttpProfile

ANTHROPIC_URL = "https://api.anthropic.com"
"""Where Anthropic is."""

INTERLEAVED_BETA = "interleaved-thinking-2025-05-14"
"""Lets older models think between tool calls."""


class ModelRule(Value):
    """What the models of one family accept; a request that asks for more is brought down to it.

    From Anthropic's documentation of extended and adaptive thinking, effort, structured outputs and its migration guides.
    """

    pattern: str
    """Regular expression that is searched for in the name of the model, in lower case and with `-` for `.`."""
    adaptive: bool = False
    """Whether the model can be told to think as it sees fit."""
    budget: bool = False
    """Whether it takes a number of tokens to think for."""
    can_disable: bool = True
    """Whether thinking can be turned off."""
    thinks_unasked: bool = False
    """Whether it thinks where a request does not say."""
    hides_thinking: bool = False
    """Whether its thinking is left out of the answer unless the request asks for the summary."""
    efforts: tuple[str, ...] = ()
    """Words for how long to think, from the shortest; none: a number is sent instead."""
    interleaved_beta: str | None = None
    """Beta that lets it think between tool calls, where it does not by itself."""
    sampling: Literal["any", "one", "none"] = "any"
    """Whether temperature and `top_p` are accepted: both, one of them, or neither."""
    forced_tools: bool = True
    """Whether it can be made to call a tool."""
    output_schema: bool = True
    """Whether an answer can be held to a JSON Schema."""
    max_tokens: PositiveInt = 32_000
    """Upper bound of an answer whose request sets none; the protocol demands one."""


_TO_MAX = ("low", "medium", "high", "xhigh", "max")
_BEFORE_XHIGH = ("low", "medium", "high", "max")

CLAUDE: tuple[ModelRule, ...] = (
    ModelRule(pattern=r"claude-3-7", budget=True, sampling="any", output_schema=False, max_tokens=16_000),
    ModelRule(pattern=r"claude-3-5", output_schema=False, max_tokens=8_192),
    ModelRule(pattern=r"claude-(3|2|instant)", output_schema=False, max_tokens=4_096),
    ModelRule(pattern=r"(opus|sonnet|haiku)-4-5(?!\d)", budget=True, interleaved_beta=INTERLEAVED_BETA, sampling="one"),
    ModelRule(
        pattern=r"(opus|sonnet|haiku)-4(-[0-4])?(?!\d|-[5-9](?!\d))",
        budget=True,
        interleaved_beta=INTERLEAVED_BETA,
        sampling="one",
        output_schema=False,
    ),
    ModelRule(pattern=r"-4-6(?!\d)", adaptive=True, budget=True, efforts=_BEFORE_XHIGH, sampling="one"),
    ModelRule(pattern=r"-4-[78](?!\d)", adaptive=True, hides_thinking=True, efforts=_TO_MAX, sampling="none"),
    ModelRule(
        pattern=r"(sonnet|opus)-5(?!-?\d(?!\d))",
        adaptive=True,
        thinks_unasked=True,
        hides_thinking=True,
        efforts=_TO_MAX,
        sampling="none",
    ),
    ModelRule(
        pattern=r"(fable|mythos)-5(?!-?\d(?!\d))",
        adaptive=True,
        can_disable=False,
        thinks_unasked=True,
        hides_thinking=True,
        efforts=_TO_MAX,
        sampling="none",
    ),
    ModelRule(
        pattern=r"(fable|mythos|opus|sonnet|haiku)-",
        adaptive=True,
        can_disable=False,
        thinks_unasked=True,
        hides_thinking=True,
        efforts=_TO_MAX,
        sampling="none",
        forced_tools=False,
    ),
)
"""Anthropic's models, the first entry that fits counts. The last one is for those that are newer than this table: what it does not allow
has been refused by more models with every year."""

ANY_MODEL = ModelRule(pattern="", budget=True, output_schema=False, max_tokens=16_000)
"""A model nobody said anything about: takes what the protocol's first version with thinking took."""


class AnthropicProfile(HttpProfile):
    """Facts of a server that speaks the messages protocol."""

    provider: str = "anthropic"
    """Family of the provider; thinking blocks go back only to the family that made them."""
    secret_name: str | None = "ANTHROPIC_API_KEY"  # noqa: S105
    """Name of its key; `None`: it has none."""
    key_header: str = "x-api-key"
    """Header that carries the key; `authorization` as a bearer token."""
    rules: tuple[ModelRule, ...] = (ANY_MODEL,)
    """What its models accept; the first entry whose pattern is found in the model's name counts."""
    betas: bool = False
    """Whether it knows Anthropic's beta headers that a rule calls for; those given in code are always sent."""
    unsigned_thinking: bool = False
    """Whether thinking without a signature is sent back."""
    thinking_display: Literal["summarized", "omitted"] | None = "summarized"
    """What of the thinking is shown where a model hides it; `None` leaves it to the model."""
    terminal_event: bool = True
    """Whether a stream is whole only with its last event; else the reason of its end is enough."""
    call_ids: CallIdRule = CallIdRule()
    """Ids of calls that it accepts in a history."""
    max_output_tokens: PositiveInt = 32_000
    """Tokens that are reserved for an answer; the rule of the model may say less."""
    tools_overhead: NonNegativeInt = 1000
    """Tokens that the server adds to a prompt with tools: Anthropic documents 300 to 800, by model and tool choice."""

    def rule(self, model: str) -> ModelRule:
        """Return what a model accepts."""
        name = model.lower().replace(".", "-")
        return next((rule for rule in self.rules if re.search(rule.pattern, name)), ANY_MODEL)


ANTHROPIC = AnthropicProfile(key_required=True, rules=CLAUDE, betas=True, native_output_schema=True)
"""Anthropic's own, also behind a gateway that passes requests on."""

ANTHROPIC_COMPATIBLE = AnthropicProfile(provider="anthropic-compatible", unsigned_thinking=True, terminal_event=False)
"""Another provider's models in Anthropic's format: signatures are absent or mean nothing."""

DEEPSEEK = ANTHROPIC_COMPATIBLE.model_copy(
    update={
        "provider": "deepseek-messages",
        "vendor": "deepseek",
        "base_url": "https://api.deepseek.com/anthropic",
        "secret_name": "DEEPSEEK_API_KEY",
    }
)
"""DeepSeek's endpoint in Anthropic's format."""

KIMI = ANTHROPIC_COMPATIBLE.model_copy(
    update={
        "provider": "moonshot-messages",
        "vendor": "moonshot",
        "base_url": "https://api.moonshot.ai/anthropic",
        "secret_name": "MOONSHOT_API_KEY",
    }
)
"""Moonshot's endpoint in Anthropic's format."""

ZAI = ANTHROPIC_COMPATIBLE.model_copy(
    update={
        "provider": "zai-messages",
        "vendor": "zai",
        "base_url": "https://api.z.ai/api/anthropic",
        "secret_name": "ZAI_API_KEY",
    }
)
"""z.ai's endpoint in Anthropic's format."""
