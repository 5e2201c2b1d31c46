"""TCP keepalive at both ends: a peer that has died without a word is an error after two minutes."""

from __future__ import annotations

import socket
import sys

import httpx
import pytest
import trio

from trio_mcp import Http1Transport
from trio_mcp.http.listener import bound


def kept_alive(one: socket.socket) -> tuple[bool, int, int, int]:
    names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    idle, interval, count = (one.getsockopt(socket.IPPROTO_TCP, name) for name in names)
    return bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)), idle, interval, count


@pytest.mark.skipif(sys.platform != "linux", reason="the names of the options are Linux's")
async def test_the_kernel_looks_after_both_ends_of_a_connection() -> None:
    (listening,) = await bound("127.0.0.1", 0)
    transport = Http1Transport()
    with listening, trio.fail_after(5):
        listening.listen()
        port = listening.getsockname()[1]

        async def get() -> None:
            request = httpx.Request("GET", f"http://127.0.0.1:{port}/")
            await (await transport.handle_async_request(request)).aclose()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(get)
            accepted, _ = await trio.socket.from_stdlib_socket(listening).accept()
            await accepted.recv(1000)
            (connection,) = transport._busy
            assert kept_alive(connection._socket) == (True, 60, 15, 4)  # type: ignore[arg-type] # trio's socket
            assert kept_alive(accepted) == (True, 60, 15, 4)  # type: ignore[arg-type] # likewise
            await accepted.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        accepted.close()
        await transport.aclose()
