"""Local models: real weights on the real server, in processes of its own, and no Ray."""

import json
import os
import pickle
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx
import pytest

from runtree.messages.errors import LocalModelError
from runtree.messages.model import Completed, ModelRequest, ModelSettings, TextDelta
from runtree.messages.transcript import UserMessage
from runtree.providers.local import weights
from runtree.providers.local.errors import LocalServerError
from runtree.providers.local.lock import FileLock
from runtree.providers.local.model import LocalModel
from runtree.providers.local.server import ensure_server, release_server
from runtree.providers.local.server_files import ServerAddress, ServerFiles
from runtree.providers.registry import resolve
from tests.kit.eventually import eventually

_USER = """
import anyio, json, sys
from runtree.providers.local.server import ensure_server
address = anyio.run(ensure_server, "smollm2")
print(json.dumps([address.base_url, address.api_key]), flush=True)
sys.stdin.read()
"""

local_model = pytest.mark.local_model
slow = pytest.mark.timeout(180)  # a busy machine may take long to load a model


class User:
    """A process that uses this node's server until it is ended."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _USER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def address(self) -> ServerAddress:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the user ended without an address"
        return ServerAddress(*json.loads(line))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture(scope="session")
def model_file() -> Path:
    """The weights, fetched into the developer's cache if they aren't on this machine."""
    pytest.importorskip("xllamacpp", reason='NO LOCAL MODEL TESTED: pip install "runtree[local]"')
    try:
        return weights.pull("smollm2")
    except LocalModelError as error:
        pytest.skip(f"NO LOCAL MODEL TESTED: {error}")


@pytest.fixture(scope="module")
def shared_home(model_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pytest.MonkeyPatch]:
    """Folders for the tests that share one server."""
    with pytest.MonkeyPatch.context() as patch:
        _settle(patch, tmp_path_factory.mktemp("local"), model_file)
        yield patch


@pytest.fixture(scope="module")
def served(shared_home: pytest.MonkeyPatch) -> Iterator[ServerAddress]:
    """The address of a running server."""
    user = User()
    try:
        yield user.address()
    finally:
        user.kill()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_file: Path) -> Path:
    """Folders for a test that starts a server of its own."""
    _settle(monkeypatch, tmp_path, model_file)
    return tmp_path


def _settle(patch: pytest.MonkeyPatch, folder: Path, model_file: Path) -> None:
    (folder / "cache" / "models").mkdir(parents=True)
    (folder / "cache" / "models" / model_file.name).symlink_to(model_file)
    patch.setenv("RUNTREE_CACHE", str(folder / "cache"))
    patch.setenv("RUNTREE_RUNTIME_DIR", str(folder / "run"))
    patch.setenv("RUNTREE_LOCAL_LINGER", "0.5")


def _client(address: ServerAddress, token: str | None = None) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {token or address.api_key}"}
    return httpx.AsyncClient(base_url=address.base_url, headers=headers, timeout=120, trust_env=False)


def _body(text: str, **fields: object) -> dict[str, object]:
    return {"model": "smollm2", "messages": [{"role": "user", "content": text}], "max_tokens": 16, **fields}


@local_model
@slow
async def test_the_server_streams_text_and_usage(served: ServerAddress) -> None:
    body = _body("What is the sea?", stream=True, stream_options={"include_usage": True})
    text, usage = "", None
    async with _client(served) as client, client.stream("POST", "/chat/completions", json=body) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                chunk = json.loads(line.removeprefix("data: "))
                text += "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
                usage = chunk.get("usage") or usage
    assert text.strip()
    assert usage is not None
    assert 0 < usage["completion_tokens"] <= 16


@local_model
@slow
async def test_a_wrong_token_is_refused(served: ServerAddress) -> None:
    async with _client(served, "guessed") as client:
        response = await client.post("/chat/completions", json=_body("Hello"))
    assert response.status_code == 401


@local_model
@slow
async def test_a_request_beyond_the_context_is_refused_by_name(served: ServerAddress) -> None:
    async with _client(served) as client:
        response = await client.post("/chat/completions", json=_body("word " * 5000))
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "exceed_context_size_error"


@local_model
@slow
def test_two_processes_share_a_server(served: ServerAddress) -> None:
    other = User()
    try:
        assert other.address() == served
    finally:
        other.kill()


@local_model
@slow
async def test_the_token_is_private_and_out_of_reprs(served: ServerAddress) -> None:
    files = ServerFiles("smollm2")
    assert stat.S_IMODE((files.folder / f"{files.stem}.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700
    assert served.api_key not in repr(served)


@local_model
@slow
async def test_the_model_streams_events_and_ends_with_completed(served: ServerAddress) -> None:
    model = resolve("local:smollm2")
    request = ModelRequest(messages=(UserMessage.of("What is the sea?"),), settings=ModelSettings(max_output_tokens=16))
    try:
        events = [event async for event in model.stream(request)]
    finally:
        release_server("smollm2")
    assert any(isinstance(event, TextDelta) for event in events)
    last = events[-1]
    assert isinstance(last, Completed)
    assert last.response.usage.output_tokens
    assert model.profile.price is not None
    assert model.profile.price.cost_of(last.response.usage).amount == 0


@local_model
@slow
async def test_the_model_pickles_after_use_and_carries_no_address(served: ServerAddress) -> None:
    model = LocalModel("smollm2")
    request = ModelRequest(messages=(UserMessage.of("Hello"),), settings=ModelSettings(max_output_tokens=1))
    try:
        async for _ in model.stream(request):
            pass
    finally:
        release_server("smollm2")
    pickled = pickle.dumps(model)
    assert served.api_key.encode() not in pickled
    assert served.base_url.encode() not in pickled
    assert pickle.loads(pickled).name == "smollm2"


@local_model
@slow
async def test_a_server_outlives_one_user_and_ends_after_the_last_is_killed(home: Path) -> None:
    first, second = User(), User()
    try:
        assert first.address() == second.address()
        files = ServerFiles("smollm2")
        first.kill()
        async with _client(_known(files)) as client:
            assert (await client.post("/chat/completions", json=_body("Hello"))).status_code == 200
    finally:
        first.kill()
        second.kill()
    await eventually(lambda: not files.alive())
    assert files.address() is None


@local_model
@slow
async def test_a_server_that_was_killed_is_replaced_in_the_same_process(home: Path) -> None:
    try:
        before = await ensure_server("smollm2")
        files = ServerFiles("smollm2")
        _kill_server(files)
        await eventually(lambda: not files.alive())
        assert (files.folder / f"{files.stem}.json").exists(), "the stale address has to lie there"
        after = await ensure_server("smollm2")
        assert after != before
        async with _client(after) as client:
            assert (await client.get("/models")).status_code == 200
    finally:
        release_server("smollm2")
    await eventually(lambda: not files.alive())


@local_model
@slow
async def test_callers_of_one_process_start_one_server(home: Path) -> None:
    addresses: list[ServerAddress] = []

    async def ask() -> None:
        addresses.append(await ensure_server("smollm2"))

    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(ask)
        assert len(addresses) == 4
        assert len({address.base_url for address in addresses}) == 1
    finally:
        release_server("smollm2")
    await eventually(lambda: not ServerFiles("smollm2").alive())


@local_model
@slow
async def test_weights_that_are_no_model_give_the_reason_from_the_log(home: Path) -> None:
    path = home / "cache" / "models" / weights.known("smollm2").file_name
    path.unlink()
    with path.open("wb") as file:
        file.truncate(weights.known("smollm2").size)
    try:
        with pytest.raises(LocalServerError) as caught:
            await ensure_server("smollm2")
    finally:
        release_server("smollm2")
    assert "its server ended while it was starting" in str(caught.value)
    assert "See " in str(caught.value)
    assert not ServerFiles("smollm2").alive()


@local_model
@slow
async def test_a_server_that_does_not_listen_in_time_is_ended(home: Path) -> None:
    files = ServerFiles("smollm2")
    stuck = FileLock(files.folder / f"{files.stem}.alive")
    assert stuck.try_acquire()
    try:
        with pytest.raises(LocalServerError, match="did not listen within"):
            await ensure_server("smollm2", timeout=0.3)
    finally:
        stuck.release()
        release_server("smollm2")


def _known(files: ServerFiles) -> ServerAddress:
    address = files.address()
    assert address is not None
    return address


def _kill_server(files: ServerFiles) -> None:
    os.kill(int((files.folder / f"{files.stem}.alive").read_text()), signal.SIGKILL)
