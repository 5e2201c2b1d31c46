"""Servers that do what a test tells them, as child processes; and how a test knows that they live.

`peer(...)` is a `Server` around scripted_peer.py: a well-behaved server of both eras, made odd by its options.
`program(...)` is a `Server` around any Python source. `open_lives()` is the port on which children report: a
process is alive as long as its connection is (never ask `kill(pid, 0)`: a zombie answers).

    async with open_lives() as lives, open_connection(peer(alive=lives.port)) as connection:
        ...
        await lives.came("server")
    await lives.ended("server")
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from trio_mcp import Server

#: Runs scripted_peer.py as a module, so that it is compiled once.
LAUNCH = "import sys; sys.path.insert(0, sys.argv.pop(1)); import scripted_peer; scripted_peer.main()"
#: The eras, for `pytest.mark.parametrize("era", ERAS)`; each is a value of the option `era`.
ERAS = ("legacy", "modern")

_HERE = os.fspath(Path(__file__).parent)
_FIELDS = ("env", "cwd", "stop_timeout", "start_timeout", "tools", "protocol")
_count = itertools.count()


def environment() -> dict[str, str]:
    """What servers are given by default: a PATH, and the mark by which conftest.py knows what a test started."""
    return {name: os.environ[name] for name in ("PATH", "TRIO_MCP_TEST_MARK") if name in os.environ}


def peer(name: str = "peer", *, stop_timeout: float = 0.5, **options: Any) -> Server:
    """A scripted server. Options are those of scripted_peer.DEFAULTS; fields of `Server` pass to it.

    The entries of the listing are the option `listed` (`tools` is the filter of `Server`). No two peers have the
    same command line, so that the era of one is never remembered for another; to open one twice, keep it.
    """
    fields = {"env": environment()} | {name: options.pop(name) for name in _FIELDS if name in options}
    if "listed" in options:
        options["tools"] = options.pop("listed")
    args = ("-I", "-S", "-c", LAUNCH, _HERE, json.dumps(options), f"peer-{next(_count)}")
    return Server(name, command=sys.executable, args=args, stop_timeout=stop_timeout, **fields)


def program(source: str, *args: str, name: str = "program", stop_timeout: float = 0.5, **fields: Any) -> Server:
    """A server that is this Python source, run without site-packages; `args` are its sys.argv[1:]."""
    argv = ("-I", "-S", "-c", source, *args, f"program-{next(_count)}")
    fields = {"env": environment(), **fields}
    return Server(name, command=sys.executable, args=argv, stop_timeout=stop_timeout, **fields)


def raw(data: bytes | str, **more: Any) -> dict[str, Any]:
    """Arguments for the tool `say`: these very bytes (text as UTF-8)."""
    if isinstance(data, str):
        data = data.encode()
    return {"data": data.decode("latin-1"), **more}


class Lives:
    """What children have reported, by their label. A label may come several times: started twice."""

    def __init__(self, port: int) -> None:
        self.port = port
        #: How many processes of a label have come, and have ended.
        self.starts: dict[str, int] = defaultdict(int)
        self.ends: dict[str, int] = defaultdict(int)
        #: Everything said, by label, in order.
        self.said: dict[str, list[str]] = defaultdict(list)
        self._moved = trio.lowlevel.ParkingLot()

    async def came(self, label: str = "server", times: int = 1) -> None:
        """Wait until so many processes of this label have come."""
        await self._until(lambda: self.starts[label] >= times)

    async def ended(self, label: str = "server", seconds: float = 2.0) -> None:
        """Wait until all processes of this label that have come are gone; at least one must have come."""
        with trio.fail_after(seconds):
            await self._until(lambda: 0 < self.starts[label] == self.ends[label])

    async def heard(self, line: str, label: str = "server", times: int = 1) -> None:
        """Wait until a process of this label has said this line (so many times)."""
        await self._until(lambda: self.said[label].count(line) >= times)

    def is_alive(self, label: str = "server") -> bool:
        """Whether a process of this label has come and not ended."""
        return self.starts[label] > self.ends[label]

    async def called(self, times: int = 1, label: str = "server") -> None:
        """Wait until the tool `hang` has been called so many times."""
        await self._until(lambda: sum(line.startswith("hang ") for line in self.said[label]) >= times)

    async def _until(self, holds: Any) -> None:
        while not holds():
            await self._moved.park()

    async def _listen(self, stream: trio.SocketStream) -> None:
        label, rest = "", b""
        try:
            async with stream:
                async for chunk in stream:
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if label:
                            self.said[label].append(line.decode())
                        else:
                            label = line.decode()
                            self.starts[label] += 1
                    self._moved.unpark_all()
        except trio.BrokenResourceError:
            pass  # a reset is an end too
        self.ends[label] += 1
        self._moved.unpark_all()


@asynccontextmanager
async def open_lives() -> AsyncIterator[Lives]:
    """The port on which children report, for as long as the body runs."""
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    lives = Lives(listener.socket.getsockname()[1])
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, lives._listen, [listener])
            try:
                yield lives
            finally:
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise (group if len(group.exceptions) > 1 else group.exceptions[0]) from None


def open_descriptors() -> set[int]:
    """The open descriptors of this process."""
    return {int(entry) for entry in os.listdir("/dev/fd")} - {_listing_descriptor()}


def _listing_descriptor() -> int:
    # listdir opens the lowest free number; so does this, after it has been closed again.
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    return descriptor
