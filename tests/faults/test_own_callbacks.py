"""What the program's own functions raise costs that one item, and never the connection; questions are bounded."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
import trio

from trio_mcp import ElicitRequest, ElicitResult
from trio_mcp.client.launching import Launcher
from trio_mcp.client.limits import ClientLimits
from trio_mcp.client.opening import opened
from trio_mcp.client.options import Options
from trio_mcp.protocol.framing import LineBuffer
from trio_mcp.transports.lines.pair import PairedStream, stream_pair
from trio_mcp.transports.lines.transport import StreamTransport


class Panic(BaseException):
    """As pyo3's PanicException."""


class Unshowable(Exception):  # noqa: N818 - it cannot be shown
    def __str__(self) -> str:
        raise RuntimeError("cannot be shown")


FAILURES = [
    Panic("at the disco"),
    asyncio.CancelledError(),
    Unshowable(),
    BaseExceptionGroup("several", [Panic()]),
]


class LegacyServer:
    """Shakes hands in the legacy era, sends what it is told to, and answers pings."""

    def __init__(self, stream: PairedStream) -> None:
        self.stream = stream
        self.answers: list[dict[str, object]] = []
        self.expected = 1
        self.has_answers = trio.Event()  # as many as are expected

    async def run(self) -> None:
        buffer = LineBuffer()
        while chunk := await self.stream.receive_some():
            for line in buffer.feed(chunk):
                message = json.loads(line)
                if "method" not in message:
                    self.answers.append(message)
                    if len(self.answers) == self.expected:
                        self.has_answers.set()
                elif "id" in message:
                    result = {"protocolVersion": "2025-11-25", "capabilities": {"logging": {}}}
                    result["serverInfo"] = {"name": "x", "version": "1"}
                    await self.send({"id": message["id"], "result": result})

    async def send(self, *messages: dict[str, object]) -> None:
        lines = (json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
        await self.stream.send_all("".join(lines).encode())


def launcher(nursery: trio.Nursery, servers: list[LegacyServer]) -> Launcher:
    async def start(handlers: object, _: object) -> StreamTransport:
        await trio.lowlevel.checkpoint()
        ours, theirs = stream_pair()
        servers.append(LegacyServer(theirs))
        nursery.start_soon(servers[-1].run)
        return StreamTransport(ours, ours, handlers, name="x")  # type: ignore[arg-type] # they are Handlers

    return Launcher(name="x", protocol="legacy", start=start)


def question(number: int) -> dict[str, object]:
    schema = {"type": "object", "properties": {}}
    return {
        "id": number,
        "method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": schema},
    }


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
async def test_a_failing_on_elicit_is_told_as_a_cancel(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def on_elicit(request: ElicitRequest) -> ElicitResult:
        raise error

    servers: list[LegacyServer] = []
    caplog.set_level(logging.CRITICAL, "trio_mcp.client")
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            async with opened(launcher(nursery, servers), Options("x", on_elicit=on_elicit)) as connection:
                await servers[0].send(question(7))
                await servers[0].has_answers.wait()
                await connection.request("ping")
    assert servers[0].answers == [{"jsonrpc": "2.0", "id": 7, "result": {"action": "cancel"}}]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
async def test_a_failing_on_log_costs_that_message_alone(error: BaseException) -> None:
    heard: list[object] = []
    second = trio.Event()

    def on_log(level: str, source: str | None, data: object) -> None:
        heard.append(data)
        if len(heard) == 1:
            raise error
        second.set()

    servers: list[LegacyServer] = []
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            async with opened(launcher(nursery, servers), Options("x", on_log=on_log)) as connection:
                for number in (1, 2):
                    params = {"level": "info", "data": number}
                    await servers[0].send({"method": "notifications/message", "params": params})
                await second.wait()
                await connection.request("ping")
    assert heard == [1, 2]


async def test_questions_are_counted_when_they_are_accepted() -> None:
    """Thousands in one write: no more are asked at once than may be, and each is answered."""
    asked = 0

    async def on_elicit(request: ElicitRequest) -> ElicitResult:
        nonlocal asked
        asked += 1
        await trio.sleep_forever()
        raise AssertionError

    servers: list[LegacyServer] = []
    options = Options("x", on_elicit=on_elicit, limits=ClientLimits(max_questions=16))
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery, opened(launcher(nursery, servers), options):
            servers[0].expected = 5000 - 16
            await servers[0].send(*map(question, range(5000)))
            await servers[0].has_answers.wait()
    assert asked == 16
