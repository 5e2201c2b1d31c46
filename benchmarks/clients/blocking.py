"""A blocking client without tasks: one line out, one line in. It is the floor for waiting on the server alone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio

from .lines import HANDSHAKE, INITIALIZED, READ_SIZE, Lines, decode_answer, decode_result, request_line
from .target import Client, Target


class Page(msgspec.Struct, rename="camel"):
    """The result of tools/list, each entry decoded into a dict that a caller can read."""

    tools: list[dict[str, Any]]
    next_cursor: str | None = None


decode_page = msgspec.json.Decoder(Page).decode


class Blocking:
    """One server, which is started here; `shake_hands` makes it ready for calls."""

    def __init__(self, target: Target) -> None:
        self._child = subprocess.Popen(target.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._sink, self._source = self._child.stdin.fileno(), self._child.stdout.fileno()
        self._lines = Lines()
        self._number = 0

    def shake_hands(self) -> None:
        """Initialize, and list the tools."""
        self.ask(HANDSHAKE % 0)
        self.write(INITIALIZED)
        self.count_tools()

    def call(self, text: str) -> str:
        """One call."""
        self._number += 1
        return decode_result(self.ask(request_line(self._number, text))).content[0].text

    def count_tools(self) -> int:
        """List every page."""
        count, cursor = 0, b""
        while True:
            self._number += 1
            line = b'{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{%b}}\n' % (self._number, cursor)
            page = decode_page(self.ask(line))
            count += len(page.tools)
            if page.next_cursor is None:
                return count
            cursor = b'"cursor":%b' % msgspec.json.encode(page.next_cursor)

    def ask(self, line: bytes) -> msgspec.Raw:
        """Write a request, and read until its answer has come."""
        self.write(line)
        while not (whole := self._lines.feed(os.read(self._source, READ_SIZE))):
            pass
        return decode_answer(whole[0]).result

    def write(self, line: bytes) -> None:
        """Write a whole line."""
        view = memoryview(line)
        while view:
            view = view[os.write(self._sink, view) :]

    def close(self) -> None:
        """Close its input, and wait for it to exit."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        self._child.wait()
        self._child.stdout.close()


@asynccontextmanager
async def blocking(target: Target) -> AsyncGenerator[Client, None]:
    """The same interface as the other clients have; its calls never wait for the event loop."""
    server = Blocking(target)
    try:
        # When many servers are opened, all of them are started before the first handshake blocks.
        await trio.lowlevel.checkpoint()
        server.shake_hands()

        async def call(text: str) -> str:
            return server.call(text)

        async def count_tools() -> int:
            return server.count_tools()

        yield Client(call, count_tools)
    finally:
        server.close()
