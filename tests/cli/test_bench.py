"""`runtree bench`: its model server, its figures, and two of its measurements, small, on a real Ray."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from runtree.bench.endpoint import Endpoint, endpoint
from runtree.bench.figures import Figure, Measurement, measurement, table
from runtree.messages.errors import ConfigurationError

from .conftest import Command


def ask(server: Endpoint, model: str, *, token: str | None = None, role: str = "user", **fields: int) -> httpx.Response:
    headers = {"authorization": f"Bearer {server.token if token is None else token}"}
    body = {"model": model, "messages": [{"role": role, "content": "go"}], **fields}
    text = json.dumps(body, separators=(",", ":"))
    return httpx.post(f"{server.base_url}/chat/completions", content=text, headers=headers, trust_env=False, timeout=20)


def test_the_model_server_answers_by_the_name_of_the_model_and_only_with_its_token() -> None:
    with endpoint() as server:
        assert ask(server, "burst-3").text.count('"content":"word "') == 3
        cut = ask(server, "burst-3", max_tokens=2).text
        assert (cut.count('"content":"word "'), cut.count('"length"')) == (2, 1)
        calls = ask(server, "calls-a:2,b:1").text
        assert [calls.count(f'"name":"{name}"') for name in "ab"] == [2, 1]
        assert ask(server, "lead-4").text.count('"name":"worker"') == 4
        assert '"content":"done"' in ask(server, "lead-4", role="tool").text
        assert ask(server, "burst-3", token="wrong").status_code == 401
        assert server.stats()["hanging"] == 0
    with pytest.raises(httpx.ConnectError):
        ask(server, "burst-3")


def test_the_model_server_ends_with_whoever_started_it() -> None:
    program = "from runtree.bench.endpoint import endpoint; import os\nwith endpoint() as s: print(s.base_url, flush=True); os._exit(1)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    address = done.stdout.strip()
    assert address, done.stderr
    for _ in range(1000):
        try:
            httpx.get(address, trust_env=False, timeout=5)
        except httpx.TransportError:
            return
    pytest.fail("the server still answers")


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="--listen"), endpoint("203.0.113.1"):
        pytest.fail("it listens")


def test_figures_as_a_table() -> None:
    figures = [
        Figure(name="baseline", value=434.2, unit="/s", ratio=1.0, note="twice"),
        Figure(name="a root", value=82722, unit="/s", ratio=190.6),
        Figure(name="wall", value=0.714, unit="s"),
        Figure(name="used", value=5, note="limit 5"),
    ]
    lines = table(measurement("stream", {"items": 10}, figures))
    assert lines[0].split() == ["measurement", "value", "ratio"]
    assert lines[1].split() == ["baseline", "434/s", "1.00", "x", "twice"]
    assert lines[2].split() == ["a", "root", "82,722/s", "191", "x"]
    assert lines[3].split() == ["wall", "0.71", "s"]
    assert lines[4].split() == ["used", "5", "limit", "5"]
    assert lines[-1].startswith("items 10; runtree ")


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(runtree: Command, tmp_path: Path) -> None:
    done = runtree("bench", "stream", "-o", str(tmp_path / "missing" / "file.json"))
    assert done.returncode == 2
    assert "its folder does not exist" in done.stderr


def test_every_measurement_explains_itself(runtree: Command) -> None:
    for name in ("stream", "fanout", "cancel", "budget"):
        assert "--output" in runtree("bench", name, "--help").stdout


@pytest.mark.long
@pytest.mark.usefixtures("ray_cluster")
def test_fanout_is_measured_beside_its_baseline_and_leaves_nothing(runtree: Command, tmp_path: Path) -> None:
    from tests.kit import ray_state

    file = tmp_path / "fanout.json"
    done = runtree("bench", "fanout", "--children", "2", "--deltas", "5", "--rounds", "1", "-o", str(file))
    assert done.returncode == 0, done.stderr
    assert "baseline: bare httpx" in done.stdout
    found = Measurement.from_json(file.read_text())
    assert found.settings == {"children": 2, "deltas": 5, "rounds": 1, "runs_per_actor": 1}
    assert all(figure.value > 0 for figure in found.figures)
    assert found.figures[1].ratio == pytest.approx(found.figures[0].value / found.figures[1].value)
    assert ray_state.namespaces_of("supervisor").count("runtree-bench") == 0


@pytest.mark.long
@pytest.mark.usefixtures("ray_cluster")
def test_a_cancel_is_measured_until_all_is_gone(runtree: Command) -> None:
    done = runtree("bench", "cancel", "--groups", "1", "--leaves", "1", "--blocking", "1", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    closed, ended, gone, _ = Measurement.from_json(done.stdout).figures
    assert closed.value > 0
    assert ended.name == "all 10 runs ended"
    assert 0 < ended.value <= gone.value
