"""The agents of the demonstration."""

from typing import Final

from ..actors.agent.agent import Agent
from ..messages.model import ModelSettings
from ..providers.registry import resolve
from .folder import read_file
from .models import SUMMARIZER, Document, ReadThenSummarize, make_extract, make_plan

SCRIPTED: Final = "scripted"
_AT_ONCE: Final = 8
# A small model does not know when it has said enough; others refuse some of these settings.
_BRIEF: Final = ModelSettings(max_output_tokens=80, temperature=0.1, seed=7, stop=("\n\n",))


def make_lead(model: str, files: int) -> Agent:
    """Return the lead, whose summarizers use a model string or `scripted`.

    Raises:
        UnknownModelError: The string names no model.
    """
    summarizer = Agent(
        name=SUMMARIZER,
        description="Reads one file and summarizes it.",
        model=ReadThenSummarize(make_extract() if model == SCRIPTED else resolve(model)),
        tools=[read_file],
        input_type=Document,
        model_settings=_BRIEF if model.startswith("local:") else None,
    )
    return Agent(
        name="lead",
        description="Has each file of a folder summarized and joins the summaries.",
        model=make_plan(),
        agents=[summarizer],
        max_parallel=_AT_ONCE,
        max_tool_calls=max(files, 1),
    )
