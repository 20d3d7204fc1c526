"""Calls and their results as every provider wants them: each call of an answer has one result, right behind it, and there are no others."""

from collections.abc import Iterator, Sequence

from ..messages.content import TextBlock, ToolCallBlock
from ..messages.transcript import AssistantMessage, Message, ToolMessage, ToolResult, UserMessage

_NO_RESULT = "[there is no result: the call was not finished]"


def paired(messages: Sequence[Message]) -> Iterator[tuple[int, Message]]:
    """Yield the messages with their numbers, calls and results in pairs; a history that is in order stays as it is.

    A call nobody answered before something else was said is answered as lost, a result nobody asked for is left out, and what was said
    between a call and its result comes after both. Only what is sent is put in order, so that no provider refuses it; the transcript is
    not touched.
    """
    calls: tuple[ToolCallBlock, ...] = ()
    answers: list[tuple[int, ToolMessage]] = []
    later: list[tuple[int, Message]] = []
    for number, message in enumerate(messages):
        match message:
            case ToolMessage():
                answers.append((number, message))
            case UserMessage() if calls:
                later.append((number, message))
            case _:
                yield from _answered(calls, answers, number)
                yield from later
                yield number, message
                calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
                answers, later = [], []
    if answers or later:
        yield from _answered(calls, answers, len(messages))
    yield from later


def _answered(
    calls: Sequence[ToolCallBlock], answers: Sequence[tuple[int, ToolMessage]], number: int
) -> Iterator[tuple[int, Message]]:
    """Yield the results of one answer's calls, under the number of the first of them."""
    if not calls:
        return
    if len(answers) == 1 and _match(calls, answers[0][1].results):
        yield answers[0]
        return
    known: dict[str, ToolResult] = {}
    for _, message in answers:
        for result in message.results:
            known.setdefault(result.call_id, result)
    results = tuple(known.get(call.call_id) or _lost(call) for call in calls)
    yield (answers[0][0] if answers else number), ToolMessage(results=results)


def _match(calls: Sequence[ToolCallBlock], results: Sequence[ToolResult]) -> bool:
    return len(calls) == len(results) and {call.call_id for call in calls} == {result.call_id for result in results}


def _lost(call: ToolCallBlock) -> ToolResult:
    content = (TextBlock(text=_NO_RESULT),)
    return ToolResult(call_id=call.call_id, tool_name=call.tool_name, outcome="lost", content=content)
