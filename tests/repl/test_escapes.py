"""What a cell must not reach: files, the network, processes, the environment, other modules, the objects of its host."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.repl.sessions import Bench, values

SECRET = "the-secret-of-the-host"

FILES = [
    "open({path!r}).read()",
    "open({path!r}, 'w').write('x')",
    "open('../../..' + {path!r}).read()",
    "open('/etc/passwd').read()",
    "open('/proc/self/environ').read()",
    "open('/proc/1/cmdline', 'rb').read()",
    "import pathlib\npathlib.Path({path!r}).read_text()",
    "import pathlib\npathlib.Path({path!r}).write_text('x')",
    "import pathlib\npathlib.Path({path!r}).unlink()",
    "import pathlib\nlist(pathlib.Path('/').iterdir())",
    "import pathlib\npathlib.Path('/tmp/escaped').mkdir()",
    "import os\nos.listdir('/')",
    "import os\nos.remove({path!r})",
    "import os\nos.stat({path!r})",
    "import os\nos.open({path!r}, 0)",
    "import io\nio.open({path!r}).read()",
    "import io\nio.FileIO({path!r}).read()",
    "with open({path!r}) as f: f.read()",
]
NETWORK = [
    "import socket\nsocket.create_connection(('127.0.0.1', 1))",
    "import urllib.request\nurllib.request.urlopen('http://127.0.0.1')",
    "import http.client\nhttp.client.HTTPConnection('127.0.0.1').request('GET', '/')",
    "import httpx\nhttpx.get('http://127.0.0.1')",
    "import asyncio\nawait asyncio.open_connection('127.0.0.1', 1)",
    "import ssl\nssl.create_default_context()",
]
PROCESSES = [
    "import subprocess\nsubprocess.run(['true'])",
    "import os\nos.system('true')",
    "import os\nos.popen('true').read()",
    "import os\nos.fork()",
    "import os\nos.execv('/bin/true', ['true'])",
    "import os\nos.kill(1, 9)",
    "import signal\nsignal.raise_signal(9)",
    "import multiprocessing\nmultiprocessing.Process()",
    "import threading\nthreading.Thread(target=print).start()",
    "import asyncio\nawait asyncio.create_subprocess_exec('true')",
    "import ctypes\nctypes.CDLL(None)",
    "import _posixsubprocess",
]
ENVIRONMENT = [
    "import os\nos.environ['RUNTREE_TEST_SECRET']",
    "import os\nos.getenv('RUNTREE_TEST_SECRET') or missing",
    "import os\ndict(os.environ)",
    "import os\nos.putenv('A', 'B')",
    "import sys\nsys.modules['os']",
    "import sys\nsys.path.append('/')",
    "import sys\nsys._getframe()",
]
IMPORTS = [
    "import runtree",
    "import pydantic_monty",
    "import importlib\nimportlib.import_module('os')",
    "__import__('os').system('true')",
    "import builtins\nbuiltins.open",
    "import inspect",
    "import gc\ngc.get_objects()",
    "import pickle\npickle.loads(b'')",
    "from os import system",
    "exec('import subprocess')",
    "eval('__import__(\"os\")')",
]
REACH_THROUGH = [
    "().__class__.__bases__[0].__subclasses__()",
    "model_query.__globals__",
    "model_query.__closure__",
    "model_query.__code__",
    "model_query.__self__",
    "model_query.__class__.__mro__",
    "answer.__wrapped__",
    "(lambda: 0).__globals__['__builtins__']",
    "globals()",
    "vars()",
    "dir(model_query)",
    "getattr(model_query, '__globals__')",
    "'{{0.__globals__}}'.format(model_query)",
    "model_query('q').cr_frame",
    "try:\n  1 / 0\nexcept ZeroDivisionError as e:\n  e.__traceback__.tb_frame.f_globals",
    "type('X', (object,), {{}}).__subclasses__()",
    "__builtins__",
    "__loader__",
    "compile('1', '', 'eval')",
    "breakpoint()",
    "input()",
]


@pytest.mark.parametrize("code", [*FILES, *NETWORK, *PROCESSES, *ENVIRONMENT, *IMPORTS, *REACH_THROUGH])
async def test_e12_an_attempt_to_escape_is_refused(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTREE_TEST_SECRET", SECRET)
    path = tmp_path / "file"
    path.write_text(SECRET)
    bench = Bench()
    async with bench.session() as session:
        result = await session.eval_cell(code.format(path=str(path)))
        assert result.error is not None, f"it came through: {result.value}"
        assert SECRET not in result.model_dump_json()
        assert await values(session, "1 + 1") == [2]
    assert path.read_text() == SECRET
    assert not bench.items


def test_e12_the_table_has_enough_rows() -> None:
    assert len({*FILES, *NETWORK, *PROCESSES, *ENVIRONMENT, *IMPORTS, *REACH_THROUGH}) >= 40


async def test_e12_the_worker_has_no_file_of_its_host_open() -> None:
    async with Bench().session() as session:
        await values(session, "1")
        worker = session._worker
        assert worker is not None
        targets = await asyncio.to_thread(_open_files, worker.pid)
        if targets is None:
            pytest.skip("NOT RUN: this system does not tell the open files of a process")
        assert not [target for target in targets if target.startswith("/") and not target.startswith("/dev/")]


def _open_files(pid: int) -> list[str] | None:
    folder = Path(f"/proc/{pid}/fd")
    # The first three are the streams of its owner.
    return [os.readlink(entry) for entry in folder.iterdir() if int(entry.name) > 2] if folder.is_dir() else None
