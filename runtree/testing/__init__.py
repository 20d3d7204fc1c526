"""What tests of programs on runtree need: a model that says what a test wants to hear.

from runtree.testing import ScriptedModel, tool_call

model = ScriptedModel([[tool_call("search", {"query": "ray"})], ["Ray is ", "a runtime."]])
"""

from ..providers.scripted import Delay, Hang, ScriptedModel, Turn, reasoning, text, tool_call

__all__ = ["Delay", "Hang", "ScriptedModel", "Turn", "reasoning", "text", "tool_call"]
