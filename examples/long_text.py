"""Questions over a text that no small model can read at once, answered by a program: `python examples/long_text.py`.

The text is what the modules of runtree say of themselves, some hundred thousand words. It goes into the agent's REPL as the variable `context` and never
through the model as a whole: cells split it, rank the pieces, have a model read the best of them all at once, and join what it found.

Without options neither a key nor a network is needed: the program is fixed, and what reads is a search for the sentence that fits best. It is a real
search, so you can ask something else: `python examples/long_text.py "What becomes of a run whose node is lost?"`. A model can take its place:

    python examples/long_text.py --reader local:smollm2         # reads the pieces; the program stays fixed
    python examples/long_text.py --model openai:gpt-5-mini      # writes the program and reads the pieces
"""

import argparse
import ast
import inspect
import os
import re
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import runtree
from runtree import Agent, ReplPolicy
from runtree.cli.session import Session
from runtree.messages import AssistantMessage, ModelEvent, ModelRequest
from runtree.providers.profile import ModelProfile
from runtree.providers.protocol import Model, NeedsSecrets
from runtree.providers.registry import resolve
from runtree.providers.scripted import ScriptedModel

QUESTIONS = (
    "Does a cell that is stopped leave a trace in the variables?",
    "Where does a pickled copy of a scripted model start?",
    "What happens to warm processes that are idle?",
)

ASKING = {"what", "which", "where", "when", "many", "much", "does", "that", "have", "happens", "becomes", "with"}

READ = "Quote the one sentence of the text that answers the question, and nothing else. If no sentence does, write NOTHING."

INSTRUCTIONS = """Answer every question, one a line, by the text in `context`, the documentation of a program. Its files begin with lines such as
`=== actors/agent/tool.py ===`. Name the file with each answer."""

SPLIT = """
import re

pieces = []
for part in context.split("\\n=== ")[1:]:
    name, _, body = part.partition(" ===\\n")
    for start in range(0, len(body), 4000):
        pieces.append((name, body[start : start + 4400]))  # with what a cut may have torn apart
print(f"{len(context):,} characters, {len(pieces)} pieces, the first of {pieces[0][0]}")
"""

READ_PIECES = """
lowered = [body.lower() for _, body in pieces]

def best(question, count):
    words = [word[:5] for word in re.findall(r"[a-z]{4,}", question.lower())]
    found = [[word in body for word in words] for body in lowered]
    rarity = [len(pieces) / (1 + sum(row[number] for row in found)) for number in range(len(words))]
    score = [sum(r for r, has in zip(rarity, row) if has) for row in found]
    return sorted(range(len(pieces)), key=lambda index: -score[index])[:count]

asked = [(question, index) for question in questions for index in best(question, min(16, 80 // len(questions)))]
emit("reading", {"pieces": len(asked)})
prompts = [f"Question: {question}\\n\\nText:\\n\\n{pieces[index][1]}" for question, index in asked]
notes = {question: [] for question in questions}
for (question, index), item in zip(asked, await model_query_batched(prompts, instructions=read)):
    if item["ok"] and "NOTHING" not in item["value"]:
        notes[question].append(f"{pieces[index][0]}: {item['value'].strip()}")
print(", ".join(str(len(found)) for found in notes.values()), "notes")
"""

JOIN = """
prompts = [f"Question: {question}\\n\\nText:\\n\\n" + "\\n\\n".join(found) for question, found in notes.items()]
joined = await model_query_batched(prompts, instructions=read)
answer("\\n".join(item["value"].strip() if item["ok"] else f"no answer: {item['error']}" for item in joined))
"""


class FixedProgram:
    """Answers the agent's turns with the program above, and the questions of its cells by another model."""

    def __init__(self, reader: Model) -> None:
        self._reader = reader

    @property
    def profile(self) -> ModelProfile:
        return self._reader.profile

    @property
    def secret_names(self) -> tuple[str, ...]:
        return self._reader.secret_names if isinstance(self._reader, NeedsSecrets) else ()

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.instructions == READ:
            return self._reader.stream(request)
        questions = request.messages[0].content[0].text.splitlines()
        cells = (SPLIT, f"questions = {questions!r}\nread = {READ!r}\n{READ_PIECES}", JOIN)
        turn = sum(isinstance(message, AssistantMessage) for message in request.messages)
        if turn < len(cells):
            said = f"```python\n{cells[turn].strip()}\n```\n"
        else:  # the program has failed, and what was said of its last cell tells why
            said = request.messages[2 * len(cells)].content[0].text
        return ScriptedModel([[said]]).stream(request)


def find_sentence(request: ModelRequest) -> list[str]:
    """Return the sentence of a text that has most of a question's words, the rare ones first."""
    question, _, text = request.messages[0].content[0].text.partition("\n\nText:\n\n")
    sentences = [" ".join(part.split()) for part in re.split(r"(?<=[.!?])\s+|\n\s*\n", text)]
    asked = set(re.findall(r"[a-z]{4,}", question.removeprefix("Question:").lower())) - ASKING
    stems = {word[:5] for word in asked}
    words = [{word[:5] for word in re.findall(r"[a-z]{4,}", sentence.lower())} for sentence in sentences]
    weight = {stem: 1 / (1 + sum(stem in has for has in words)) for stem in stems}
    score = [(len(stems & has), sum(weight[stem] for stem in stems & has)) for has in words]
    best = max(range(len(sentences)), key=lambda index: score[index])
    return [sentences[best] if 2 * score[best][0] >= len(stems) else "NOTHING"]


def collect_text() -> str:
    """Return everything that the modules of runtree say of themselves, each behind a line with its name."""
    root = Path(runtree.__file__).parent
    paths = sorted(
        Path(folder, name)
        for folder, _, names in os.walk(root, followlinks=True)  # in a checkout the rooms are links
        for name in names
        if name.endswith(".py")
    )
    return "".join(f"\n=== {path.relative_to(root).as_posix()} ===\n\n{documentation_of(path)}\n" for path in paths)


def documentation_of(path: Path) -> str:
    statements = [node.value for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Expr)]
    texts = [node.value for node in statements if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return "\n\n".join(inspect.cleandoc(text) for text in texts)


def make_agent(model: str | None = None, reader: str | None = None) -> Agent:
    search = ScriptedModel([find_sentence], model="search", loop=True)
    fixed = FixedProgram(resolve(reader) if reader else search)
    return Agent(
        name="librarian",
        model=model or fixed,
        instructions=INSTRUCTIONS,
        repl=ReplPolicy(use="explore", model_calls=100),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Ask the documentation of runtree.")
    parser.add_argument("questions", nargs="*", default=QUESTIONS)
    parser.add_argument("--model", help="writes the program and reads the pieces")
    parser.add_argument("--reader", help="reads the pieces")
    given = parser.parse_args(arguments)
    agent = make_agent(given.model, given.reader)
    # What `runtree run` does: a live tree on a terminal, lines elsewhere.
    return Session(agent, "\n".join(given.questions), variables={"context": collect_text()}).run()


if __name__ == "__main__":
    sys.exit(main())
