"""The check on a real wire: what is sent, what is recorded, and how long anything may take."""

from dataclasses import replace
from typing import Any

import pytest

from runtree.providers.wirecheck import conversation
from runtree.providers.wirecheck.conversation import hold
from runtree.providers.wirecheck.observe import observe
from runtree.providers.wirecheck.recording import Recording
from runtree.providers.wirecheck.report import Report, report_of
from runtree.providers.wirecheck.wire import MAX_BYTES, Target, ask
from tests.kit.loopback import Answer, Loopback, Route, body, cut, hang, reset, send
from tests.providers.answers import chunk, frame

from .personality import TARGET, Personality, rehearse

HELLO = {"model": "m-1", "messages": []}


def at(route: Route, **changes: Any) -> Target:
    return replace(TARGET, base_url=route.base_url, timeout=10.0, **changes)


async def check(route: Route, **changes: Any) -> Report:
    return report_of(await hold(at(route, **changes)))


async def record(route: Route, **changes: Any) -> Recording:
    target = at(route, **changes)
    return await ask(target, "/chat/completions", HELLO, key=target.key)


async def test_the_wire_shows_what_the_recordings_do(loopback: Loopback) -> None:
    progress, answers = rehearse(Personality(comments=b": ping\n\n"))
    route = await loopback.route(*answers)
    told: list[str] = []
    live = await hold(at(route), lambda probe: told.append(probe.name))
    assert list(live.recordings) == list(progress.recordings) == told
    timed = {"first_byte", "longest_gap", "seconds"}
    seen, expected = observe(live), observe(progress)
    assert seen.stream.model_dump(exclude=timed) == expected.stream.model_dump(exclude=timed)
    assert seen.model_dump(exclude={"stream", "tool_stream", "unary"}) == expected.model_dump(
        exclude={"stream", "tool_stream", "unary"}
    )
    requests = await route.requests()
    assert [request["method"] for request in requests] == ["GET", *["POST"] * (len(told) - 1)]
    keys = {request["headers"]["authorization"] for request in requests}
    assert keys == {f"Bearer {TARGET.key}", "Bearer wirecheck-not-a-key"}


async def test_every_request_is_bounded_in_tokens(loopback: Loopback) -> None:
    route = await loopback.route(*rehearse(Personality())[1])
    await hold(at(route, max_tokens=300))
    asked = [request["json"] for request in await route.requests() if request["json"]]
    bounds = [request.get("max_tokens", request.get("max_completion_tokens")) for request in asked]
    assert all(bound is not None and bound <= 300 for bound in bounds)


async def test_fields_of_the_user_and_another_header_for_the_key(loopback: Loopback) -> None:
    route = await loopback.route(*rehearse(Personality())[1])
    report = await check(route, extra_body={"enable_thinking": True}, key_header="api-key")
    requests = await route.requests()
    assert requests[1]["json"]["enable_thinking"] is True
    assert requests[1]["headers"]["api-key"] == TARGET.key
    assert report.paste is not None
    assert 'key_header="api-key"' in report.paste
    assert 'extra_body={"enable_thinking": True}' in report.paste


async def test_p06_a_stream_that_breaks(loopback: Loopback) -> None:
    start = frame(chunk({"content": "Hel"}))
    for step in (cut(), reset()):
        route = await loopback.route(body("{}"), Answer([send(start), step]))
        report = await check(route)
        assert any("the connection to 127.0.0.1" in problem for problem in report.problems)
        assert any("the answer broke off" in finding.text for finding in report.findings)


async def test_p06_silence_is_bounded(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(frame(chunk({"content": "Hel"}))), hang()]))
    recording = await ask(replace(at(route), timeout=0.2), "/chat/completions", HELLO, key=None)
    assert recording.bound == "time"
    assert recording.fault == "it was not done after 0.2 s"
    assert b"Hel" in recording.body


async def test_size_is_bounded(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(b"x" * (MAX_BYTES + 10)), hang()]))
    assert (await record(route)).bound == "bytes"


async def test_p19_a_repeated_key_is_not_recorded(loopback: Loopback) -> None:
    assert TARGET.key is not None
    first, second = TARGET.key[:4], TARGET.key[4:]
    answer = Answer([send(f"bad key {first}"), send(second)], 401, {"x-key": TARGET.key})
    recording = await record(await loopback.route(answer))
    assert recording.body == b"bad key ***"
    assert recording.headers["x-key"] == "***"
    assert TARGET.key not in repr(recording)


async def test_p18_a_busy_server_is_asked_once_more(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "LONGEST_PAUSE", 0.01)
    models, hello, *rest = rehearse(Personality())[1]
    busy = body('{"error": {"message": "slow down"}}', 429, retry_after="30")
    route = await loopback.route(models, busy, hello, *rest)
    assert (await check(route)).problems == ()


async def test_a_connection_that_was_closed_meanwhile_is_no_verdict(loopback: Loopback) -> None:
    answers = rehearse(Personality())[1]
    gone = Answer(before=[reset()])
    route = await loopback.route(*answers[:3], gone, *answers[3:])
    report = await check(route)
    assert report.problems == ()
    assert report.seen is not None
    assert (report.seen.unanswered, report.seen.fields["max_tokens"]) == ({}, "honoured")


async def test_what_fails_for_other_reasons_is_not_known(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "LONGEST_PAUSE", 0.01)
    answers = rehearse(Personality())[1]
    busy = body('{"error": {"message": "slow down"}}', 429)
    route = await loopback.route(*answers[:3], busy, busy, *answers[4:])
    report = await check(route)
    assert report.seen is not None
    assert "max_tokens" not in report.seen.fields
    assert report.seen.unanswered == {"whether max_tokens is kept": "HTTP 429: slow down"}
    assert any(finding.topic == "not known" for finding in report.findings)


@pytest.mark.parametrize(
    "answer, words",
    [
        (body("<html><title>Welcome</title></html>", content_type="text/html"), "the stream ended before|web page"),
        (body("<html><title>No</title></html>", 404, "text/html"), "/v1/chat/completions was asked"),
        (body('{"error": "no such model"}', 404), "no such model (HTTP 404, model_not_found)"),
        (body('{"detail": "Invalid API Key"}', 401), "Invalid API Key (HTTP 401, authentication)"),
        (body("", 307, location="http://elsewhere.test/v1"), "http://elsewhere.test/v1"),
        (body("", 200), "the stream ended before"),
        (body("\x00\xff nonsense"), "the stream ended before"),
    ],
    ids=["page", "missing page", "model", "key", "redirect", "nothing", "garbage"],
)
async def test_addresses_that_are_no_chat(loopback: Loopback, answer: Answer, words: str) -> None:
    report = await check(await loopback.route(answer))
    assert report.requests == 2
    assert any(word in problem for word in words.split("|") for problem in report.problems), report.problems
    assert report.paste is None


async def test_a_model_that_is_not_there_brings_the_list(loopback: Loopback) -> None:
    models, *_ = rehearse(Personality())[1]
    route = await loopback.route(models, body('{"error": {"code": "model_not_found", "message": "no m-2"}}', 404))
    report = await check(route, model="m-2")
    assert report.problems == ("the first request is refused: no m-2 (HTTP 404, model_not_found). Models there: m-1",)


async def test_nobody_there(loopback: Loopback) -> None:
    route = await loopback.route(body("{}"))
    target = replace(at(route), base_url="http://127.0.0.1:9/v1")
    report = report_of(await hold(target))
    assert report.requests == 2
    assert "can't connect to 127.0.0.1:9" in report.problems[0]
