"""What was seen of tool calls and of reasoning, in sentences for people."""

from collections.abc import Iterator
from typing import Literal

from .seen import CallsSeen, ReasoningSeen, Seen, Verdict

_Said = tuple[Literal["good", "plain", "bad"], str]

NOWHERE = "nowhere; the model may have none, or show it only when asked (--extra-body)"
"""What is said where no reasoning was seen."""

_REPLAYS: dict[Verdict, str] = {
    "honoured": "taken and read: the prompt grows by it",
    "accepted": "taken; whether it is read can't be told",
    "ignored": "taken and left out of the prompt",
    "refused": "refused",
}


def say_calls(seen: Seen) -> Iterator[_Said]:
    """Say how tool calls arrive."""
    calls = seen.calls
    if calls is None:
        if "tools" in seen.refusals:
            yield "bad", f"tools are refused: {seen.refusals['tools']}"
        return
    if not calls.count:
        if seen.fields.get("tools") == "ignored":
            yield "bad", "the server leaves tools out of the prompt: the model can't know of them"
        yield "plain", "the model called no tool, so how calls arrive is not known"
        if "required_tools" in seen.refusals:
            yield "plain", f"a call can't be required: {seen.refusals['required_tools']}"
    else:
        yield from _say_arrival(seen, calls)
    if seen.results is not None:
        made_up = "" if calls.count else " of a call that was made up"
        if seen.results == "accepted":
            yield "good", f"takes back the results{made_up}"
        elif seen.replay_needed:
            yield "plain", "takes back the results only together with the reasoning"
        else:
            yield "bad", f"refuses the results{made_up}: {seen.refusals.get('results', 'no reason given')}"


def _say_arrival(seen: Seen, calls: CallsSeen) -> Iterator[_Said]:
    required = ", only when one was required" if seen.choice_required else ""
    parallel = "parallel calls in one answer" if calls.count > 1 else "one call, none beside it"
    yield "good", f"{parallel}{required}: {_count(calls.count, 'call')} in {_count(calls.fragments, 'piece')}"
    if calls.whole:
        yield "plain", "each call comes whole, in one piece"
    elif calls.name_first:
        yield "good", "the name comes before the arguments, which are streamed"
    else:
        yield "plain", "the name comes together with the first arguments"
    match calls.indexed:
        case "all":
            yield "good", "every piece has its index"
        case "none":
            yield "plain", "no piece has an index"
        case "some":
            yield "plain", "only some pieces have an index"
        case "same for all":
            yield "plain", "different calls have the same index"
        case None:
            pass
    yield from _say_ids(seen, calls)
    if calls.repeats_name:
        yield "plain", "names come again in later pieces"
    elif not calls.whole:
        yield "plain", "names come in the first piece only"
    if calls.objects:
        yield "plain", "arguments are an object where text is expected"
    if calls.extras:
        yield "plain", f"calls have further fields: {', '.join(calls.extras)}"


def _say_ids(seen: Seen, calls: CallsSeen) -> Iterator[_Said]:
    if not calls.ids:
        yield "plain", "calls have no ids"
        return
    later = (
        "" if calls.whole else " and come again in later pieces" if calls.repeats_id else ", in the first piece only"
    )
    yield "plain", f"ids look like {calls.ids[0]!r}{later}"
    if calls.shares_id:
        yield "plain", "different calls of an answer have the same id"
    elif calls.lacks_id:
        yield "plain", "some calls have no id"
    if seen.ids_again:
        yield "plain", "the same ids come again in another answer"


def say_reasoning(seen: Seen) -> Iterator[_Said]:
    """Say where reasoning arrives and what becomes of it when it is sent back."""
    if seen.stream.framing in ("events", "json"):
        yield "plain", f"arrives {_place(seen.reasoning)}"
    if seen.reasoning.signed:
        yield "plain", "has signatures or encrypted parts, which have to be sent back as they are"
    unary = seen.unary_reasoning
    if unary and unary.anywhere and seen.reasoning.anywhere and _place(unary) != _place(seen.reasoning):
        yield "plain", f"arrives {_place(unary)} where the answer is not streamed"
    for name, verdict in seen.replay.items():
        reason = seen.refusals.get(f"replay_{name}", "") if verdict == "refused" else ""
        yield "plain", f"sent back in {name}: {_REPLAYS[verdict]}{f' ({reason})' if reason else ''}"
    if seen.replay_needed:
        yield "plain", f"a history without its reasoning is refused ({seen.refusals.get('results', 'no reason given')})"


def _place(reasoning: ReasoningSeen) -> str:
    places = [f"in the field {name}" for name in reasoning.fields]
    places += [f"in parts of the content with type {reasoning.part}"] if reasoning.part else []
    if reasoning.tags:
        opened = ", without the opening one" if reasoning.opened else ""
        places.append(f"in the text, between <{reasoning.tags}> tags{opened}")
    return " and ".join(places) or NOWHERE


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
