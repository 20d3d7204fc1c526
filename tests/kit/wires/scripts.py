"""Answers that every dialect is tried with."""

from .script import Called, Hidden, Said, Script, Thought

SIGNATURE = "EpQBCkYIBx+/AbC=="
CALL = Called("call_1a", "get_weather", ('{"city": "HALF', ' Zürich", "n": ', '"TAIL"}'))
ARGUMENTS = {"city": "HALF Zürich", "n": "TAIL"}

PLAIN = Script([Said(("Grüße ", "aus ", "🌲\u2028."))])
THINKING = Script([Thought(("Hm, ", "🤔 so."), SIGNATURE), Said(("Yes", " it is."))])
CALLING = Script([Thought(("I need ", "the weather."), SIGNATURE), Said(("Let me look.",)), CALL], "tool_calls")
PARALLEL = Script(
    [Said(("Both.",)), CALL, Called("call_2b", "now", ()), Called("call_3c", "get_weather", ('{"city": "Bern"}',))],
    "tool_calls",
)
ONLY_THOUGHT = Script([Thought(("Nothing to say.",), SIGNATURE)])
EMPTY = Script([Said(("",))])

INTERLEAVED = Script(
    [
        Thought(("first",), "sig-1=="),
        Hidden("opaque+1=="),
        Said(("a",)),
        Called("call_1a", "get_weather", ('{"city": "Bern"}',)),
        Thought((), "sig-2=="),
        Hidden("opaque+2=="),
        Said(("b",)),
        Thought(("third ", "thought"), "sig-3=="),
        Called("call_2b", "now", ()),
    ],
    "tool_calls",
)
"""Thought, text and calls in turn, with a thought that is nothing but its signature: for dialects that keep the order."""

ANSWERS = {
    "plain": PLAIN,
    "thinking": THINKING,
    "calling": CALLING,
    "parallel": PARALLEL,
    "only-thought": ONLY_THOUGHT,
    "empty": EMPTY,
}
