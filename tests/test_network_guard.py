"""No test reaches anything but loopback: what the guard refuses, and that it says so loudly."""

import asyncio
import socket

import pytest

from runtree.messages.model import ModelRequest
from runtree.messages.transcript import UserMessage
from runtree.providers import OpenAIChat

from .conftest import NetworkGuardError

ASKED = ModelRequest(messages=(UserMessage.of("hi"),))


@pytest.mark.parametrize("address", ["192.0.2.1", "8.8.8.8", "::ffff:8.8.8.8", "2001:db8::1"])
def test_a_connection_that_would_leave_the_machine(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as sock, pytest.raises(NetworkGuardError, match=address):
        sock.connect((address, 443))


def test_a_name_that_would_be_looked_up() -> None:
    with pytest.raises(NetworkGuardError, match=r"api\.openai\.com"):
        socket.getaddrinfo("api.openai.com", 443)
    assert socket.getaddrinfo("localhost", 80)
    assert socket.getaddrinfo("127.0.0.1", 80)
    assert socket.getaddrinfo(None, 80)


async def ask(base_url: str) -> None:
    async for _ in OpenAIChat("m-1", base_url=base_url, api_key="sk-test-0123456789").stream(ASKED):
        pass


async def test_a_model_with_an_address_elsewhere() -> None:
    """What it tries is not taken for an ordinary failure of the connection, which a test may expect."""
    with pytest.raises(NetworkGuardError, match=r"api\.example\.com"):
        await ask("https://api.example.com/v1")
    with pytest.raises(ExceptionGroup) as caught:
        await ask("http://192.0.2.1/v1")
    assert caught.group_contains(NetworkGuardError, match=r"192\.0\.2\.1")


async def test_loopback_stays_open() -> None:
    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("localhost", port)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
