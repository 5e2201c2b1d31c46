"""Clients over HTTP without an MCP library, on trio: httpx alone, and a bare loop of h11."""

from __future__ import annotations

import importlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import trio

from .lines import decode_answer, decode_result, request_line
from .stdio_floors import cannot_list
from .target import Client, Target


def text_of(body: bytes) -> str:
    """The echoed text of a response, which is JSON or one event."""
    if not body.startswith(b"{"):
        body = body.partition(b"data: ")[2].splitlines()[0]
    return decode_result(decode_answer(body).result).content[0].text


@asynccontextmanager
async def httpx(target: Target) -> AsyncGenerator[Client, None]:
    """httpx on trio, which only sends the one MCP message."""
    library = importlib.import_module("httpx")
    limits = library.Limits(max_connections=None, max_keepalive_connections=None)
    async with library.AsyncClient(limits=limits, timeout=None) as client:

        async def call(text: str) -> str:
            headers = {"Content-Type": "application/json"}
            return text_of((await client.post(target.url, content=request_line(1, text), headers=headers)).content)

        yield Client(call, cannot_list)


@asynccontextmanager
async def loop(target: Target) -> AsyncGenerator[Client, None]:
    """The least that h11 over trio streams can do, with a stack of idle connections."""
    h11 = importlib.import_module("h11")
    parts = urlsplit(target.url)
    idle: list[tuple[trio.SocketStream, Any]] = []

    async def call(text: str) -> str:
        if idle:
            stream, state = idle.pop()
        else:
            stream = await trio.open_tcp_stream(str(parts.hostname), parts.port or 80)
            state = h11.Connection(h11.CLIENT)
        body = request_line(1, text)
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

    yield Client(call, cannot_list)
    for stream, _ in idle:
        await stream.aclose()
