"""What a conversation by way of a model class comes to."""

from collections.abc import Iterator, Mapping

from ...messages.usage import Usage
from .findings import Finding, Said, Tone
from .findings_calls import NOWHERE
from .paste import quoted
from .report import Report
from .talk import Spoken, TalkProtocol, thoughts_of
from .wire import Target

_CLASSES: Mapping[TalkProtocol, str] = {"responses": "OpenAIResponses", "anthropic": "AnthropicMessages"}


def talk_report(target: Target, protocol: TalkProtocol, answers: Mapping[str, Spoken]) -> Report:
    """Return what the answers come to."""
    usages = [_usage(answer) for answer in answers.values()]
    said: dict[str, list[Said]] = {
        "stream": list(_say_stream(answers)),
        "usage": list(_say_usage(answers)),
        "tool calls": list(_say_calls(answers)),
        "reasoning": list(_say_reasoning(answers)),
        "in one piece": list(_say_unary(answers)),
        "errors": list(_say_key(answers)),
    }
    return Report(
        base_url=target.base_url,
        model=target.model,
        protocol=protocol,
        requests=len(answers),
        tokens=sum(usage.tokens for usage in usages),
        untold=sum(answer.completed is not None and not _usage(answer).tokens for answer in answers.values()),
        seconds=sum(answer.events[-1][0] for answer in answers.values() if answer.events),
        problems=tuple(
            f"{answer.title}: {answer.failed.error.message} ({answer.failed.error.code})"
            for name, answer in answers.items()
            if answer.failed and name != "bad_key"
        ),
        findings=tuple(
            Finding(topic=topic, tone=tone, text=text) for topic, lines in said.items() for tone, text in lines
        ),
        paste=_paste(target, protocol) if _holds(answers) else None,
    )


def _holds(answers: Mapping[str, Spoken]) -> bool:
    return "hello" in answers and answers["hello"].failed is None


def _usage(answer: Spoken) -> Usage:
    if answer.completed:
        return answer.completed.response.usage
    return answer.failed.usage if answer.failed else Usage(precision="unknown")


def _say_stream(answers: Mapping[str, Spoken]) -> Iterator[Said]:
    for name in ("hello", "tools", "results"):
        answer = answers.get(name)
        if answer is None or answer.completed is None:
            continue
        first = next((seconds for seconds, event in answer.events if event.kind != "started"), 0.0)
        response = answer.completed.response
        reason = response.finish_reason_raw or response.finish_reason
        arrival = f"{len(answer.events)} events, the first one after {first:.2f} s, the last after {answer.events[-1][0]:.2f} s"
        yield "good", f"{answer.title}: {arrival}, finish reason {reason!r}"


def _say_usage(answers: Mapping[str, Spoken]) -> Iterator[Said]:
    answer = answers.get("hello")
    if answer is None or answer.completed is None:
        return
    usage = answer.completed.response.usage
    if usage.precision == "unknown":
        yield "plain", "tells no usage"
        return
    parts = {
        "cached tokens": usage.cache_read_tokens,
        "tokens written to the cache": usage.cache_write_tokens,
        "reasoning tokens": usage.reasoning_tokens,
    }
    told = [name for name, count in parts.items() if count is not None]
    yield "good", "streams usage" if answer.count("usage_delta") else "tells usage"
    yield "plain", f"tells {', '.join(told)}" if told else "tells no details"


def _say_calls(answers: Mapping[str, Spoken]) -> Iterator[Said]:
    answer = answers.get("tools")
    if answer is None or answer.message is None:
        return
    calls = answer.calls
    if not calls:
        yield "plain", "the model called no tool, so how calls arrive is not known"
        return
    pieces = sum(map(len, calls.values()))
    yield "good", f"calls: {len(calls)}, in {pieces} pieces, ids look like {next(iter(calls))!r}"
    if all(not deltas[0].arguments for deltas in calls.values()):
        yield "good", "the name comes before the arguments"
    else:
        yield "plain", "the name comes together with the first arguments"
    if "results" in answers and answers["results"].completed:
        yield "good", "takes back the results, with all that came before them"


def _say_reasoning(answers: Mapping[str, Spoken]) -> Iterator[Said]:
    for name in ("tools", "hello"):
        answer = answers.get(name)
        thoughts = thoughts_of(answer.message) if answer and answer.message else ()
        if answer is None or not thoughts:
            continue
        signed = sum(thought.signature is not None or bool(thought.extras) for thought in thoughts)
        yield (
            "good",
            f"{len(thoughts)} blocks in {answer.count('reasoning_delta')} pieces, {signed} of them signed or encrypted",
        )
        if name == "tools" and "results" in answers:
            taken = answers["results"].completed is not None
            yield ("good", "taken back as it was") if taken else ("bad", "refused when it is sent back")
        return
    if _holds(answers):
        yield "plain", NOWHERE


def _say_unary(answers: Mapping[str, Spoken]) -> Iterator[Said]:
    answer = answers.get("unary")
    if answer is not None and answer.completed:
        response = answer.completed.response
        yield (
            "good",
            f"stream: false gives one body, ends with {response.finish_reason_raw or response.finish_reason!r}",
        )


def _say_key(answers: Mapping[str, Spoken]) -> Iterator[Said]:
    answer = answers.get("bad_key")
    if answer is None:
        return
    if answer.failed is None:
        yield "plain", "a wrong key is accepted: keys are not checked"
        return
    error = answer.failed.error
    tone: Tone = "good" if error.code == "authentication" else "plain"
    yield tone, f"a wrong key: HTTP {error.status}, taken for {error.code}: {error.message!r}"


def _paste(target: Target, protocol: TalkProtocol) -> str:
    name = _CLASSES[protocol]
    key = f", api_key=os.environ[{quoted(target.key_name)}]" if target.key_name else ""
    return "\n".join(
        [
            *(["import os", ""] if key else []),
            f"from runtree.providers import {name}",
            "",
            f"model = {name}({quoted(target.model)}, base_url={quoted(target.base_url)}{key})",
            "",
        ]
    )
