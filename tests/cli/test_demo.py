"""The demonstration's parts without Ray: its plan, its reading, and whose words are heard."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from runtree.actors.agent import AgentSet
from runtree.demo import DOCUMENTS, assignment_of, list_files, make_lead
from runtree.demo.folder import names_in, read_file
from runtree.demo.models import ReadThenSummarize, make_extract, make_plan
from runtree.messages import (
    AssistantMessage,
    Completed,
    ConfigurationError,
    Failed,
    Message,
    ModelEvent,
    ModelRequest,
    TextBlock,
    ToolCallDelta,
    ToolError,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from runtree.providers.protocol import Model
from runtree.providers.scripted import ScriptedModel

NAMES = list_files(DOCUMENTS)


class Context:
    """The one thing of a ToolContext that the tool looks at."""

    deps = str(DOCUMENTS)


async def _answer(model: Model, *messages: Message) -> tuple[AssistantMessage, list[ModelEvent]]:
    events = [event async for event in model.stream(ModelRequest(messages=messages))]
    last = events[-1]
    assert isinstance(last, Completed)
    return last.response.message, events


def _results(*pairs: tuple[str, str]) -> ToolMessage:
    results: list[Any] = [
        ToolResult(call_id=f"c{number}", tool_name="t", outcome=outcome, content=(TextBlock(text=text),))  # type: ignore[arg-type]
        for number, (outcome, text) in enumerate(pairs)
    ]
    return ToolMessage(results=tuple(results))


def test_six_documents_come_along() -> None:
    assert len(NAMES) == 6
    assert all(1500 < (DOCUMENTS / name).stat().st_size < 2500 for name in NAMES)


def test_a_folder_without_texts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "image.png").touch()
    for folder in (tmp_path, tmp_path / "nowhere", tmp_path / "image.png"):
        with pytest.raises(ConfigurationError, match="--folder"):
            list_files(folder)


def test_names_survive_the_assignment() -> None:
    odd = ["a - b.md", "- c.md", "zwölf 中.txt"]
    assert names_in(assignment_of(odd)) == odd


def test_the_tool_reads_files_of_the_folder_and_nothing_else() -> None:
    assert read_file(NAMES[0], Context()).startswith("# ")
    for name in ("../agents.py", "/etc/hostname", "nowhere.md", ".."):
        with pytest.raises(ToolError):
            read_file(name, Context())


async def test_the_plan_asks_for_each_file_and_joins_the_answers() -> None:
    plan = make_plan()
    asked, _ = await _answer(plan, UserMessage.of(assignment_of(NAMES[:2])))
    assert [call.arguments for call in asked.tool_calls] == [{"name": name} for name in NAMES[:2]]
    assert {call.tool_name for call in asked.tool_calls} == {"summarizer"}
    joined, _ = await _answer(
        plan, UserMessage.of("…"), asked, _results(("ok", "It is\nabout canals."), ("error", "no such file"))
    )
    assert joined.text == f"{NAMES[0]}: It is about canals.\n\n{NAMES[1]}: (no summary, error: no such file)\n\n"
    plan.assert_exhausted()


async def test_a_summarizer_reads_by_plan_and_speaks_by_model() -> None:
    words = ScriptedModel([["A model's words."]])
    model = ReadThenSummarize(words)
    assert model.profile is words.profile
    first, events = await _answer(model, UserMessage.of('{"name": "tides.md"}'))
    assert any(isinstance(event, ToolCallDelta) for event in events)
    assert [(call.tool_name, call.arguments) for call in first.tool_calls] == [("read_file", {"name": "tides.md"})]
    assert words.requests == []
    second, _ = await _answer(model, UserMessage.of("{}"), first, _results(("ok", "# Tides\n\nWater rises.")))
    assert second.text == "A model's words."
    (request,) = words.requests
    (message,) = request.messages
    assert isinstance(message, UserMessage)
    (block,) = message.content
    assert isinstance(block, TextBlock)
    assert "Water rises." in block.text
    assert request.tools == ()


async def test_a_file_that_can_not_be_read_fails_the_summarizer_without_asking_a_model() -> None:
    words = ScriptedModel([])
    request = ModelRequest(messages=(UserMessage.of("{}"), _results(("error", "gone"))))
    (event,) = [event async for event in ReadThenSummarize(words).stream(request)]
    assert isinstance(event, Failed)
    assert event.error.message == "gone"
    assert words.requests == []


async def test_scripted_summaries_say_that_they_are_scripted() -> None:
    model = ReadThenSummarize(make_extract())
    for name in NAMES:
        text = (DOCUMENTS / name).read_text()
        said, _ = await _answer(model, UserMessage.of("{}"), _results(("ok", text)))
        sentence = said.text.removeprefix("[scripted, first sentence] ")
        assert sentence != said.text
        assert sentence.endswith((".", "?"))
        assert sentence in text


def test_the_agents_travel() -> None:
    lead = make_lead("local:smollm2", 200)
    assert lead.max_tool_calls == 200
    AgentSet.of(lead).dump()
    assert pickle.loads(pickle.dumps(ReadThenSummarize(make_extract()))).profile.model == "scripted"
