"""The check by way of the model classes of the responses and the messages protocols."""

from dataclasses import replace
from typing import Any

import pytest

from runtree.providers.wirecheck.report import Report
from runtree.providers.wirecheck.talk import TalkProtocol, talk
from runtree.providers.wirecheck.talk_report import talk_report
from tests.kit.loopback import Answer, Loopback, Route, body, send
from tests.kit.wires.anthropic import AnthropicWire
from tests.kit.wires.responses import ResponsesWire
from tests.kit.wires.script import Called, Part, Said, Script, Thought

from .personality import TARGET

WIRES: dict[TalkProtocol, Any] = {"anthropic": AnthropicWire(), "responses": ResponsesWire()}
SAID: list[Part] = [Said(("Hello ", "there."))]
CALLED: list[Part] = [
    Thought(("I have a ", "tool."), "c2ln"),
    Called("call_1", "get_weather", ('{"city": ', '"Paris"}')),
    Called("call_2", "get_weather", ('{"city": "Oslo"}',)),
]

pytestmark = pytest.mark.parametrize("protocol", ["anthropic", "responses"])


async def served(loopback: Loopback, protocol: TalkProtocol, *, checked: bool = True) -> Route:
    wire = WIRES[protocol]
    hello, called = Script(SAID), Script(CALLED, "tool_calls")
    wrong = body(wire.error_body("authentication", "bad key"), 401) if checked else body(wire.body(hello))
    streams = [Answer([send(b"".join(wire.frames(script)))]) for script in (hello, called, hello)]
    return await loopback.route(*streams, body(wire.body(hello)), wrong)


async def check(route: Route, protocol: TalkProtocol) -> Report:
    target = replace(TARGET, base_url=route.base_url.removesuffix("/v1") if protocol == "anthropic" else route.base_url)
    return talk_report(target, protocol, await talk(target, protocol))


def texts(report: Report) -> str:
    return "\n".join(f"{finding.topic}: {finding.text}" for finding in report.findings)


async def test_a_whole_conversation(loopback: Loopback, protocol: TalkProtocol) -> None:
    route = await served(loopback, protocol)
    report = await check(route, protocol)
    assert report.problems == ()
    assert (report.requests, report.tokens) == (5, 4 * 29)
    for words in (
        "usage: streams usage",
        "tool calls: calls: 2, in 5 pieces, ids look like 'call_1'",
        "tool calls: the name comes before the arguments",
        "tool calls: takes back the results",
        "reasoning: taken back as it was",
        "in one piece: stream: false gives one body",
        "errors: a wrong key: HTTP 401, taken for authentication: 'bad key'",
    ):
        assert words in texts(report)
    sent = [request["json"] for request in await route.requests()]
    assert "c2ln" in str(sent[2])


async def test_what_is_pasted_runs(loopback: Loopback, protocol: TalkProtocol, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_KEY", "own-key-123")
    report = await check(await served(loopback, protocol), protocol)
    assert report.paste is not None
    assert "own-key-123" not in report.to_json()
    space: dict[str, Any] = {}
    exec(report.paste, space)  # noqa: S102  what is pasted has to run
    assert space["model"].profile.model == "m-1"


async def test_keys_that_are_not_checked(loopback: Loopback, protocol: TalkProtocol) -> None:
    report = await check(await served(loopback, protocol, checked=False), protocol)
    assert "errors: a wrong key is accepted: keys are not checked" in texts(report)


async def test_it_ends_with_the_first_failure(loopback: Loopback, protocol: TalkProtocol) -> None:
    wire = WIRES[protocol]
    report = await check(await loopback.route(body(wire.error_body("authentication", "bad key"), 401)), protocol)
    assert report.requests == 1
    assert report.problems == ("a streamed answer: bad key (authentication)",)
    assert report.paste is None
    cut = b"".join(wire.frames(Script(SAID))[:-1])
    report = await check(await loopback.route(Answer([send(cut)])), protocol)
    assert "(protocol)" in report.problems[0]
