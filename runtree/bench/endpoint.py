"""The scripted model server in a process of its own, and agents that talk to it."""

import json
import os
import secrets
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..actors.agent import Agent
from ..messages.errors import ConfigurationError
from ..providers.chat.model import OpenAIChat


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A running model server."""

    base_url: str
    token: str = field(repr=False)

    def agent(self, name: str, model: str, **options: Any) -> Agent:
        """Return an agent on one of its models."""
        return Agent(name, OpenAIChat(model, base_url=self.base_url, api_key=self.token), **options)

    def fan(self, children: int, model: str, **options: Any) -> Agent:
        """Return a lead that calls one worker so many times; further options are the worker's."""
        worker = self.agent("worker", model, description="works", **options)
        return self.agent("lead", f"lead-{children}", agents=[worker], max_tool_calls=children)

    def stats(self) -> dict[str, float]:
        """Return its counters."""
        request = urllib.request.Request(  # noqa: S310 - the address is our own
            self.base_url.replace("/v1", "/stats"), headers={"authorization": f"Bearer {self.token}"}
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10) as reply:
            return dict(json.load(reply))


@contextmanager
def endpoint(host: str = "127.0.0.1") -> Generator[Endpoint]:
    """Start a model server.

    Args:
        host: Address it listens at. On a cluster of several machines it has to be one that the others reach.

    Raises:
        ConfigurationError: This machine has no such address.
    """
    token = secrets.token_urlsafe(16)
    process = subprocess.Popen(  # noqa: S603 - this Python, this package
        [sys.executable, "-m", f"{__package__}.model_server", "--host", host],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RUNTREE_BENCH_TOKEN": token},
        start_new_session=True,  # Ctrl-C is for the measurement, which ends the server
    )
    with process:
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            if not port:
                fix = "Give an address of this machine that the nodes of the cluster reach"
                raise ConfigurationError(f"--listen {host}", "the model server could not listen there", fix)
            yield Endpoint(f"http://{host}:{port}/v1", token)
        finally:
            process.kill()
