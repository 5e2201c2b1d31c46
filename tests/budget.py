"""What one call costs in work that can be counted, and the budget that it must keep. test_budget.py holds it.

    python -m tests.budget             # what it costs now, beside the budget
    python -m tests.budget --record    # make that the budget

No clock is asked: a count is the same on a fast machine and on a busy one. For each piece of work:

- steps: how often a task goes on, the far end's apart: each needless checkpoint is one.
- tasks: tasks that trio_mcp starts.
- copies (large texts only): the most memory in use meanwhile, in sizes of the text.
- objects (waiting calls only): what the garbage collector has to look at for each, its task apart. With thousands
  in flight that is what makes each of them cost more.

The far end is a task of this file: it answers everything at once, and is not counted.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec
import trio
from trio.testing import wait_all_tasks_blocked

import trio_mcp
from trio_mcp.client.launching import Launcher
from trio_mcp.client.opening import opened
from trio_mcp.client.options import Options
from trio_mcp.server.streams import StreamService
from trio_mcp.transports.base import Handlers, Transport
from trio_mcp.transports.lines.transport import StreamTransport

RECORD = Path(__file__).with_name("budget.json")
#: What a change may add before the test asks. One step, task or object more is one too many.
ROOM = {"copies": 1.15, "objects": 1.0, "steps": 1.0, "tasks": 1.0}
#: A part of one must not fail: with 100 calls at once, who runs first is left to chance.
SLACK = 0.3

WARM_UP, ROUNDS = 3, 5
TOOLS = 1000
LARGE = 4 * 2**20
WAITING = 200

PACKAGE = str(Path(trio_mcp.__file__).parent)

#: Does the work once.
Work = Callable[[], Awaitable[None]]
Costs = dict[str, float]
Units = int | Callable[[Work], Awaitable[Costs]]


# --- counting


class Count(trio.abc.Instrument):
    """Counts while it is entered."""

    def __init__(self) -> None:
        self.steps = self.tasks = 0

    def __enter__(self) -> Count:
        trio.lowlevel.add_instrument(self)
        return self

    def __exit__(self, *_: object) -> None:
        trio.lowlevel.remove_instrument(self)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task goes on."""
        self.steps += "far_end" not in task.name

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        """A task was started."""
        self.tasks += is_ours(getattr(task.coro, "cr_code", None))


def is_ours(code: CodeType | None) -> bool:
    """Whether this is code of the package."""
    return code is not None and code.co_filename.startswith(PACKAGE)


async def count(work: Work, units: int) -> Costs:
    """What a unit of the work costs."""
    for _ in range(WARM_UP):
        await work()
    with Count() as found:
        for _ in range(ROUNDS):
            await work()
    each = units * ROUNDS
    return {"steps": round(found.steps / each, 2), "tasks": round(found.tasks / each, 2)}


async def copies(work: Work) -> Costs:
    """The most memory that the work has in use, in sizes of the large text."""
    await work()
    gc.collect()
    tracemalloc.start()
    try:
        await work()
        return {"copies": round(tracemalloc.get_traced_memory()[1] / LARGE, 2)}
    finally:
        tracemalloc.stop()


async def objects(work: Work) -> Costs:
    """What the garbage collector has to look at for each of many works that wait, beyond a task that sleeps."""
    counts = []
    async with trio.open_nursery() as nursery:
        for task in (None, trio.sleep_forever, work):
            for _ in range(WAITING if task is not None else 0):
                assert task is not None
                nursery.start_soon(task)
            await wait_all_tasks_blocked()
            gc.collect()
            counts.append(len(gc.get_objects()))
        nursery.cancel_scope.cancel()
    idle, waiting = counts[1] - counts[0], counts[2] - counts[1]
    return {"objects": round((waiting - idle) / WAITING, 1)}


# --- the far ends


RESULT = b'{"content":[{"type":"text","text":"four"}]}'
PAGE = msgspec.json.encode(
    {"tools": [{"name": f"tool_{number}", "inputSchema": {"type": "object"}} for number in range(TOOLS)]}
)
HELLO = b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"far","version":"1"}}'
ANSWER = b'{"jsonrpc":"2.0","id":%d,"result":%b}\n'
MODERN_RESULT = b'{"resultType":"complete","content":[{"type":"text","text":"four"}]}'
DISCOVERED = (
    b'{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,'
    b'"cacheScope":"private"}'
)
HTTP = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"four"}}}\n'
MODERN_CALL = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"four"},"_meta":{'
    b'"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'
)
HANDSHAKE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"far","version":"1"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)


class Ask(msgspec.Struct):
    """What a server reads of a request."""

    method: str
    id: int | None = None


def answer(line: bytes, result: bytes) -> bytes:
    """What the far end says to a message of a client; `result` to a call, nothing where that is empty."""
    asked = msgspec.json.decode(line, type=Ask)
    if asked.id is None or (asked.method == "tools/call" and not result):
        return b""
    results = {"initialize": HELLO, "server/discover": DISCOVERED, "tools/list": PAGE, "tools/call": result}
    return ANSWER % (asked.id, results[asked.method])


class Ends:
    """Both directions of two pipes, as one of the two sides has them."""

    def __init__(self, receive: int, send: int) -> None:
        self._send = send
        self.receive, self.send = trio.lowlevel.FdStream(receive), trio.lowlevel.FdStream(send)

    def write_now(self, data: bytes) -> int:
        """As the real ones: write what goes without waiting."""
        try:
            return os.write(self._send, data)
        except BlockingIOError:
            return 0


@asynccontextmanager
async def pipes() -> AsyncIterator[tuple[Ends, Ends]]:
    """Two processes' worth of pipes within one: real descriptors, since they are what costs."""
    (there, from_here), (here, from_there) = os.pipe(), os.pipe()
    near, far = Ends(here, from_here), Ends(there, from_there)
    try:
        yield near, far
    finally:
        for end in (near.send, near.receive, far.send, far.receive):
            await end.aclose()


class Reader:
    """Whole lines, as many as each read ends."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream

    async def lines(self) -> list[bytes]:
        """The next ones; none at the end."""
        data = bytes(await self._stream.receive_some(65536))
        while data and not data.endswith(b"\n"):
            data += await self._stream.receive_some(65536)
        return data.splitlines()


# --- the work


@asynccontextmanager
async def connected(result: bytes = RESULT) -> AsyncIterator[trio_mcp.Connection]:
    """A connection over pipes to a server that answers at once."""
    async with pipes() as (near, far), trio.open_nursery() as nursery:

        async def far_end() -> None:
            reader = Reader(far.receive)
            while lines := await reader.lines():
                await far.send.send_all(b"".join([answer(line, result) for line in lines]))

        async def start(handlers: Handlers, _: Any) -> Transport:
            await trio.lowlevel.checkpoint()
            return StreamTransport(near.send, near.receive, handlers, name="far", write_now=near.write_now)

        nursery.start_soon(far_end)
        async with opened(Launcher(name="far", protocol="legacy", start=start), Options("far")) as connection:
            yield connection
        nursery.cancel_scope.cancel()


def echoing(connection: trio_mcp.Connection) -> Work:
    """One call."""

    async def echo() -> None:
        result = await connection.call_tool("echo", {"text": "four"})
        assert len(result.content) in (4, LARGE)

    return echo


@asynccontextmanager
async def calls(at_once: int) -> AsyncIterator[Work]:
    """A client's calls over stdio."""
    async with connected() as connection:
        yield repeated(echoing(connection), at_once)


@asynccontextmanager
async def large_call() -> AsyncIterator[Work]:
    """A client's call with a large result."""
    async with connected(RESULT.replace(b"four", b"x" * LARGE)) as connection:
        yield echoing(connection)


@asynccontextmanager
async def waiting_call() -> AsyncIterator[Work]:
    """A client's call that is not answered."""
    async with connected(b"") as connection:
        yield echoing(connection)


@asynccontextmanager
async def listing() -> AsyncIterator[Work]:
    """A client's listing of many tools."""
    async with connected() as connection:
        yield connection.refresh_tools


@asynccontextmanager
async def http_calls(at_once: int) -> AsyncIterator[Work]:
    """A client's calls over HTTP."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")

    async def far_end() -> None:
        while True:
            async with await listener.accept() as stream:
                data = b""
                while chunk := await stream.receive_some():
                    data += chunk
                    if data.rstrip().endswith(b"}"):
                        body = answer(data.rpartition(b"\r\n\r\n")[2], MODERN_RESULT)
                        await stream.send_all(HTTP % (len(body), body))
                        data = b""

    async with trio.open_nursery() as nursery:
        nursery.start_soon(far_end)
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/mcp"
        server = trio_mcp.Server("far", url=url, protocol="modern")
        async with trio_mcp.open_connection(server) as connection:
            yield repeated(echoing(connection), at_once)
        nursery.cancel_scope.cancel()
    await listener.aclose()


@asynccontextmanager
async def served(at_once: int) -> AsyncIterator[Work]:
    """Calls to a ToolServer with one async function."""

    async def echo(text: str) -> str:
        return text

    server = trio_mcp.ToolServer("near")
    server.add_tools(trio_mcp.tool(echo))
    async with pipes() as (near, far), trio.open_nursery() as nursery:
        service = StreamService(server, near.send, near.receive, grace=0, write_now=near.write_now)
        nursery.start_soon(service.run)
        answers = Reader(far.receive)
        await far.send.send_all(HANDSHAKE)
        await answers.lines()

        async def far_end() -> None:
            await far.send.send_all(b"".join([CALL % number for number in range(at_once)]))
            count = 0
            while count < at_once:
                lines = await answers.lines()
                assert all(b'"text":"four"' in line for line in lines)
                count += len(lines)

        yield repeated(far_end, 1)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def served_over_http() -> AsyncIterator[Work]:
    """Modern calls to a ToolServer as an ASGI application. What would be behind that is not counted."""

    async def echo(text: str) -> str:
        return text

    server = trio_mcp.ToolServer("near")
    server.add_tools(trio_mcp.tool(echo))
    app = trio_mcp.asgi_app(server)
    fields = {
        "host": "localhost",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "echo",
    }
    headers = [(name.encode(), value.encode()) for name, value in fields.items()]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers}

    async def call() -> None:
        coming = [{"type": "http.request", "body": MODERN_CALL}]
        sent: list[bytes] = []

        async def receive() -> Any:
            return coming.pop() if coming else await trio.sleep_forever()

        async def send(message: Any) -> None:
            await trio.lowlevel.checkpoint()
            sent.append(message.get("body", b""))

        await app(scope, receive, send)
        assert b'"text":"four"' in b"".join(sent)

    yield repeated(call, 1)


def repeated(work: Work, at_once: int) -> Work:
    """So many at once, each in a task."""

    async def at_once_all() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(at_once):
                nursery.start_soon(work)

    return at_once_all


#: Every piece of work: how it is set up, and how many units of it there are, or what else is counted.
WORKS: dict[str, tuple[Callable[[], AbstractAsyncContextManager[Work]], Units]] = {
    "a call over stdio, one at a time": (lambda: calls(1), 1),
    "a call over stdio, 100 at once": (lambda: calls(100), 100),
    "a call over HTTP, one at a time": (lambda: http_calls(1), 1),
    "a call served over stdio, one at a time": (lambda: served(1), 1),
    "a call served over stdio, 100 at once": (lambda: served(100), 100),
    "a call served over HTTP, one at a time": (served_over_http, 1),
    f"a tool of a listing of {TOOLS:,}": (listing, TOOLS),
    "a result of 4 MiB": (large_call, copies),
    "a call over stdio that waits": (waiting_call, objects),
}


async def measured(name: str) -> Costs:
    """What a unit of this work costs now."""
    setup, units = WORKS[name]
    with trio.fail_after(60):
        async with setup() as work:
            return await count(work, units) if isinstance(units, int) else await units(work)


def budget() -> dict[str, Costs]:
    """What was recorded."""
    recorded: dict[str, Costs] = json.loads(RECORD.read_text(encoding="utf-8"))
    return recorded


def main() -> None:
    """Measure; print or record."""
    record = sys.argv[1:] == ["--record"]
    found = {name: trio.run(measured, name) for name in WORKS}
    if record:
        RECORD.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    recorded = budget()
    for name, costs in found.items():
        print(name)
        for what, cost in costs.items():
            print(f"  {what:10}{cost:9.2f}  budget {recorded[name][what]:9.2f}")


if __name__ == "__main__":
    main()
