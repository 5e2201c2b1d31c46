"""Endpoint by itself: which transport it takes, and what its headers are."""

from __future__ import annotations

import sys

import httpx
import pytest
import trio

from tests.raw_http import Line, listen
from trio_mcp import Server, open_connection
from trio_mcp.http.pool import Http1Transport
from trio_mcp.transports.streamable.endpoint import Endpoint
from trio_mcp.transports.streamable.limits import StreamableLimits
from trio_mcp.transports.streamable.proxy import way_to

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("environment", "ours"),
    [
        ({}, True),
        ({"http_proxy": "http://127.0.0.1:9"}, False),
        ({"https_proxy": "http://127.0.0.1:9"}, True),
        ({"all_proxy": "127.0.0.1:9"}, False),
        ({"http_proxy": "http://127.0.0.1:9", "no_proxy": "example.com"}, True),
        ({"http_proxy": "http://127.0.0.1:9", "no_proxy": "*"}, True),
    ],
)
async def test_where_the_environment_names_a_proxy_httpxs_own_transport_serves(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], ours: bool
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    transport = way_to(httpx.URL("http://www.example.com/mcp"), None).transport
    assert isinstance(transport, Http1Transport) is ours
    await transport.aclose()


@pytest.mark.slow
async def test_behind_a_proxy_nothing_waits_for_a_free_connection(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, no_descriptor_left: None
) -> None:
    arrived, everybody = 0, trio.Event()

    async def proxy(line: Line) -> None:
        nonlocal arrived
        while await line.read():
            arrived += 1
            if arrived == 120:
                everybody.set()
            await everybody.wait()
            await line.answer()

    listener = await listen(nursery, proxy)
    monkeypatch.setenv("http_proxy", listener.url)
    wire = Endpoint(Server("s", url="http://www.example.com/mcp"), StreamableLimits())

    async def get() -> None:
        async with await wire.send("GET", {"Accept": "text/event-stream"}) as reply:
            assert await reply.read() == b""

    with trio.fail_after(20):
        async with trio.open_nursery() as callers:
            for _ in range(120):
                callers.start_soon(get)
        await wire.aclose()


async def test_the_users_headers_replace_those_that_are_not_the_protocols(nursery: trio.Nursery) -> None:
    seen = []

    async def serve(line: Line) -> None:
        while request := await line.read():
            seen.append(request.headers)
            await line.answer()

    listener = await listen(nursery, serve)
    for headers in ({"USER-AGENT": "mine", "Host": "other"}, lambda: {"User-agent": "mine", "hOST": "other"}):
        wire = Endpoint(Server("s", url=listener.url, headers=headers), StreamableLimits())
        async with await wire.send("GET", {"Accept": "text/event-stream"}):
            pass
        await wire.aclose()
    for found in seen:
        assert (found["user-agent"], found["host"], found["accept"]) == ("mine", "other", "text/event-stream")


SLOW = """
import asyncio, json
COUNT, held = 500, []
async def serve(reader, writer):
    while head := await reader.readuntil(b"\\r\\n\\r\\n"):
        size = int(head.lower().partition(b"content-length:")[2].split(b"\\r\\n")[0])
        message = json.loads(await reader.readexactly(size))
        method = message["method"]
        if method == "server/discover":
            result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        elif method == "tools/list":
            result = {"tools": []}
        else:
            held.append(None)
            while len(held) < COUNT:
                await asyncio.sleep(0.05)
            result = {"content": []}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        head = "HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\n"
        head += "content-length: %d\\r\\n\\r\\n" % len(body)
        writer.write(head.encode() + body)
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@pytest.mark.slow
async def test_five_hundred_slow_calls_run_at_once(nursery: trio.Nursery, no_descriptor_left: None) -> None:
    """The server, in a process of its own, answers none before all have come."""
    process = await trio.lowlevel.open_process([sys.executable, "-c", SLOW], stdout=-1)
    assert process.stdout is not None
    try:
        with trio.fail_after(60):
            port = int(await process.stdout.receive_some(100))
            async with open_connection(Server("s", url=f"http://127.0.0.1:{port}/")) as connection:
                async with trio.open_nursery() as callers:
                    for _ in range(500):
                        callers.start_soon(connection.call_tool, "slow")
                assert connection.statistics().calls_failed == 0
    finally:
        process.kill()
        with trio.CancelScope(shield=True):  # it has been killed
            await process.wait()
        await process.stdout.aclose()
