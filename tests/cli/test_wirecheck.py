"""`runtree wirecheck` against a real server on loopback that plays servers of several manners."""

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runtree.cli import wirecheck_view
from runtree.cli.wirecheck_view import lines_of, show
from runtree.providers.wirecheck.report import report_of
from tests.kit.loopback import Answer, Loopback, body, running
from tests.providers.wirecheck.personality import TARGET, Personality, rehearse

from .conftest import Command, Done

KEY = "own-key-123"
Check = Callable[..., Done]


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with running() as server:
        yield server


@pytest.fixture
def check(loopback: Loopback, runtree: Command, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Check a server of these manners, or one that gives this answer always."""

    def call(*arguments: str, answer: Answer | None = None, **manners: Any) -> Done:
        answers = [answer] if answer else rehearse(Personality(**manners))[1]
        route = asyncio.run(loopback.route(*answers))
        monkeypatch.setenv("GATEWAY_KEY", KEY)
        options = ("--model", "m-1", "--api-key-env", "GATEWAY_KEY", "--timeout", "10")
        return runtree("wirecheck", route.base_url, *options, *arguments)

    return call


def pasted(done: Done) -> str:
    """What stands below "to paste", as a user copies it."""
    block = done.stdout.partition("to paste\n")[2].rpartition("\n\n")[0]
    return "\n".join(line.removeprefix("    ") for line in block.splitlines())


def profile_of(done: Done) -> Any:
    space: dict[str, Any] = {}
    exec(pasted(done), space)  # noqa: S102  what is pasted has to run
    return space["PROFILE"]


def test_a_server_as_it_should_be(check: Check) -> None:
    done = check()
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    for line in (
        "  + server-sent events, content type text/event-stream",
        "  + the answer with tools ends with finish reason 'tool_calls' and [DONE]",
        "  + streams usage, in an event of its own, without choices",
        "  + parallel calls in one answer: 2 calls in 4 pieces",
        "    arrives in the field reasoning_content",
        "  + max_completion_tokens: honoured",
        "profile: GENERIC",
    ):
        assert line in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1].startswith("holds the conversation · 14 requests · ")
    assert profile_of(done).reasoning_replay == "reasoning_content"


@pytest.mark.parametrize(
    "manners, line, facts",
    [
        ({"calls": "no_index"}, "no piece has an index", {}),
        ({"calls": "repeats_id"}, "ids look like 'call_0' and come again in later pieces", {}),
        ({"calls": "repeats_name"}, "names come again in later pieces", {}),
        ({"reasoning": "think"}, "arrives in the text, between <think> tags", {"think_tags": True}),
        ({"usage": "none"}, "tells no usage in a stream: tokens can only be estimated", {}),
        ({"streams": False}, "ignores stream: true and answers with one JSON body, content type application/json", {}),
        ({"key": None}, "a wrong key is accepted: keys are not checked", {"key_required": False}),
        (
            {"refused": ("stream_options",)},
            "stream_options: refused (property 'stream_options' is unsupported)",
            {"include_usage": False},
        ),
        (
            {"bounds": ("max_completion_tokens",)},
            "max_tokens: refused (Unsupported parameter: max_tokens)",
            {"max_tokens_field": "max_completion_tokens"},
        ),
        (
            {"needed": "reasoning_content"},
            "takes back the results only together with the reasoning",
            {"reasoning_replay": "reasoning_content"},
        ),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, dict) else "",
)
def test_manners(check: Check, manners: dict[str, Any], line: str, facts: dict[str, Any]) -> None:
    done = check(**manners)
    assert (done.returncode, done.stderr) == (0, "")
    assert line in [printed[4:] for printed in done.stdout.splitlines()]
    profile = profile_of(done)
    assert {name: getattr(profile, name) for name in facts} == facts


def test_p05_answers_that_are_cut_fail(check: Check) -> None:
    done = check(finish=False, done=False)
    assert done.returncode == 1
    assert "  ! the answer was cut: neither a finish reason nor [DONE]" in done.stdout.splitlines()
    assert "error: a streamed answer: the stream ended before the answer was finished" in done.stderr.splitlines()
    assert done.stdout.splitlines()[-1].startswith("fails the conversation · ")


def test_a_refused_key_fails(check: Check) -> None:
    done = check(answer=body(f'{{"error": {{"message": "bad key {KEY}", "code": "invalid_api_key"}}}}', 401))
    assert done.returncode == 1
    assert done.stderr == "error: the first request is refused: bad key *** (HTTP 401, authentication)\n"
    assert KEY not in done.stdout


def test_without_a_key_the_option_is_named(loopback: Loopback, runtree: Command) -> None:
    route = asyncio.run(loopback.route(body('{"error": {"message": "no key"}}', 401)))
    done = runtree("wirecheck", route.base_url, "--model", "m-1")
    assert done.returncode == 1
    assert "--api-key-env NAME" in done.stderr


def test_a_web_page_fails(check: Check) -> None:
    done = check(answer=body("<!doctype html><title>Hi</title>", content_type="text/html"))
    assert done.returncode == 1
    assert (
        "  ! answers with a web page, content type text/html: the address is not that of an API"
        in done.stdout.splitlines()
    )
    assert "to paste" not in done.stdout


def test_nobody_there_fails(runtree: Command) -> None:
    done = runtree("wirecheck", "http://127.0.0.1:9/v1", "--model", "m-1")
    assert done.returncode == 1
    assert done.stderr.startswith("error: can't connect to 127.0.0.1:9: ")


def test_json_is_all_of_it(check: Check) -> None:
    done = check("--json")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["seen"]["calls"]["count"] == 2
    assert report["fit"]["name"] == "GENERIC"
    assert report["problems"] == []
    assert "PROFILE = ChatProfile(" in report["paste"]
    assert KEY not in done.stdout


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("localhost:8080",), "base_url"),
        (("http://user:word@host/v1",), "it has credentials in it"),
        (("http://host/v1", "--api-key-env", "NOT_SET_ANYWHERE"), "--api-key-env: NOT_SET_ANYWHERE is not set"),
        (("http://host/v1", "--extra-body", "{"), "--extra-body: it is no JSON"),
        (("http://host/v1", "--extra-body", "[1]"), "--extra-body: it is no JSON object"),
    ],
)
def test_usage_errors(runtree: Command, arguments: tuple[str, ...], words: str) -> None:
    done = runtree("wirecheck", *arguments, "--model", "m-1")
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [(), ("http://host/v1",), ("http://host/v1", "--model", "m", "--timeout", "0")])
def test_missing_arguments(runtree: Command, arguments: tuple[str, ...]) -> None:
    assert runtree("wirecheck", *arguments).returncode == 2


def test_on_a_terminal_lines_have_colours_and_code_is_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(wirecheck_view, "stdout", lambda: screen)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    report = report_of(rehearse(Personality())[0])
    show(lines_of(report))
    assert "\x1b[32m" in screen.getvalue()
    assert report.paste is not None
    assert max(map(len, report.paste.splitlines())) > 60
    assert "native_output_schema=True,  # response_format json_schema is honoured" in screen.getvalue()


def test_the_key_is_not_shown_by_the_options(runtree: Command) -> None:
    done = runtree("wirecheck", "--help")
    assert "--api-key-env NAME" in done.stdout
    assert TARGET.key is not None
    assert TARGET.key not in done.stdout
