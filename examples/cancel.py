"""One call ends a whole tree: `python examples/cancel.py`.

A lead starts two sub-agents. One thinks for ever, the other works in a tool that looks at its cancel flag.
"""

import asyncio

from runtree import Agent, Runtime, ToolContext, tool
from runtree.messages import ModelRequest, RunCancelled, ToolProgress
from runtree.providers.scripted import Hang, Part, ScriptedModel, tool_call


@tool
async def count(context: ToolContext) -> str:
    """Count for ever, or until the run is cancelled."""
    number = 0
    while not context.cancelled.is_cancelled():
        number += 1
        await context.progress(f"{number}")
        await asyncio.sleep(0.2)
    return f"stopped at {number}"


def ask_both(_request: ModelRequest) -> list[Part]:
    return [tool_call("thinker", {"input": "think"}), tool_call("counter", {"input": "count"})]


thinker = Agent(name="thinker", model=ScriptedModel([["I think", Hang()]]))
counter = Agent(name="counter", model=ScriptedModel([[tool_call("count")]]), tools=[count])
lead = Agent(name="lead", model=ScriptedModel([ask_both]), agents=[thinker, counter])


async def main() -> None:
    async with Runtime() as runtime:
        run = await runtime.start(lead, "Begin.")
        async for item in run:
            if isinstance(item, ToolProgress) and item.message == "3":
                report = await run.cancel(reason="it was enough", grace=2.0)
                print(f"{len(report.cancelled)} ended by themselves, {len(report.killed)} were killed")
            if isinstance(item, RunCancelled):
                print(f"{item.run_id} cancelled: {item.reason}")


if __name__ == "__main__":
    asyncio.run(main())
