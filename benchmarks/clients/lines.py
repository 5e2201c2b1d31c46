"""Shared by the floors: structs for the few messages that they need, and chunks split into lines.

None of the floors negotiates, cancels, counts, limits or survives an error.
"""

from __future__ import annotations

import msgspec

#: The bytes that a pipe holds.
READ_SIZE = 1 << 16

HANDSHAKE = (
    b'{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"floor","version":"1"}}}\n'
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


class Arguments(msgspec.Struct):
    """The arguments of `echo`."""

    text: str


class Params(msgspec.Struct):
    """The params of tools/call."""

    arguments: Arguments
    name: str = "echo"


class Request(msgspec.Struct):
    """One tools/call."""

    id: int
    params: Params
    jsonrpc: str = "2.0"
    method: str = "tools/call"


class Answer(msgspec.Struct):
    """An answer; its result stays undecoded until the caller's task runs."""

    id: int
    result: msgspec.Raw


class Block(msgspec.Struct):
    """A text block."""

    text: str


class Result(msgspec.Struct):
    """The result of tools/call."""

    content: list[Block]


encode_lines = msgspec.json.Encoder().encode_lines
decode_answer = msgspec.json.Decoder(Answer).decode
decode_result = msgspec.json.Decoder(Result).decode


def request_line(number: int, text: str) -> bytes:
    """One tools/call as a line."""
    return encode_lines([Request(number, Params(Arguments(text)))])


class Lines:
    """Splits chunks into whole lines; a line of many chunks costs no more than its length."""

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk."""
        if not chunk:
            raise EOFError("the server has closed its output")
        whole, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            self._unfinished.append(chunk)
            return []
        self._unfinished.append(whole)
        lines = b"".join(self._unfinished).split(b"\n")
        self._unfinished = [rest] if rest else []
        return lines
