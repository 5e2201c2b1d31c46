"""The lean server that every client of a benchmark talks to: MCP over stdio, with one tool, which echoes.

    python benchmarks/servers/echo.py [--tools N] [--page N] [--measure]

It is for measuring clients: it answers faster than any client can ask, so that the figures show the client. One
synchronous loop reads all bytes that have come, answers each whole line, and writes the answers together. The text
to echo is never decoded: its JSON goes back as it came. Over stdio it speaks the legacy era only, as most servers
do today; echo_http.py serves the same answers, and those of the modern era. It must know nothing of trio_mcp. With
--measure it prints how many calls a second its loop answers when no client is connected.
"""

from __future__ import annotations

import argparse
import os
import time

import msgspec

#: More than a pipe holds (64 KiB by default): one read takes all bytes that have come.
READ_SIZE = 1 << 20

LEGACY_REVISIONS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
NEWEST_LEGACY = "2025-11-25"
INFO = {"name": "echo", "version": "1"}

NOTHING = msgspec.Raw(b"")
EMPTY_TEXT = msgspec.Raw(b'""')

#: Every result of the modern era has these members; a legacy client skips members that it does not know.
MODERN = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/serverInfo": INFO}}
LISTED = {**MODERN, "ttlMs": 0, "cacheScope": "private"}


class Arguments(msgspec.Struct):
    """The arguments of `echo`."""

    text: msgspec.Raw = EMPTY_TEXT


class Params(msgspec.Struct, rename="camel"):
    """The params that this server reads, of any request."""

    arguments: Arguments | None = None
    protocol_version: str = ""
    cursor: str = ""


class Line(msgspec.Struct):
    """One message of the client; an absent id makes it a notification."""

    method: str
    id: msgspec.Raw = NOTHING
    params: Params | None = None


def tool(number: int) -> dict[str, object]:
    """The first tool is `echo`; the others only make the listing longer."""
    return {
        "name": f"tool_{number}" if number else "echo",
        "description": "Returns its text.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "What to return."}},
            "required": ["text"],
        },
        "annotations": {"readOnlyHint": True},
    }


class Answers:
    """The answers to all requests, with the pages of the listing encoded once.

    Example:
        >>> Answers().answer(Line("ping", msgspec.Raw(b"7")))
        b'{"jsonrpc":"2.0","id":7,"result":{}}'
    """

    def __init__(self, *, tools: int = 1, page: int = 1000, modern: bool = False) -> None:
        self._modern = modern
        self._pages: dict[str, bytes] = {}
        for first in range(0, tools, page):
            listed: dict[str, object] = {
                "tools": [tool(number) for number in range(first, min(first + page, tools))]
            }
            if first + page < tools:
                listed["nextCursor"] = str(first + page)
            self._pages[str(first or "")] = msgspec.json.encode({**LISTED, **listed} if modern else listed)
        self._tail = b"}]%b}}" % (b"," + msgspec.json.encode(MODERN)[1:-1] if modern else b"")

    def answer(self, line: Line) -> bytes:
        """The answer to a request, without a line end; nothing for a notification."""
        request_id = bytes(line.id)
        params = line.params
        if not request_id:
            return b""
        if line.method == "tools/call":
            arguments = params.arguments if params is not None else None
            text = arguments.text if arguments is not None else EMPTY_TEXT
            head = b'{"jsonrpc":"2.0","id":%b,"result":{"content":[{"type":"text","text":' % request_id
            return b"".join((head, text, self._tail))
        if line.method == "tools/list":
            body = self._pages[params.cursor if params is not None else ""]
            return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request_id, body)
        if line.method == "initialize":
            asked = params.protocol_version if params is not None else ""
            version = asked if asked in LEGACY_REVISIONS else NEWEST_LEGACY
            result: object = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": INFO}
        elif line.method == "server/discover" and self._modern:
            result = {**LISTED, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        elif line.method == "ping":
            result = {}
        else:
            error = msgspec.json.encode({"code": -32601, "message": f"Method not found: {line.method}"})
            return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (request_id, error)
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request_id, msgspec.json.encode(result))


decode = msgspec.json.Decoder(Line).decode


def serve(answers: Answers, source: int, sink: int) -> None:
    """Answer the lines from descriptor `source` until it ends; blocks."""
    unfinished: list[bytes] = []
    while chunk := os.read(source, READ_SIZE):
        # Only the new chunk is searched: a line of many chunks costs no more than its length.
        whole, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            unfinished.append(chunk)
            continue
        unfinished.append(whole)
        lines = b"".join(unfinished).split(b"\n")
        unfinished = [rest] if rest else []
        found = [answer for line in lines if (answer := answers.answer(decode(line)))]
        del lines
        if found:
            found.append(b"")
            write_all(sink, b"\n".join(found))


def write_all(sink: int, data: bytes) -> None:
    """Write all of `data` to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]


def measure(answers: Answers, calls: int = 200_000, batch: int = 100) -> float:
    """Calls a second that the loop answers, with `batch` calls in a chunk and no reader of the answers."""
    request = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"arguments":{"text":"call %d"}}}\n'
    chunk = b"".join([request % (number, number) for number in range(batch)])
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        started = time.perf_counter()
        for _ in range(calls // batch):
            lines = chunk[:-1].split(b"\n")
            write_all(sink, b"\n".join([answers.answer(decode(line)) for line in lines]))
        return calls / (time.perf_counter() - started)
    finally:
        os.close(sink)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="MCP over stdio with one tool, echo.")
    parser.add_argument("--tools", type=int, default=1)
    parser.add_argument("--page", type=int, default=1000)
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    all_answers = Answers(tools=options.tools, page=options.page)
    if options.measure:
        print(f"{measure(all_answers):,.0f} calls/s")
    else:
        serve(all_answers, 0, 1)
