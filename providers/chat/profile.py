"""What differs between servers that speak the chat completions protocol, as data."""

import re
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from ...messages.model import ModelSettings, ToolChoice
from ...messages.value import Value
from ..call_ids import CallIdRule
from ..http_model import HttpProfile


class ModelRule(Value):
    """Facts that hold for some models of a server or for some requests only. All conditions have to be met."""

    models: str = ""
    """Regular expression that is found in the name of the model; empty: any model."""
    thinking: bool | None = None
    """Whether the request lets the model think; `None`: either."""
    streaming: bool | None = None
    """Whether the answer is asked for as a stream; `None`: either."""
    changes: Mapping[str, Any]
    """Fields of the profile and what they are then."""

    def holds(self, profile: "ChatProfile", model: str, settings: ModelSettings) -> bool:
        """Return whether a request meets the conditions."""
        return (
            re.search(self.models, model) is not None
            and self.thinking in (None, profile.lets_think(settings))
            and self.streaming in (None, settings.stream)
        )


class ChatProfile(HttpProfile):
    """Facts of a server that speaks the chat completions protocol.

    The defaults are those of a server that takes what the protocol has from its beginning and sends what most send. A gateway of your own
    is described by what is different, and `provider` is any word of your choice:

        ACME = ChatProfile(
            provider="acme",
            base_url="https://models.acme.example/v1",
            secret_name="ACME_API_KEY",
            key_required=True,
            reasoning_replay="reasoning_content",  # a deployment that wants the thoughts of turns with tools back
            replay_turns="tool_calls",
            refused=frozenset({"seed"}),
        )
        model = OpenAIChat("acme-large", profile=ACME)

    Profiles of known servers, to begin with `model_copy(update={...})` from the nearest one, are in `runtree.providers.chat.dialects`.
    """

    # Address
    base_url_variable: str | None = None
    """Environment variable in which users keep its address; comes before `base_url`."""
    base_path: str = ""
    """Path that is added to an address from the environment, if that has none."""

    # Request
    system_role: Literal["system", "developer"] = "system"
    """Role of the instructions."""
    max_tokens_field: str = "max_tokens"
    """Name of the field that bounds the answer."""
    include_usage: bool = True
    """Whether a stream is asked for its usage by `stream_options`."""
    refused: frozenset[str] = frozenset()
    """Fields of the request that are left out, by their names in the protocol."""
    renamed: Mapping[str, str] = Field(default_factory=dict)
    """Fields of the request that have another name here, by their names in the protocol."""
    tool_choices: Mapping[ToolChoice, str | None] = Field(default_factory=dict[ToolChoice, str | None])
    """Other words for a tool choice; `None`: it can't be asked for. Without `none` the tools are not sent instead."""
    extra_body: Mapping[str, Any] = Field(default_factory=dict)
    """Further fields of each request."""
    thinks: bool = False
    """Whether models think if the request does not say."""
    effort_field: str | None = "reasoning_effort"
    """Field of the effort, inner ones by dots (`reasoning.effort`); `None`: there is none."""
    effort_words: Mapping[str, str] = Field(default_factory=dict)
    """Words for an effort that this server has others for."""
    budget_field: str | None = None
    """Field of the number of tokens for reasoning, inner ones by dots; a number is sent instead of an effort."""
    thinking_on: Mapping[str, Any] = Field(default_factory=dict)
    """Further fields where an effort or a number is asked for."""
    thinking_off: Mapping[str, Any] = Field(default_factory=dict)
    """Fields instead of the effort `none`; empty: the word is sent."""

    # History
    call_ids: CallIdRule = CallIdRule(characters="!-~")
    """Ids of calls that it accepts in a history."""
    reasoning_replay: str | None = None
    """Field in which reasoning is sent back; `None`: it is not."""
    replay_shape: Literal["text", "details", "thinking_parts", "summary_parts"] = "text"
    """How: as text; as the merged array it came in (`details_field`); or as parts of the content."""
    replay_turns: Literal["always", "tool_calls", "since_user"] = "always"
    """With which messages: all; those of a stretch between two user messages in which tools were called; those after the last of these.

    What goes back with all messages, or with the same ones every time, can be read from the provider's prompt cache.
    """
    replay_placeholder: str | None = None
    """What is sent with such a message that has no reasoning; `None`: the field is left out."""
    plain_replay: str | None = None
    """Field for reasoning that came without an array, where `replay_shape` is `details`."""
    foreign_call_extras: Mapping[str, Any] = Field(default_factory=dict)
    """What the first call of a message carries in place of the data that only this server can make."""
    empty_content: Literal["null", "text", "absent"] = "null"
    """What stands in for the text of a message that has calls only."""
    empty_answers: bool = True
    """Whether an assistant message without text and calls is accepted; if not it is left out."""
    user_after_tools: bool = True
    """Whether the user may speak right after the results of tools; if not, images in these are not shown, and a message of the assistant
    stands between."""

    # Answer
    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning", "reasoning_text")
    """Fields of a delta in which reasoning may stand; the first one that is not empty counts."""
    details_field: str = "reasoning_details"
    """Field in which reasoning may stand as an array of typed parts, beside its text or instead of it."""
    signature_field: str | None = None
    """Field with a signature of the reasoning, sent back under the same name."""
    kept_fields: tuple[str, ...] = ("extra_content",)
    """Fields of a call or of a message that are kept as they are and sent back with it."""
    think_tags: bool = False
    """Whether `<think>…</think>` in the text is reasoning."""
    think_tag_names: tuple[str, ...] = ("think", "thinking", "thought")
    """Names of such tags."""
    think_opened: bool = False
    """Whether the text begins inside of such a tag, because the opening one stands in the prompt."""
    usage_counts: Literal["by_total", "beside", "total"] = "by_total"
    """Whether the completion holds the reasoning: as the total tells; it does not unless the total says so; or reasoning that is not
    reported is what the total has more."""

    # Exceptions
    rules: tuple[ModelRule, ...] = ()
    """Facts of some models or requests only, applied in order."""

    def lets_think(self, settings: ModelSettings) -> bool:
        """Return whether a request lets the model think, as far as the settings and the profile say."""
        if settings.reasoning_effort:
            return settings.reasoning_effort != "none"
        return self.thinks or settings.reasoning_budget is not None

    def facts_for(self, model: str, settings: ModelSettings) -> Self:
        """Return the profile as it is for one request."""
        facts = self
        for rule in self.rules:
            if rule.holds(facts, model, settings):
                facts = facts.model_copy(update=dict(rule.changes))
        return facts

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        # What a rule changes is checked here, once, and not for every request.
        object.__setattr__(self, "rules", tuple(self._checked(rule) for rule in self.rules))
        return self

    def _checked(self, rule: ModelRule) -> ModelRule:
        unknown = set(rule.changes) - set(type(self).model_fields)
        if unknown:
            raise ValueError(f"a rule changes {', '.join(sorted(unknown))}, which no profile has")
        changed = type(self).model_validate({**dict(self), **rule.changes, "rules": ()})
        return rule.model_copy(update={"changes": {name: getattr(changed, name) for name in rule.changes}})
