"""A feature is a value in a table: a made-up question and a made-up notification need no change of the package.

In both eras, over memory streams and over HTTP. What a modern server asks comes as a round of the call, what a
legacy one asks comes as a request of its own.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import memory_stream_pair

from tests.far_end import EndOfInput, Message, Peer
from tests.http_peer import Exchange, content, start_peer
from trio_mcp import ClientLimits, Connection, ProtocolError, RequestError
from trio_mcp.client.feature import Feature, FeatureTable, ServerRequest
from trio_mcp.client.launching import Launcher, launcher_for
from trio_mcp.client.opening import opened
from trio_mcp.client.options import Options
from trio_mcp.protocol.negotiation import EraMemory
from trio_mcp.transports.base import Handlers, Transport
from trio_mcp.transports.lines.transport import StreamTransport

CAPABILITY = {"clock": {"zones": True}}
QUESTION = {"method": "clock/read", "params": {"zone": "Europe/Rome"}}
NOTICE = {"method": "notifications/clock/tick", "params": {"at": 7}}


class Clock:
    """A made-up feature of a client."""

    def __init__(self) -> None:
        self.ticks: list[Any] = []
        self.fails = False

    @property
    def feature(self) -> Feature:
        """The value that goes into the table."""
        return Feature(
            capabilities=CAPABILITY,
            requests={"clock/read": ServerRequest(read=self.read, answer=self.answer)},
            notifications={"notifications/clock/tick": self.tick},
        )

    def read(self, params: Any) -> str:
        if not isinstance(params, dict) or not isinstance(params.get("zone"), str):
            raise RequestError(-32602, "a zone is missing")
        zone: str = params["zone"]
        return zone

    async def answer(self, zone: str) -> Mapping[str, Any]:
        await trio.lowlevel.checkpoint()
        if self.fails:
            raise ValueError("the clock stands still")
        return {"time": f"12:00 in {zone}"}

    def tick(self, params: bytes) -> None:
        try:
            self.ticks.append(json.loads(params)["at"])
        except LookupError:
            raise ProtocolError("a tick without a time was dropped") from None


class Server:
    """The far end: what it heard of capabilities, and its question to each call, on either transport."""

    def __init__(self, era: str, question: Mapping[str, Any]) -> None:
        self.era = era
        self.question = question
        self.declared: Any = None
        self.answers: list[Any] = []

    def asked(self, message: Message) -> dict[str, Any] | None:
        """The result of a request; None for a tools/call that a legacy server asks back about."""
        params = message.get("params", {})
        meta = params.get("_meta", {})
        method = message["method"]
        if method in ("initialize", "server/discover"):
            self.declared = params.get("capabilities", meta.get("io.modelcontextprotocol/clientCapabilities"))
        if method == "initialize":
            return {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
        if method == "server/discover":
            return {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}
        if self.era == "modern" and "inputResponses" not in params:
            return {"resultType": "input_required", "inputRequests": {"k": self.question}}
        if self.era == "modern":
            self.answers.append(params["inputResponses"]["k"])
        return content("done") if self.era == "modern" else None


@asynccontextmanager
async def over_memory(server: Server, options: Options) -> AsyncIterator[Connection]:
    ours, theirs = memory_stream_pair()
    peer = Peer(theirs, theirs)

    async def serve() -> None:
        calls: list[Message] = []
        while True:
            try:
                message = await peer.take()
            except EndOfInput:
                return
            if "method" not in message:
                server.answers.append(message.get("result", message.get("error")))
                await peer.answer(calls.pop(), content("done"))
            elif "id" in message:
                result = server.asked(message)
                if message["method"] == "tools/call":
                    await peer.send(NOTICE)
                if result is not None:
                    await peer.answer(message, result)
                else:
                    calls.append(message)
                    await peer.send({"id": "q", **server.question})

    async def start(handlers: Handlers, _: Any) -> Transport:
        await trio.lowlevel.checkpoint()
        return StreamTransport(ours, ours, handlers, name="clocked")

    launcher = Launcher(name="clocked", start=start, protocol="modern" if server.era == "modern" else "legacy")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with opened(launcher, options) as connection:
            yield connection


@asynccontextmanager
async def over_http(server: Server, options: Options) -> AsyncIterator[Connection]:
    async with trio.open_nursery() as nursery:
        peer = await start_peer(nursery, server.era)

        async def answer(exchange: Exchange) -> None:
            result = server.asked(exchange.message)
            if result is not None and exchange.method != "tools/call":
                await exchange.result(result)
            else:
                await exchange.event({"jsonrpc": "2.0", **NOTICE})
                if result is None:
                    await exchange.event({"jsonrpc": "2.0", "id": "q", **server.question})
                    said = (await peer.heard("answer")).message
                    server.answers.append(said.get("result", said.get("error")))
                    result = content("done")
                await exchange.event(exchange.answer_to(result))
                await exchange.end()

        async def stream(exchange: Exchange) -> None:
            await exchange.events()
            await exchange.line.wait_closed()

        peer.on.update(dict.fromkeys(("initialize", "server/discover", "tools/call"), answer))
        peer.on["GET"] = stream
        peer.on["notifications/initialized"] = peer.on["answer"] = lambda it: it.status("202 Accepted")
        async with opened(launcher_for(peer.server(protocol=server.era)), options) as connection:
            yield connection
        nursery.cancel_scope.cancel()


Over = Callable[[Server, Options], Any]
EVERY_WAY = pytest.mark.parametrize("over", [over_memory, over_http], ids=["memory", "http"])
EVERY_ERA = pytest.mark.parametrize("era", ["modern", "legacy"])


def options(*features: Feature, limits: ClientLimits | None = None) -> Options:
    return Options("clocked", features=features, limits=limits, eras=EraMemory())


@EVERY_WAY
@EVERY_ERA
async def test_a_feature_is_declared_asked_and_told(over: Over, era: str) -> None:
    clock, server = Clock(), Server(era, QUESTION)
    with trio.fail_after(10):
        async with over(server, options(clock.feature)) as connection:
            assert (await connection.call_tool("t")).content == "done"
    assert server.declared == CAPABILITY
    assert server.answers == [{"time": "12:00 in Europe/Rome"}]
    assert set(clock.ticks) == {7}


@EVERY_WAY
async def test_params_that_cannot_be_served_are_refused_by_the_feature(over: Over) -> None:
    wrong = {"method": "clock/read", "params": {}}
    legacy, modern = Server("legacy", wrong), Server("modern", wrong)
    with trio.fail_after(10):
        async with over(legacy, options(Clock().feature)) as connection:
            await connection.call_tool("t")
        assert legacy.answers == [{"code": -32602, "message": "a zone is missing"}]
        async with over(modern, options(Clock().feature)) as connection:
            with pytest.raises(ProtocolError, match="clock/read: a zone is missing"):
                await connection.call_tool("t")


async def test_a_handler_that_fails_ends_a_modern_call_and_is_an_internal_error_to_a_legacy_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    clock.fails = True
    legacy, modern = Server("legacy", QUESTION), Server("modern", QUESTION)
    with trio.fail_after(10):
        async with over_memory(legacy, options(clock.feature)) as connection:
            await connection.call_tool("t")
        async with over_memory(modern, options(clock.feature)) as connection:
            with pytest.raises(ValueError, match="the clock stands still"):
                await connection.call_tool("t")
    assert legacy.answers == [{"code": -32603, "message": "clock/read failed"}]
    assert 'server "clocked": a question was not answered: its handler failed' in caplog.text


@EVERY_ERA
async def test_without_the_feature_nothing_is_declared_and_the_question_is_not_offered(era: str) -> None:
    server = Server(era, QUESTION)
    with trio.fail_after(10):
        async with over_memory(server, options()) as connection:
            if era == "modern":
                with pytest.raises(ProtocolError, match="the server asks for clock/read, which is not offered"):
                    await connection.call_tool("t")
            else:
                await connection.call_tool("t")
    assert server.declared == {}
    if era == "legacy":
        assert server.answers == [{"code": -32601, "message": "Method not found: clock/read"}]


async def test_a_malformed_notification_is_dropped_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    ours, theirs = memory_stream_pair()
    heard = []

    async def start(handlers: Handlers, _: Any) -> Transport:
        await trio.lowlevel.checkpoint()
        heard.append(handlers)
        return StreamTransport(ours, ours, handlers, name="clocked")

    async def serve(peer: Peer) -> None:
        await peer.answer(await peer.take(), Server("legacy", QUESTION).asked({"method": "initialize"}))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, Peer(theirs, theirs))
            launcher = Launcher(name="clocked", start=start, protocol="legacy")
            async with opened(launcher, options(clock.feature)):
                for params in (b"{}", b"{}", b'{"at": 1}'):
                    heard[0].on_notification("notifications/clock/tick", params)
    assert clock.ticks == [1]
    assert caplog.text.count("a tick without a time was dropped") == 1


def test_two_features_cannot_claim_one_method() -> None:
    with pytest.raises(ValueError, match="two features of the client claim 'clock'"):
        FeatureTable([Clock().feature, Clock().feature])


async def test_a_legacy_server_may_ask_so_many_questions_at_once() -> None:
    server = Server("legacy", QUESTION)
    with trio.fail_after(10):
        limits = ClientLimits(max_questions=0)
        async with over_memory(server, options(Clock().feature, limits=limits)) as connection:
            await connection.call_tool("t")
    assert server.answers == [{"code": -32603, "message": "too many questions at once"}]
