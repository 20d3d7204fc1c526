"""An answer that another model went on with: what the first one asked for is void."""

from runtree.messages.content import ToolCallBlock
from runtree.messages.model import ModelResponse
from tests.kit.wires.check import response_of

from .answers import SIGNATURE, call, stream, text, thinking, whole
from .test_stream import decode

_SWITCH = whole(2, {"type": "fallback", "from": "m-1", "to": "m-2"})
_BEFORE = (thinking(0, "hm", signature=SIGNATURE) + text(1, "a"), call(5, "toolu_1", "get_weather", "{}"), _SWITCH)


def _response(*blocks: bytes, reason: str) -> ModelResponse:
    return response_of(decode([stream(*blocks, reason=reason)]))


def test_calls_before_the_switch_are_void() -> None:
    response = _response(*_BEFORE, text(6, "b"), reason="end_turn")
    assert (response.finish_reason, response.message.finish_reason) == ("stop", "stop")
    assert response.message.tool_calls == ()
    assert response.message.text == "ab"


def test_calls_after_the_switch_count() -> None:
    response = _response(*_BEFORE, call(6, "toolu_2", "get_weather", '{"a": 1}'), reason="tool_use")
    assert response.finish_reason == "tool_calls"
    assert [block.call_id for block in response.message.tool_calls] == ["toolu_2"]


def test_calls_between_two_switches_are_void() -> None:
    again = whole(7, {"type": "fallback", "from": "m-2", "to": "m-3"})
    response = _response(*_BEFORE, call(6, "toolu_2", "get_weather", "{}"), again, text(8, "b"), reason="end_turn")
    assert not any(isinstance(block, ToolCallBlock) for block in response.message.content)
