"""What is seen of servers of all manners, and which profile is made of it. No network."""

from dataclasses import replace
from typing import Any

import pytest

from runtree.providers.chat.profile import ChatProfile
from runtree.providers.wirecheck.fit import Fit, fit
from runtree.providers.wirecheck.observe import observe
from runtree.providers.wirecheck.paste import paste
from runtree.providers.wirecheck.report import report_of
from runtree.providers.wirecheck.seen import Seen

from .personality import TARGET, Personality, rehearse


def see(**manners: Any) -> Seen:
    return observe(rehearse(Personality(**manners))[0])


def fitted(**manners: Any) -> Fit:
    return fit(see(**manners), TARGET)


def said(**manners: Any) -> str:
    report = report_of(rehearse(Personality(**manners))[0])
    return "\n".join(finding.text for finding in report.findings)


def pasted(found: Fit) -> ChatProfile:
    """The profile that a user gets by pasting."""
    space: dict[str, Any] = {}
    exec(paste(found, "m-1"), space)  # noqa: S102  what is pasted has to run
    profile = space["PROFILE"]
    assert isinstance(profile, ChatProfile)
    assert space["model"].profile.reasoning_fields == profile.reasoning_fields
    return profile


def test_a_server_like_openai() -> None:
    seen = see()
    assert (seen.stream.framing, seen.stream.done, seen.stream.finish) == ("events", True, "stop")
    assert seen.usage.places == ("own event",)
    assert (seen.usage.cached, seen.usage.reasoning, seen.usage_unasked) == (True, True, False)
    assert seen.calls is not None
    assert (seen.calls.count, seen.calls.indexed, seen.calls.name_first) == (2, "all", True)
    flags = (seen.calls.repeats_id, seen.calls.repeats_name, seen.calls.whole, seen.calls.lacks_id)
    assert flags == (False, False, False, False)
    assert seen.ids_again is False
    assert seen.reasoning.fields == ("reasoning_content",)
    assert seen.replay == {"reasoning_content": "honoured", "reasoning": "ignored"}
    assert seen.replay_needed is False
    assert seen.fields["max_tokens"] == seen.fields["max_completion_tokens"] == "honoured"
    assert seen.fields["response_format json_schema"] == "honoured"
    assert seen.bad_request is not None
    assert (seen.bad_request.status, seen.bad_request.shape) == (400, "{error: {code, message, param, type}}")
    assert seen.bad_key is not None
    assert (seen.bad_key.code, seen.key_checked) == ("authentication", True)


@pytest.mark.parametrize(
    "calls, facts",
    [
        ("whole", {"whole": True, "indexed": "all", "name_first": False}),
        ("no_index", {"whole": True, "indexed": "none"}),
        ("same_index", {"indexed": "same for all", "count": 2}),
        ("repeats_id", {"repeats_id": True, "repeats_name": False, "count": 2}),
        ("repeats_name", {"repeats_id": False, "repeats_name": True, "count": 2}),
        ("no_id", {"lacks_id": True, "ids": (), "count": 2}),
        ("object", {"objects": True, "count": 2}),
    ],
)
def test_calls(calls: str, facts: dict[str, Any]) -> None:
    seen = see(calls=calls).calls
    assert seen is not None
    assert {name: getattr(seen, name) for name in facts} == facts


def test_calls_only_when_required() -> None:
    seen = see(calls="required")
    assert seen.choice_required
    assert seen.calls is not None
    assert seen.calls.count == 2
    assert "only when one was required" in said(calls="required")


def test_no_calls_at_all_still_shows_the_rest() -> None:
    seen = see(calls="none", tools_in_prompt=False)
    assert seen.fields["tools"] == seen.fields["tool_choice required"] == "ignored"
    assert seen.results == "accepted"
    assert "takes back the results of a call that was made up" in said(calls="none")
    assert "leaves tools out of the prompt" in said(calls="none", tools_in_prompt=False)
    assert "leaves tools out of the prompt" not in said(calls="none")


@pytest.mark.parametrize(
    "usage, places",
    [("own", ("own event",)), ("finish", ("event with the finish",)), ("every", ("every event",)), ("none", ())],
)
def test_places_of_usage(usage: str, places: tuple[str, ...]) -> None:
    seen = see(usage=usage)
    assert seen.usage.places == places
    assert (seen.usage.input_tokens is None) == (usage == "none")


def test_without_usage_no_verdict_is_guessed() -> None:
    """U01: what nobody reported is unknown, not zero."""
    seen = see(usage="none")
    assert seen.replay == {"reasoning_content": "accepted", "reasoning": "accepted"}
    report = report_of(rehearse(Personality(usage="none"))[0])
    assert (report.tokens, report.untold > 5) == (0, True)


def test_answers_without_an_end() -> None:
    """P05: a stream that is cut is no answer."""
    report = report_of(rehearse(Personality(finish=False, done=False))[0])
    assert any("was cut: neither a finish reason nor [DONE]" in finding.text for finding in report.findings)
    assert any("the stream ended before the answer was finished" in problem for problem in report.problems)
    assert report_of(rehearse(Personality(done=False))[0]).problems == ()
    assert "and without [DONE]" in said(done=False)
    assert "ends with [DONE] and without a finish reason" in said(finish=False)


def test_json_where_events_were_asked_for() -> None:
    report = report_of(rehearse(Personality(streams=False))[0])
    assert report.problems == ()
    assert "ignores stream: true" in report.findings[0].text
    assert report.seen is not None
    assert report.seen.usage.places == ("the body",)


def test_comments_keep_alive() -> None:
    seen = see(comments=b": ping\n\n: ping\n\n")
    assert seen.stream.comments == {"ping": 2}
    assert "comments: 'ping' 2 times" in said(comments=b": ping\n\n: ping\n\n")


def test_profile_for_reasoning_in_an_unknown_field() -> None:
    profile = pasted(fitted(reasoning="thoughts"))
    assert profile.reasoning_fields[0] == "thoughts"
    assert profile.think_tags is False


@pytest.mark.parametrize("reasoning, opened", [("think", False), ("opened", True)])
def test_profile_for_reasoning_between_tags(reasoning: str, opened: bool) -> None:
    profile = pasted(fitted(reasoning=reasoning))
    assert profile.think_tags
    assert profile.think_opened is opened


def test_profile_for_signed_details() -> None:
    """K01: what is signed goes back as it came."""
    found = fitted(reasoning="details", replay="reasoning_details")
    profile = pasted(found)
    assert (profile.reasoning_replay, profile.replay_shape) == ("reasoning_details", "details")


def test_profile_for_thinking_parts() -> None:
    seen = see(reasoning="parts")
    assert seen.reasoning.part == "thinking"
    assert seen.replay["content"] in ("ignored", "accepted", "honoured")


def test_profile_for_a_history_that_needs_its_reasoning() -> None:
    seen = see(needed="reasoning_content")
    assert seen.replay_needed
    assert seen.replay["reasoning"] == "refused"
    assert pasted(fit(seen, TARGET)).reasoning_replay == "reasoning_content"
    assert "a history without its reasoning is refused" in said(needed="reasoning_content")


def test_profile_leaves_out_what_is_refused() -> None:
    refused = ("reasoning_content", "reasoning", "response_format", "stream_options")
    profile = pasted(
        fitted(refused=refused, bounds=("max_completion_tokens",), roles=("developer", "user", "assistant", "tool"))
    )
    assert profile.reasoning_replay is None
    assert profile.include_usage is False
    assert profile.native_output_schema is False
    assert profile.max_tokens_field == "max_completion_tokens"
    assert profile.system_role == "developer"


def test_profile_has_what_is_of_the_endpoint_alone() -> None:
    profile = pasted(fitted())
    assert (profile.base_url, profile.secret_name, profile.key_required) == (TARGET.base_url, "GATEWAY_KEY", True)
    assert profile.base_url_variable is None
    assert profile.thinks


def test_signs_of_a_family_beat_all_manners() -> None:
    found = fitted(extra=(("timings", {"prompt_n": 1}),), reasoning=None)
    assert (found.name, found.profile.provider) == ("LLAMA_CPP", "llama.cpp")
    assert "`timings` in events" in found.reason
    assert fitted().name == "GENERIC"


def test_the_address_beats_all_signs() -> None:
    seen = see(extra=(("timings", {}),))
    assert fit(seen, replace(TARGET, base_url="https://api.deepseek.com/v1")).name == "DEEPSEEK"


def test_tools_that_are_refused() -> None:
    report = report_of(rehearse(Personality(refused=("tools",)))[0])
    assert any(
        "a streamed answer with tools: property 'tools' is unsupported" in problem for problem in report.problems
    )
    assert report.seen is not None
    assert report.seen.calls is None
    assert report.fit is not None
    assert report.fit.profile.tools is False


def test_no_key_stands_anywhere() -> None:
    """L3: keys are in no report."""
    report = report_of(rehearse(Personality())[0])
    assert TARGET.key is not None
    assert TARGET.key not in report.to_json()
    assert TARGET.key not in repr(TARGET)


def test_proofs_of_reasoning_are_sent_back_where_they_came() -> None:
    """K01: a signature in a field of its own, and data of a call that only the server can make."""
    progress, _ = rehearse(Personality(reasoning="reasoning_text"))
    recording = progress.recordings["tools"]
    signed = recording.body.replace(
        b'"reasoning_text": "a tool', b'"reasoning_seal_signature": "c2ln", "reasoning_text": "a tool'
    )
    signed = signed.replace(b'"id": "call_0",', b'"id": "call_0", "thought_signature": "c2ln",')
    progress.recordings["tools"] = replace(recording, reads=((0.1, signed),))
    profile = pasted(fit(observe(progress), TARGET))
    assert profile.signature_field == "reasoning_seal_signature"
    assert profile.kept_fields == ("extra_content", "thought_signature")


def test_names_from_the_server_never_become_code() -> None:
    field = "reasoning\nraise SystemExit('run')  #"
    found = fitted(reasoning=field)
    assert "SystemExit" not in paste(found, "m-1")
    assert "SystemExit" not in paste(found.model_copy(update={"notes": {"thinks": field}}), "m-1").replace(
        "# reasoning raise", ""
    )
    pasted(found)


def test_a_refusal_that_no_other_form_changes_ends_the_check() -> None:
    progress, _ = rehearse(Personality(), replace(TARGET, key="another-key"))
    assert list(progress.recordings) == ["models", "hello"]
