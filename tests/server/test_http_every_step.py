"""A client that hangs up, or a server that is cancelled, at every step of an exchange: nothing is left of it.

An exchange is run once to its end, and then again and again: each time the client hangs up one task step later (a
step is what a task does between two yields to trio), until the exchange is over before that. No server and no
socket is in between: these steps are the app's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio

from tests.exposing import HANDSHAKE, modern
from trio_mcp import Context, ToolServer, asgi_app, tool
from trio_mcp.server.http.app import HttpStatistics

MOST_STEPS = 500


class Watch(trio.abc.Instrument):
    """Calls `act` before the task step of this number; counts from when it is armed."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.steps = 0
        self.act: Callable[[], None] | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.act is not None:
            self.steps += 1
            if self.steps == self.step:
                self.act()


class Exchange:
    """One request in ASGI, and what came back."""

    def __init__(self, body: Any, **headers: str) -> None:
        self.to_app, self._receive = trio.open_memory_channel[dict[str, Any]](10)
        data = json.dumps(body).encode()
        self.to_app.send_nowait({"type": "http.request", "body": data[:20], "more_body": True})
        self.to_app.send_nowait({"type": "http.request", "body": data[20:]})
        headers = {"host": "localhost", "content_type": "application/json", **headers}
        fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        self.scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": fields}
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        return await self._receive.receive()

    async def send(self, message: Any) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.hang_up()  # as hypercorn does
            for _ in range(3):  # whoever hears of it has had the time to act
                await trio.lowlevel.checkpoint()
            self.sent.append({"type": "tidied up"})

    def hang_up(self) -> None:
        self.to_app.send_nowait({"type": "http.disconnect"})

    @property
    def header(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])


@tool
async def report(context: Context) -> str:
    for step in range(3):
        await context.progress(step)
        await trio.lowlevel.checkpoint()
    return "reported"


@tool
async def ask(context: Context) -> str:
    await trio.lowlevel.checkpoint()
    return str(await context.ask("roots/list", {}))


def call(name: str) -> dict[str, Any]:
    params = modern(name=name, meta={"progressToken": 1, "clientCapabilities": {"roots": {}}})
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def modern_call(name: str) -> Callable[[str], Exchange]:
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": name}
    return lambda session: Exchange(call(name), **headers)


def listening(session: str) -> Exchange:
    params = modern(notifications={"toolsListChanged": True})
    body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    return Exchange(body, mcp_protocol_version="2026-07-28", mcp_method="subscriptions/listen")


def legacy_call(session: str) -> Exchange:
    params = {"name": "report", "arguments": {}, "_meta": {"progressToken": 1}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return Exchange(body, mcp_session_id=session)


def legacy_listening(session: str) -> Exchange:
    exchange = Exchange({}, mcp_session_id=session)
    exchange.scope["method"] = "GET"
    return exchange


EXCHANGES: dict[str, Callable[[str], Exchange]] = {
    "modern call": modern_call("report"),
    "modern question": modern_call("ask"),
    "modern listening": listening,
    "legacy call": legacy_call,
    "legacy listening": legacy_listening,
}


async def play(begin: Callable[[str], Exchange], watch: Watch, *, cancel: bool) -> Exchange:
    """One exchange with an app that lives; afterwards nothing is left of it."""
    server = ToolServer("s")
    server.add_tools(report, ask)
    app = asgi_app(server)
    lifespan, handshake = (
        Exchange({}),
        Exchange({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HANDSHAKE}),
    )
    lifespan.to_app, channel = trio.open_memory_channel[dict[str, Any]](10)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(app, {"type": "lifespan"}, channel.receive, lifespan.send)
            await lifespan.to_app.send({"type": "lifespan.startup"})
            await trio.testing.wait_all_tasks_blocked()
            await app(handshake.scope, handshake.receive, handshake.send)
            before = trio.lowlevel.current_statistics().tasks_living
            exchange = begin(handshake.header[b"mcp-session-id"].decode())
            scope = trio.CancelScope()
            watch.act = scope.cancel if cancel else exchange.hang_up
            with scope:
                async with trio.open_nursery() as inner:
                    inner.start_soon(app, exchange.scope, exchange.receive, exchange.send)
                    await trio.testing.wait_all_tasks_blocked()
                    watch.act = None
                    exchange.hang_up()  # a subscription ends by that alone
            watch.act = None
            await trio.testing.wait_all_tasks_blocked()
            assert app.statistics() == HttpStatistics(calls=0, streams=0, sessions=1, sessions_in_use=0)
            assert len(server.changes) == 0
            assert trio.lowlevel.current_statistics().tasks_living == before
            await lifespan.to_app.send({"type": "lifespan.shutdown"})
    return exchange


@pytest.mark.parametrize("cancel", [False, True], ids=["the client hangs up", "the server is cancelled"])
@pytest.mark.parametrize("name", EXCHANGES)
def test_nothing_is_left_whenever_it_ends(name: str, cancel: bool) -> None:
    whole = 0
    for step in range(1, MOST_STEPS):
        watch = Watch(step)
        exchange = trio.run(partial(play, EXCHANGES[name], watch, cancel=cancel), instruments=[watch])
        types = [message["type"] for message in exchange.sent]
        if "tidied up" in types:
            assert types[0] == "http.response.start"
        if watch.steps < step:
            whole = step
            break
    assert 3 < whole < MOST_STEPS
    assert name.endswith("listening") or types[-1] == "tidied up"
