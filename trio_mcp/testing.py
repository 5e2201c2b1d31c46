"""Helpers for tests of programs that use trio_mcp: servers from functions, servers that misbehave, wire scripts.

Everything here is real: functions are served by a real `ToolServer`, misbehaving servers are processes of their
own, and a wire script is played over the same transport as any conversation.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal

import trio
from trio.testing import memory_stream_pair

from .client.connection import Connection
from .client.launching import Launcher
from .client.opening import opened
from .client.options import Options
from .functions.decorators import tool
from .memory import open_memory_connection
from .models.server import Server
from .nursery import bare_nursery
from .protocol.framing import LineBuffer
from .protocol.revisions import ProtocolChoice
from .server.registry import ToolServer
from .tools.tool import Tool
from .transports.base import Handlers, Transport
from .transports.lines.transport import StreamTransport

Misbehaviour = Literal[
    "exits", "silent", "deaf", "chatters", "dies on call", "hangs on call", "closes its output", "floods stderr"
]

# A legacy server of a few lines; `misbehave(request)` is called before each answer, `at_end()` after the last.
_PROGRAM = """
import json, os, signal, sys, time
def misbehave(request): pass
def at_end(): pass
{behaviour}
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    misbehave(request)
    method = request["method"]
    if method == "initialize":
        answer = {{"result": {{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}},
                             "serverInfo": {{"name": "misbehaving", "version": "0"}}}}}}
    elif method == "tools/list":
        answer = {{"result": {{"tools": [{{"name": "work", "inputSchema": {{"type": "object"}}}}]}}}}
    elif method == "tools/call":
        answer = {{"result": {{"content": [{{"type": "text", "text": "worked"}}]}}}}
    else:
        answer = {{"error": {{"code": -32601, "message": "Method not found"}}}}
    print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], **answer}}), flush=True)
at_end()
"""

_BEHAVIOURS: dict[Misbehaviour, str] = {
    "exits": "print('missing API_KEY', file=sys.stderr); sys.exit(2)",
    "silent": "def misbehave(request): time.sleep(3600)",
    "deaf": "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ndef at_end(): time.sleep(3600)",
    "chatters": "print('Starting...', flush=True)\ndef misbehave(request): print('got', request['method'])",
    "dies on call": "def misbehave(request):\n    if request['method'] == 'tools/call': os._exit(3)",
    "hangs on call": "def misbehave(request):\n    if request['method'] == 'tools/call': time.sleep(3600)",
    "closes its output": (
        "def misbehave(request):\n    if request['method'] == 'tools/call': os.close(1); time.sleep(3600)"
    ),
    "floods stderr": "def misbehave(request): sys.stderr.write('x' * 262144)",
}


def misbehaving_server(kind: Misbehaviour, *, name: str = "misbehaving", **fields: Any) -> Server:
    """A server whose process misbehaves in one way, and has one tool, `work`, that answers "worked".

    Args:
        kind: "exits" (at once, status 2), "silent" (never answers), "deaf" (to the end of input and to SIGTERM),
            "chatters" (on stdout), "dies on call" (status 3), "hangs on call", "closes its output" (on a call,
            and lives on), "floods stderr" (256 KiB before each answer).
        name: see `Server`.
        fields: more fields of `Server`, such as `stop_timeout`.

    Example:
        >>> misbehaving_server("deaf", stop_timeout=0.1).name
        'misbehaving'
    """
    if kind not in _BEHAVIOURS:
        raise ValueError(f"kind: expected one of {', '.join(_BEHAVIOURS)}, got {kind!r}")
    program = _PROGRAM.format(behaviour=_BEHAVIOURS[kind])
    return Server(name, command=sys.executable, args=["-c", program], **fields)


def open_functions(
    *functions: Callable[..., Any] | Tool, **options: Any
) -> AbstractAsyncContextManager[Connection]:
    """A connection to a server made of functions, in this process.

    Args:
        functions: what `tool` takes, or tools.
        options: those of `open_memory_connection`.

    Example:
        >>> def double(number: int) -> int:
        ...     return 2 * number
        >>> async def main():
        ...     async with open_functions(double) as connection:
        ...         return (await connection.call_tool("double", {"number": 4})).content
        >>> trio.run(main)
        '8'
    """
    server = ToolServer("functions")
    server.add_tools(*(function if isinstance(function, Tool) else tool(function) for function in functions))
    return open_memory_connection(server, **options)


class ScriptError(AssertionError):
    """A conversation went another way than its script; the text has both."""


class WireScript:
    """A conversation, line by line: `>` what the client must send, `<` what the server sends then.

    A line is JSON. What the client sends must have at least these members with these values. A string "@name"
    stands for any value where it first comes, and for the same one from then on: that is how ids are written.
    Empty lines and lines that begin with `#` say nothing; a `<` line that is no JSON is sent as it is.

    Args:
        text: the script, with a line for each message.

    Raises:
        ValueError: a line of the script cannot be read; it says which.

    Example:
        >>> script = WireScript('''
        ... > {"method": "ping", "id": "@1"}
        ... < {"jsonrpc": "2.0", "id": "@1", "result": {}}
        ... ''')
        >>> len(script)
        2
    """

    def __init__(self, text: str) -> None:
        self._steps: list[tuple[str, str]] = []
        for number, line in enumerate(text.split("\n"), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            if line[0] not in "<>":
                raise ValueError(f"line {number}: expected > or <, got {line!r}")
            text = line[1:].strip()
            if line[0] == ">":
                try:
                    json.loads(text)
                except ValueError as error:
                    raise ValueError(f"line {number}: {error}") from error
            self._steps.append((line[0], text))

    def __len__(self) -> int:
        return len(self._steps)

    async def play(self, stream: trio.abc.Stream) -> None:
        """Play the server's part on a stream: to the end of the script, then until the client closes.

        Raises:
            ScriptError: the client said something else, or ended early.
        """
        bound: dict[str, Any] = {}
        incoming = _Lines(stream)
        for side, text in self._steps:
            if side == "<":
                await stream.send_all(_filled(text, bound) + b"\n")
                continue
            line = await incoming.take()
            if line is None:
                raise ScriptError(f"the client ended before {text}")
            if not _matches(json.loads(text), json.loads(line), bound):
                raise ScriptError(f"expected {text}, got {line.decode()}")
        line = await incoming.take()
        if line is not None:
            raise ScriptError(f"the script is over, and the client sent {line.decode()}")


@asynccontextmanager
async def open_script(
    script: WireScript | str, *, name: str = "script", protocol: ProtocolChoice = "legacy", **options: Any
) -> AsyncIterator[Connection]:
    """A connection whose other end plays a wire script.

    Args:
        script: the conversation, the handshake included.
        name, protocol: as in `open_memory_connection`.
        options: those of `open_connection`.

    Raises:
        ScriptError: the client said something else.
    """
    played = script if isinstance(script, WireScript) else WireScript(script)
    async with bare_nursery() as nursery:

        async def start(handlers: Handlers, _: Callable[[str], None] | None) -> Transport:
            ours, theirs = memory_stream_pair()
            nursery.start_soon(played.play, theirs)
            return StreamTransport(ours, ours, handlers, name=name)

        async with opened(
            Launcher(name=name, protocol=protocol, start=start), Options(name, **options)
        ) as connection:
            yield connection


class _Lines:
    """The lines that come in on a stream, one by one."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._buffer = LineBuffer()
        self._waiting: deque[bytes] = deque()

    async def take(self) -> bytes | None:
        """The next line; None where the stream has ended."""
        while not self._waiting:
            chunk = await self._stream.receive_some()
            if not chunk:
                return None
            self._waiting.extend(self._buffer.feed(chunk))
        return self._waiting.popleft()


def _matches(expected: Any, found: Any, bound: dict[str, Any]) -> bool:
    if isinstance(expected, str) and expected.startswith("@"):
        return bool(bound.setdefault(expected, found) == found)
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(
            key in found and _matches(value, found[key], bound) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(found, list)
            and len(found) == len(expected)
            and all(_matches(*pair, bound) for pair in zip(expected, found, strict=True))
        )
    return bool(expected == found)


def _filled(text: str, bound: Mapping[str, Any]) -> bytes:
    try:
        message = json.loads(text)
    except ValueError:
        return text.encode()
    return json.dumps(_with_values(message, bound)).encode()


def _with_values(value: Any, bound: Mapping[str, Any]) -> Any:
    if isinstance(value, str) and value in bound:
        return bound[value]
    if isinstance(value, dict):
        return {key: _with_values(part, bound) for key, part in value.items()}
    if isinstance(value, list):
        return [_with_values(part, bound) for part in value]
    return value
