"""The check against a real server: llama.cpp with a small model, on loopback."""

from pathlib import Path
from typing import Any

import pytest

from runtree.messages.model import ModelRequest, ModelSettings
from runtree.messages.transcript import UserMessage
from runtree.providers.local import weights
from runtree.providers.local.server import ensure_server, release_server
from runtree.providers.wirecheck.conversation import hold
from runtree.providers.wirecheck.report import report_of
from runtree.providers.wirecheck.wire import Target

pytestmark = [pytest.mark.local_model, pytest.mark.timeout(180)]


@pytest.fixture
async def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    pytest.importorskip("xllamacpp", reason='NO LOCAL MODEL TESTED: pip install "runtree[local]"')
    if weights.find("smollm2") is None:
        pytest.skip("NO LOCAL MODEL TESTED: runtree models pull smollm2")
    monkeypatch.setenv("RUNTREE_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("RUNTREE_LOCAL_LINGER", "0.5")
    address = await ensure_server("smollm2")
    return Target(address.base_url, "smollm2", address.api_key, "LLAMA_API_KEY", timeout=120.0, max_tokens=24)


async def test_llama_cpp(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    assert target.key is not None
    monkeypatch.setenv("LLAMA_API_KEY", target.key)
    try:
        report = report_of(await hold(target))
        space: dict[str, Any] = {}
        exec(report.paste or "", space)  # noqa: S102  what is pasted has to run
        request = ModelRequest(messages=(UserMessage.of("Hello"),), settings=ModelSettings(max_output_tokens=8))
        events = [event async for event in space["model"].stream(request)]
    finally:
        release_server("smollm2")
    assert report.problems == ()
    assert report.fit is not None
    assert (report.fit.name, report.fit.differences) == ("LLAMA_CPP", ())
    assert report.seen is not None
    assert report.seen.usage.places == ("own event",)
    assert report.seen.fields["response_format json_schema"] in ("honoured", "accepted")
    assert report.seen.key_checked
    assert events[-1].kind == "completed"
