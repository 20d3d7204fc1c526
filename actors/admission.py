"""What a driver checks before and after it asks the supervisor for a root."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..messages.control import AdmitAnswer, Admitted, Postponed
from ..messages.errors import ConfigurationError, InternalError, LimitExceededError, RuntimeUnavailableError
from ..messages.limits import Limits
from ..messages.transcript import Message
from ..providers.fallback import chain_of
from ..providers.pricing import find_price
from ..providers.registry import resolve
from .agent import Agent, AgentSet

_MESSAGES: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])
_TAGS: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


def admitted_or_raise(admission: AdmitAnswer) -> Admitted:
    """Return the admission.

    Raises:
        LimitExceededError: A bound forbids the run.
        RuntimeUnavailableError: It is refused for another reason.
    """
    if isinstance(admission, Admitted):
        return admission
    if isinstance(admission, Postponed):
        raise InternalError("a root was made to wait for a parallel slot")
    error = admission.error
    if error.limit is not None:
        raise LimitExceededError(error.limit, error.message, "tree")
    raise RuntimeUnavailableError("supervisor", error.message, "Start another run")


def check_limits(agents: AgentSet, limits: Limits | None) -> None:
    """Refuse bounds that could not be kept, rather than ignore them. The first use of the price list takes a tenth of a second.

    Raises:
        ConfigurationError: `max_cost` where a model has no known price, and `unpriced` does not allow that.
    """
    everyone = agents.all()
    tree = limits or Limits()
    given = {"limits": limits, **{f"agent {agent.name}, limits": agent.limits for agent in everyone}}
    for field, bound in given.items():
        if bound is not None and bound.max_cost is not None and tree.narrow(bound).unpriced != "ignore":
            _check_prices(field, everyone)


def _check_prices(field: str, agents: tuple[Agent, ...]) -> None:
    for agent in agents:
        for model in chain_of(resolve(agent.model)):
            profile = model.profile
            if find_price(profile, [profile.model], 0) is None:
                problem = f"the price of {profile.key}, a model of agent {agent.name}, is unknown, so its cost can't be bounded"
                fix = f"Say it with set_price({profile.key!r}, Price(...)), bound max_tokens instead, or pass Limits(unpriced='ignore')"
                raise ConfigurationError(f"{field}.max_cost", problem, fix)


def packed_messages(messages: Sequence[Message]) -> str:
    """Return a conversation to continue, as JSON.

    Raises:
        ConfigurationError: It holds something else than messages.
    """
    return _MESSAGES.dump_json(
        _valid("messages", _MESSAGES, tuple(messages), "Pass the `messages` of a result")
    ).decode()


def checked_tags(tags: Mapping[str, str] | None) -> dict[str, str]:
    """Return tags as they travel.

    Raises:
        ConfigurationError: A name or value is no text.
    """
    checked: dict[str, str] = _valid("tags", _TAGS, dict(tags or {}), "Names and values are text")
    return checked


def _valid(field: str, adapter: TypeAdapter[Any], value: Any, fix: str) -> Any:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = "".join(f"[{part!r}]" for part in first["loc"][:1])
        raise ConfigurationError(f"{field}{where}", str(first["msg"]), fix) from None
