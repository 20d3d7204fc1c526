"""An agent that has itself as a sub-agent, held by a depth limit: `python examples/nested.py`.

It splits a number in two until the parts are one, or until the limit tells it to stop.
"""

import asyncio

from runtree import Agent, Limits, Runtime
from runtree.messages import ModelRequest, RunStarted
from runtree.providers.scripted import Part, ScriptedModel, tool_call


def split(request: ModelRequest) -> list[Part]:
    number = int(request.messages[0].content[0].text)
    if number == 1:
        return ["1"]
    return [tool_call("splitter", {"input": str(part)}) for part in (number // 2, number - number // 2)]


def gather(request: ModelRequest) -> list[Part]:
    results = request.messages[-1].results
    return ["(", " + ".join(result.text if result.outcome == "ok" else "…" for result in results), ")"]


splitter = Agent(
    name="splitter",
    description="Splits a number in two.",
    model=ScriptedModel([split, gather]),
    agents=["splitter"],
)


async def main() -> None:
    async with Runtime() as runtime:
        run = await runtime.start(splitter, "6", limits=Limits(max_depth=2))
        async for item in run:
            if isinstance(item, RunStarted):
                print("  " * item.depth + item.agent)
        print((await run.result()).output)


if __name__ == "__main__":
    asyncio.run(main())
