"""The lean server that every client of a benchmark talks to: MCP over stdio with one tool, `echo`.

It is for measuring clients: it answers faster than any of them can ask, so that what a table shows is the
client. One synchronous loop: read what is there, answer each whole line of it, write the answers at once. The
text to echo is never decoded: its JSON goes back as it came. It speaks the legacy era only (`initialize`;
`server/discover` is answered with -32601, as most servers of today do) and must know nothing of trio_mcp.

Run by hand it measures itself: `python benchmarks/echo_server.py --measure` prints how many calls a second
its loop answers when no client is at the other end.
"""

from __future__ import annotations

import os
import sys
import time

import msgspec

#: More than a pipe holds (64 KiB unless somebody enlarged it): one read takes all that is there.
READ_SIZE = 1 << 20

LEGACY_REVISIONS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
NEWEST_LEGACY = "2025-11-25"

NOTHING = msgspec.Raw(b"")
EMPTY_TEXT = msgspec.Raw(b'""')

TOOL = {
    "name": "echo",
    "description": "Returns its text.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "annotations": {"readOnlyHint": True},
}


class Arguments(msgspec.Struct):
    """The arguments of `echo`."""

    text: msgspec.Raw = EMPTY_TEXT


class Params(msgspec.Struct, rename="camel"):
    """What the loop reads of any request's params."""

    arguments: Arguments | None = None
    protocol_version: str = ""


class Line(msgspec.Struct):
    """One message of the client; an absent id makes it a notification."""

    method: str
    id: msgspec.Raw = NOTHING
    params: Params | None = None


def answer(line: Line) -> bytes:
    """The whole line that answers a request; nothing for a notification.

    Example:
        >>> answer(Line("ping", msgspec.Raw(b"7")))
        b'{"jsonrpc":"2.0","id":7,"result":{}}\\n'
    """
    request_id = bytes(line.id)
    if not request_id:
        return b""
    if line.method == "tools/call":
        arguments = line.params.arguments if line.params is not None else None
        text = arguments.text if arguments is not None else EMPTY_TEXT
        head = b'{"jsonrpc":"2.0","id":%b,"result":{"content":[{"type":"text","text":' % request_id
        return b"".join((head, text, b"}]}}\n"))
    if line.method == "initialize":
        asked = line.params.protocol_version if line.params is not None else ""
        body: dict[str, object] = {
            "protocolVersion": asked if asked in LEGACY_REVISIONS else NEWEST_LEGACY,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "echo", "version": "1"},
        }
    elif line.method == "tools/list":
        body = {"tools": [TOOL]}
    elif line.method == "ping":
        body = {}
    else:
        error = {"code": -32601, "message": f"Method not found: {line.method}"}
        return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (request_id, msgspec.json.encode(error))
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (request_id, msgspec.json.encode(body))


def serve(source: int, sink: int) -> None:
    """Answer what comes in on descriptor `source` until it ends; blocks."""
    decode = msgspec.json.Decoder(Line).decode
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
        answers = b"".join([answer(decode(line)) for line in lines])
        del lines
        write_all(sink, answers)


def write_all(sink: int, data: bytes) -> None:
    """Write all of `data` to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]


def measure(calls: int = 200_000, batch: int = 100) -> float:
    """Calls a second that the loop answers when asked `batch` at a time and nobody reads the answers."""
    request = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"arguments":{"text":"call %d"}}}\n'
    chunk = b"".join([request % (number, number) for number in range(batch)])
    decode = msgspec.json.Decoder(Line).decode
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        started = time.perf_counter()
        for _ in range(calls // batch):
            lines = chunk[:-1].split(b"\n")
            write_all(sink, b"".join([answer(decode(line)) for line in lines]))
        return calls / (time.perf_counter() - started)
    finally:
        os.close(sink)


if __name__ == "__main__":
    if sys.argv[1:] == ["--measure"]:
        print(f"{measure():,.0f} calls/s")
    else:
        serve(0, 1)
