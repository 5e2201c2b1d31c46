"""The clients that http_calls.py compares: `http_clients.py CLIENT URL CALLS AT_ONCE` prints what they took.

Each is an async context manager that gives one function: text in, the echoed text out.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec
import trio

Call = Callable[[str], Awaitable[str]]
WARM_UP = 200


async def ours(url: str) -> AsyncGenerator[Call, None]:
    """trio_mcp."""
    import trio_mcp

    async with trio_mcp.open_connection(trio_mcp.Server("bench", url=url)) as connection:

        async def call(text: str) -> str:
            return (await connection.call_tool("echo", {"text": text})).content

        yield call


async def sdk(url: str) -> AsyncGenerator[Call, None]:
    """The official SDK on anyio's trio backend."""
    # Not an import statement: type checkers run where the SDK is not installed.
    mcp = importlib.import_module("mcp")
    async with mcp.Client(url) as client:
        await client.list_tools()

        async def call(text: str) -> str:
            result = await client.call_tool("echo", {"text": text})
            answer: str = result.content[0].text
            return answer

        yield call


def request(id_: int, text: str) -> bytes:
    """One tools/call."""
    params = {"name": "echo", "arguments": {"text": text}}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params})


def text_of(body: bytes) -> str:
    """What a response says."""
    text: str = msgspec.json.decode(body)["result"]["content"][0]["text"]
    return text


async def httpx_alone(url: str) -> AsyncGenerator[Call, None]:
    """httpx on trio, and no MCP but the one message."""
    import httpx

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=None) as client:

        async def call(text: str) -> str:
            headers = {"Content-Type": "application/json"}
            return text_of((await client.post(url, content=request(1, text), headers=headers)).content)

        yield call


async def loop(url: str) -> AsyncGenerator[Call, None]:
    """h11 over trio streams, a stack of idle connections: the least that these can do."""
    import h11

    parts = urlsplit(url)
    idle: list[tuple[trio.SocketStream, h11.Connection]] = []

    async def call(text: str) -> str:
        if idle:
            stream, state = idle.pop()
        else:
            stream = await trio.open_tcp_stream(str(parts.hostname), parts.port or 80)
            state = h11.Connection(h11.CLIENT)
        body = request(1, text)
        headers = [
            *(("Host", parts.netloc), ("Content-Type", "application/json")),
            ("Content-Length", str(len(body))),
        ]
        data = state.send(h11.Request(method="POST", target=parts.path, headers=headers)) or b""
        await stream.send_all(data + (state.send(h11.Data(body)) or b"") + (state.send(h11.EndOfMessage()) or b""))
        found = b""
        while not isinstance(event := state.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                state.receive_data(bytes(await stream.receive_some(65536)))
            elif isinstance(event, h11.Data):
                found += event.data
        state.start_next_cycle()
        idle.append((stream, state))
        return text_of(found)

    yield call
    for stream, _ in idle:
        await stream.aclose()


CLIENTS = {"ours": ours, "sdk": sdk, "httpx": httpx_alone, "loop": loop}


async def measure(name: str, url: str, calls: int, at_once: int) -> None:
    """Make the calls, and print what they took."""
    async with asynccontextmanager(CLIENTS[name])(url) as call:

        async def work(count: int) -> None:
            async def some(numbers: range) -> None:
                for number in numbers:
                    if await call(f"text {number}") != f"text {number}":
                        raise RuntimeError("a wrong answer")

            async with trio.open_nursery() as nursery:
                for worker in range(at_once):
                    nursery.start_soon(some, range(worker, count, at_once))

        await work(max(at_once, min(calls, WARM_UP)))
        began, cpu = time.perf_counter(), time.process_time()
        await work(calls)
        print(json.dumps({"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}))


if __name__ == "__main__":
    trio.run(measure, sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
