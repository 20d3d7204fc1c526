"""A target for `runtree run`."""

from pydantic import BaseModel

from runtree import Agent
from runtree.providers.scripted import ScriptedModel, tool_call


class Order(BaseModel):
    """What the clerk takes."""

    item: str
    count: int


echo = Agent(name="echo", model=ScriptedModel([["said\n", "done"]]))
lead = Agent(
    name="lead",
    model=ScriptedModel([[tool_call("echo", {"input": "hi"}), tool_call("broken", {"input": "hi"})], ["joined"]]),
    agents=[echo, Agent(name="broken", model=ScriptedModel([]))],
)
broken = Agent(name="broken", model=ScriptedModel([]))
clerk = Agent(name="clerk", model=ScriptedModel([["ok"]]), input_type=Order)
number = 3
