"""Every teardown ends, whatever is raised inside it, and tells every call that waits."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import trio_mcp
from tests.fakes import FakeProcess
from trio_mcp import Server, ServerStoppedError, ToolServer, open_memory_connection, tool
from trio_mcp.client.incoming.answering import PendingAnswers
from trio_mcp.protocol import messages
from trio_mcp.server.streams import StreamService
from trio_mcp.transports.base import Handlers
from trio_mcp.transports.lines import transport as lines
from trio_mcp.transports.lines.pair import stream_pair
from trio_mcp.transports.lines.transport import StreamTransport
from trio_mcp.transports.stdio.transport import StdioTransport
from trio_mcp.transports.streamable.transport import HttpTransport


class Bug(BaseException):
    """What is no `Exception`, as a MemoryError may as well be none that anybody foresaw."""


def raising(error: BaseException) -> Any:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def served() -> ToolServer:
    @tool
    async def hang() -> None:
        await trio.sleep_forever()

    server = ToolServer("served")
    server.add_tools(hang)
    return server


def handlers(ends: list[Exception | None], fail: BaseException | None = None) -> Handlers:
    def on_end(error: Exception | None) -> None:
        ends.append(error)
        if fail is not None:
            raise fail

    return Handlers(on_notification=lambda *_: None, on_request=lambda *_: None, on_end=on_end)


@pytest.fixture
def broken_reader(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Once there is an error in the list, readers raise it for the next line that comes."""
    errors: list[BaseException] = []
    read_line = messages.read_line

    def read(*args: Any, **options: Any) -> Any:
        if errors:
            raise errors.pop()
        return read_line(*args, **options)

    monkeypatch.setattr(lines, "read_line", read)
    return errors


@pytest.mark.parametrize("error", [MemoryError(), Bug()], ids=repr)
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_an_error_in_a_reader_ends_a_connection_in_memory(
    era: Any, error: BaseException, broken_reader: list[BaseException]
) -> None:
    """The first to read is the server."""
    with trio.fail_after(5), pytest.raises((type(error), ServerStoppedError)):  # noqa: PT012 - likewise
        async with open_memory_connection(served(), protocol=era) as connection:
            broken_reader.append(error)
            await connection.request("tools/list")


@pytest.mark.parametrize("error", [MemoryError(), Bug()], ids=repr)
async def test_an_error_in_the_clients_reader_ends_a_connection_in_memory(
    error: BaseException, broken_reader: list[BaseException]
) -> None:
    @tool
    async def another() -> None: ...

    server = served()
    with trio.fail_after(5), pytest.raises(type(error)):  # noqa: PT012 - the end of the block is what raises
        async with open_memory_connection(server, protocol="legacy"):
            await wait_all_tasks_blocked()
            broken_reader.append(error)
            server.add_tools(another)  # of which the client is told
            await trio.sleep_forever()


async def call(transport: StreamTransport | HttpTransport, errors: list[Exception]) -> None:
    try:
        await transport.request("hang", b"{}")
    except Exception as error:
        errors.append(error)


async def test_every_call_fails_also_where_there_is_no_memory_for_its_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends: list[Exception | None] = []
    errors: list[Exception] = []
    ours, theirs = stream_pair()
    transport = StreamTransport(ours, ours, handlers(ends), name="x")
    monkeypatch.setattr(lines, "renewed", raising(MemoryError()))
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(call, transport, errors)
            await wait_all_tasks_blocked()
            await theirs.aclose()
            with pytest.RaisesGroup(MemoryError, flatten_subgroups=True):
                await transport.run()
    assert [type(error) for error in errors] == [ServerStoppedError] * 3
    assert len(ends) == 1


async def test_a_stream_is_closed_also_where_on_end_raises() -> None:
    ends: list[Exception | None] = []
    ours, theirs = stream_pair()
    transport = StreamTransport(ours, ours, handlers(ends, Bug()), name="x")
    transport.close()
    with trio.fail_after(5):
        with pytest.RaisesGroup(Bug, flatten_subgroups=True):
            await transport.run()
        assert await theirs.receive_some() == b""
    assert ends == [None]


async def test_a_process_is_ended_also_where_on_end_raises() -> None:
    ends: list[Exception | None] = []
    process = FakeProcess()
    transport = StdioTransport(Server("x", command="y"), process, handlers(ends, Bug()))
    transport.close()
    with trio.fail_after(5), pytest.RaisesGroup(Bug, flatten_subgroups=True):
        await transport.run()
    assert process.exited.is_set()


async def test_over_http_too_every_call_fails_and_on_end_is_called_after_a_bug(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends: list[Exception | None] = []
    errors: list[Exception] = []
    transport = HttpTransport(Server("x", url="http://127.0.0.1:1/mcp"), handlers(ends))

    async def fail(*_: Any) -> None:
        raise Bug

    async def hang(*_: Any) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(transport, "_perform", hang)
    monkeypatch.setattr(transport, "_post_line", fail)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                with pytest.RaisesGroup(Bug, flatten_subgroups=True):
                    await transport.run()

            nursery.start_soon(run)
            await wait_all_tasks_blocked()
            nursery.start_soon(call, transport, errors)
            await wait_all_tasks_blocked()
            transport.notify("x")
    assert [type(error) for error in (*errors, *ends)] == [ServerStoppedError] * 2


def test_a_signal_while_questions_are_stopped_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of the teardown: it ends, and KeyboardInterrupt leaves."""

    def stop(self: PendingAnswers) -> None:
        if not told:
            told.append(1)
            signal.raise_signal(signal.SIGINT)

    told: list[int] = []
    monkeypatch.setattr(PendingAnswers, "stop", stop)

    async def main() -> None:
        with trio.fail_after(5):
            async with open_memory_connection(served()):
                pass
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert told


def test_a_signal_while_the_transport_is_built_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    build = StreamTransport.__init__

    def interrupted(self: StreamTransport, *args: Any, **options: Any) -> None:
        build(self, *args, **options)
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        with trio.fail_after(5):
            async with open_memory_connection(served()):
                await trio.sleep_forever()

    monkeypatch.setattr(StreamTransport, "__init__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trio.run(main)


async def test_a_service_that_fails_is_told_of_no_change_any_more(broken_reader: list[BaseException]) -> None:
    server = served()
    ours, theirs = stream_pair()
    broken_reader.append(MemoryError())
    with trio.fail_after(5):
        await ours.send_all(b'{"jsonrpc":"2.0","method":"x"}\n')
        with pytest.raises(MemoryError):
            await StreamService(server, theirs, theirs, grace=0).run()
    assert len(server.changes) == 0


def test_the_product_uses_no_helper_of_trios_testing_kit() -> None:
    package = Path(trio_mcp.__file__).parent
    users = [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if any(text in path.read_text() for text in ("from trio.testing", "import trio.testing", "trio.testing."))
    ]
    assert users == []
