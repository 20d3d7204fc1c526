"""A lead that asks several sub-agents at once: `python examples/fan_out.py`, or `runtree run examples/fan_out.py:lead "tea"`.

The models are scripted, so that nothing is needed. Put `model="openai:gpt-5-mini"` in their place for real ones.
"""

import asyncio

from runtree import Agent, Runtime, tool
from runtree.messages import ModelRequest, RunCompleted
from runtree.providers.scripted import Part, ScriptedModel, tool_call

CITIES = {"Lima": 24.5, "Oslo": 3.0, "Pune": 31.0}


@tool
async def temperature(city: str) -> float:
    """Return the temperature of a city in degrees Celsius."""
    return CITIES[city]


def ask_the_tool(request: ModelRequest) -> list[Part]:
    return [tool_call("temperature", {"city": request.messages[0].content[0].text})]


def report(request: ModelRequest) -> list[Part]:
    return ["It is ", request.messages[-1].results[0].text, " degrees."]


def ask_everyone(_request: ModelRequest) -> list[Part]:
    return [tool_call("reporter", {"input": city}) for city in CITIES]


def join(request: ModelRequest) -> list[Part]:
    return [f"{city}: {result.text}\n" for city, result in zip(CITIES, request.messages[-1].results, strict=True)]


reporter = Agent(
    name="reporter",
    description="Reports on the weather of a city.",
    model=ScriptedModel([ask_the_tool, report]),
    tools=[temperature],
)
lead = Agent(name="lead", model=ScriptedModel([ask_everyone, join]), agents=[reporter])


async def main() -> None:
    async with Runtime() as runtime:
        run = await runtime.start(lead, "How warm is it?")
        async for item in run:
            if isinstance(item, RunCompleted):
                print("  " * item.depth + f"{item.run_id} says: {item.output}")
        result = await run.result()
        print(result.output)
        print(f"{len(result.runs)} runs, {result.total_usage.tokens} tokens")


if __name__ == "__main__":
    asyncio.run(main())
