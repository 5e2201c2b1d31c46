"""`serve_http` and `asgi_app` as wholes: start, address, stop, lifespan, mounting."""

from __future__ import annotations

import socket
import subprocess
import sys
from functools import partial
from typing import Any

import pytest
import trio

from tests.conftest import open_descriptors
from tests.serving import Served, echo, serving, until
from trio_mcp import Server, ServerLimits, ToolServer, asgi_app, open_connection, serve_http, tool


def server_of(*functions: Any) -> ToolServer:
    server = ToolServer("mine")
    server.add_tools(*(tool(function) for function in functions))
    return server


async def test_the_address_is_told_once_requests_are_taken() -> None:
    async with serving(echo, path="/tools") as served:
        assert served.url == f"http://127.0.0.1:{served.port}/tools"
        async with open_connection(Server("s", url=served.url)) as connection:
            assert (await connection.call_tool("echo", {"text": "hi"})).content == "hi"


@pytest.mark.parametrize("host", ["localhost", "::1"])
async def test_other_names_of_this_machine_can_be_listened_on(host: str) -> None:
    if host == "::1":
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("there is no IPv6")
    async with serving(echo, host=host) as served:
        async with open_connection(Server("s", url=served.url)) as connection:
            assert connection.protocol_version == "2026-07-28"


async def test_a_port_in_use_is_an_error_that_leaves_bare_and_leaves_nothing(no_descriptor_left: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for host in ("127.0.0.1", "localhost"):
            with pytest.raises(OSError, match="in use"):
                await serve_http(server_of(echo), host=host, port=taken.getsockname()[1])


async def test_an_option_that_is_none_is_an_error_before_anything_is_bound(no_descriptor_left: None) -> None:
    with pytest.raises(ValueError, match="max_body"):
        await serve_http(server_of(echo), max_body=-1)
    for port in (-1, 65536, 9999999, "80", True):
        with pytest.raises(ValueError, match="port"):
            await serve_http(server_of(echo), port=port)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="host"):
        await serve_http(server_of(echo), host=None)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="is no name of a host"):
        await serve_http(server_of(echo), host="no..host", allowed_hosts=["*"])


async def test_nothing_is_left_of_a_server_that_has_stopped() -> None:
    async with serving(echo) as served:  # what loads late has been loaded
        pass
    before = open_descriptors()
    async with serving(echo) as served:
        for protocol in ("modern", "legacy"):
            async with open_connection(Server("s", url=served.url, protocol=protocol)) as connection:
                await connection.call_tool("echo")
        line = await served.connect()
        await line.initialize()
        idle = await served.connect()
        assert (await idle.modern("tools/list")).status == 200
    assert open_descriptors().keys() == before.keys()
    assert trio.lowlevel.current_statistics().tasks_living < 10


async def test_a_cancel_ends_a_server_at_once_whatever_runs() -> None:
    entered = trio.Event()

    async def wait() -> None:
        entered.set()
        await trio.sleep_forever()

    before = open_descriptors()
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            url = await nursery.start(partial(serve_http, server_of(wait), port=0))
            stream = await trio.open_tcp_stream("127.0.0.1", int(url.split(":")[2].split("/")[0]))
            nursery.start_soon(_call_and_lose, url)
            await entered.wait()
            began = trio.current_time()
            nursery.cancel_scope.cancel()
    assert trio.current_time() - began < 2
    await stream.aclose()
    assert open_descriptors().keys() == before.keys()


async def _call_and_lose(url: str) -> None:
    async with open_connection(Server("s", url=url)) as connection:
        await connection.call_tool("wait")


async def until_refused(served: Served) -> None:
    """Until no connection is accepted any more."""
    while True:
        try:
            await (await served.connect()).stream.aclose()
        except OSError:
            return
        await trio.sleep(0.01)


async def test_stopping_lets_calls_end_and_takes_no_new_ones() -> None:
    entered, opened = trio.Event(), trio.Event()

    async def wait() -> str:
        entered.set()
        await opened.wait()
        return "through"

    async with serving(wait) as served:
        modern, legacy, other = [await served.connect() for _ in range(3)]
        await legacy.initialize()
        await other.initialize()
        await modern.begin_modern("tools/call", name="wait", arguments={})
        await entered.wait()
        entered = trio.Event()
        await legacy.begin_legacy("tools/call", {"name": "wait", "arguments": {}})
        await entered.wait()
        served.stop.set()
        await until_refused(served)
        opened.set()
        for line in (modern, legacy):
            reply = await line.rest(await line.head())
            assert reply.result["content"][0]["text"] == "through"


async def test_a_stop_that_came_before_the_start_ends_it_at_once() -> None:
    stop = trio.Event()
    stop.set()
    with trio.fail_after(10):
        await serve_http(server_of(echo), port=0, stop=stop)


@pytest.mark.slow
async def test_stopping_ends_what_does_not_end_itself() -> None:
    ended: list[str] = []

    async def wait(who: str) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(who)

    async with serving(wait, limit=10, limits=ServerLimits(stop_grace=0.3)) as served:
        modern, legacy = await served.connect(), await served.connect()
        await legacy.initialize()
        await modern.begin_modern("tools/call", name="wait", arguments={"who": "modern"})
        await legacy.begin_legacy("tools/call", {"name": "wait", "arguments": {"who": "legacy"}})
        await trio.sleep(0.1)
        began = trio.current_time()
    assert sorted(ended) == ["legacy", "modern"]
    assert trio.current_time() - began < 5


async def flood() -> str:
    return "x" * 30_000_000


@pytest.mark.slow
async def test_a_client_that_reads_nothing_does_not_hold_up_the_stop() -> None:
    """Hypercorn shields its sends: a full socket would hold it until the client has read."""
    async with serving(flood, limits=ServerLimits(stop_grace=0.3)) as served:
        line = await served.connect()
        await line.begin_modern("tools/call", name="flood", arguments={})
        await line.head()
        served.stop.set()
        await until(lambda: not served.nursery.child_tasks)


@pytest.mark.slow
async def test_a_client_that_reads_nothing_does_not_hold_up_a_cancel() -> None:
    async with serving(flood) as served:
        line = await served.connect()
        await line.begin_modern("tools/call", name="flood", arguments={})
        await line.head()
        await trio.testing.wait_all_tasks_blocked(0.1)  # in the middle of the answer
        served.nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await until(lambda: not served.nursery.child_tasks)


# --- without a server

INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}'


class Lifespan:
    """The server's side of ASGI, as far as a test needs it."""

    def __init__(self) -> None:
        self.to_app, self.receive = trio.open_memory_channel[dict[str, Any]](10)
        self.sent: list[dict[str, Any]] = []

    async def send(self, message: Any) -> None:
        self.sent.append(message)


async def test_the_lifespan_is_answered_in_full() -> None:
    app = asgi_app(server_of(echo))
    lifespan = Lifespan()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(app, {"type": "lifespan"}, lifespan.receive.receive, lifespan.send)
            await lifespan.to_app.send({"type": "lifespan.startup"})
            await trio.testing.wait_all_tasks_blocked()
            assert [message["type"] for message in lifespan.sent] == ["lifespan.startup.complete"]
            await lifespan.to_app.send({"type": "lifespan.shutdown"})
    assert [message["type"] for message in lifespan.sent][1:] == ["lifespan.shutdown.complete"]


async def test_an_app_may_live_more_than_once() -> None:
    app = asgi_app(server_of(echo))
    for _ in range(2):
        lifespan, exchange = Lifespan(), Lifespan()
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(app, {"type": "lifespan"}, lifespan.receive.receive, lifespan.send)
                await lifespan.to_app.send({"type": "lifespan.startup"})
                await trio.testing.wait_all_tasks_blocked()
                await exchange.to_app.send({"type": "http.request", "body": INITIALIZE})
                await app(scope("/mcp"), exchange.receive.receive, exchange.send)
                assert exchange.sent[0]["status"] == 200
                await lifespan.to_app.send({"type": "lifespan.shutdown"})
        assert app.statistics().sessions == 0


async def test_what_is_no_http_is_declined() -> None:
    app = asgi_app(server_of(echo))
    socket_ = Lifespan()
    await socket_.to_app.send({"type": "websocket.connect"})
    await app({"type": "websocket", "path": "/mcp"}, socket_.receive.receive, socket_.send)
    assert socket_.sent == [{"type": "websocket.close"}]
    with pytest.raises(NotImplementedError, match="gopher"):
        await app({"type": "gopher"}, socket_.receive.receive, socket_.send)


HEADERS = ((b"host", b"localhost"), (b"content-type", b"application/json"))


def scope(path: str, method: str = "POST", **more: Any) -> dict[str, Any]:
    return {"type": "http", "method": method, "path": path, "headers": list(HEADERS), **more}


@pytest.mark.table(
    ("mounted", "status"),
    [
        ({"path": "/api/mcp", "root_path": "/api"}, 400),
        ({"path": "/mcp", "root_path": "/api"}, 400),
        ({"path": "/mcp", "root_path": ""}, 400),
        ({"path": "/api/mcp", "root_path": ""}, 404),
        ({"path": "/apimcp", "root_path": "/api"}, 404),
    ],
)
async def test_an_app_may_be_mounted_anywhere(mounted: dict[str, str], status: int) -> None:
    app = asgi_app(server_of(echo))
    exchange = Lifespan()
    await exchange.to_app.send({"type": "http.request", "body": b"x"})
    await app(scope(**mounted), exchange.receive.receive, exchange.send)
    assert exchange.sent[0]["status"] == status


async def test_without_a_lifespan_calls_of_the_legacy_era_end_with_their_request() -> None:
    ended = trio.Event()

    async def wait() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    app = asgi_app(server_of(wait))

    async def ask(body: bytes, *headers: tuple[bytes, bytes]) -> Lifespan:
        exchange = Lifespan()
        await exchange.to_app.send({"type": "http.request", "body": body})
        fields = {"headers": [*HEADERS, *headers]}
        nursery.start_soon(app, {**scope("/mcp"), **fields}, exchange.receive.receive, exchange.send)
        await trio.testing.wait_all_tasks_blocked()
        return exchange

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            begun = await ask(INITIALIZE)
            session = dict(begun.sent[0]["headers"])[b"mcp-session-id"]
            call = b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait"}}'
            exchange = await ask(call, (b"mcp-session-id", session))
            assert not ended.is_set()
            await exchange.to_app.send({"type": "http.disconnect"})
            await ended.wait()
    assert app.statistics().calls == 0
    assert app.statistics().sessions_in_use == 0


def test_another_event_loop_is_told_what_is_needed() -> None:
    program = """
import asyncio
from trio_mcp import ToolServer, asgi_app
sent = []
async def receive(): return {"type": "lifespan.startup"}
async def send(message): sent.append(message)
asyncio.run(asgi_app(ToolServer("x"))({"type": "lifespan"}, receive, send))
print(sent)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert "lifespan.startup.failed" in done.stdout
    assert "hypercorn --worker-class trio" in done.stdout


async def test_a_missing_hypercorn_is_told_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypercorn.trio", None)
    with pytest.raises(RuntimeError, match=r"trio-mcp\[server\]"):
        await serve_http(server_of(echo))
