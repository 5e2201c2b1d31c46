"""Wire scripts: a conversation, line by line, whose server's part is played to a real client."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio

from ..client.connection import Connection
from ..client.features.log_messages import OnLog
from ..client.launching import Launcher
from ..client.limits import ClientLimits
from ..client.opening import opened
from ..client.options import Options
from ..models.elicitation import OnElicit
from ..nursery import bare_nursery
from ..protocol.framing import LineBuffer
from ..protocol.revisions import ProtocolChoice
from ..transports.base import Handlers, Transport
from ..transports.lines.pair import stream_pair
from ..transports.lines.transport import StreamTransport


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
        TypeError: the script is no text.
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
        if not isinstance(text, str):
            raise TypeError(f"text: expected str, got {type(text).__name__}")
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
    script: WireScript | str,
    *,
    name: str = "script",
    protocol: ProtocolChoice = "legacy",
    client_info: Mapping[str, Any] | None = None,
    on_elicit: OnElicit | None = None,
    on_log: OnLog | None = None,
    limits: ClientLimits | None = None,
) -> AsyncIterator[Connection]:
    """A connection whose other end plays a wire script.

    Args:
        script: the conversation, the handshake included.
        name, protocol, client_info, on_elicit, on_log, limits: as in `open_memory_connection`.

    Raises:
        ScriptError: the client said something else, or ended early.
        TypeError: the script is neither a `WireScript` nor text.
        ValueError: a line of the script cannot be read.

    Example:
        >>> script = '''
        ... > {"method": "initialize", "id": "@1"}
        ... < {"jsonrpc": "2.0", "id": "@1", "result": {"protocolVersion": "2025-11-25", "capabilities": {}}}
        ... > {"method": "notifications/initialized"}
        ... > {"method": "ping", "id": "@2"}
        ... < {"jsonrpc": "2.0", "id": "@2", "result": {}}
        ... '''
        >>> async def main():
        ...     async with open_script(script) as connection:
        ...         return await connection.request("ping")
        >>> trio.run(main)
        {}
    """
    played = script if isinstance(script, WireScript) else WireScript(script)
    async with bare_nursery() as nursery:

        async def start(handlers: Handlers, _: Callable[[str], None] | None) -> Transport:
            ours, theirs = stream_pair()
            nursery.start_soon(played.play, theirs)
            return StreamTransport(ours, ours, handlers, name=name, limits=options.limits.lines)

        options = Options(name, client_info=client_info, on_elicit=on_elicit, on_log=on_log, limits=limits)
        async with opened(Launcher(name=name, protocol=protocol, start=start), options) as connection:
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
