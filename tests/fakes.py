"""A server process that is none, for tests of timing: the stop ladder, patience, back-off.

The autojump clock would fire every timeout at once beside a real child. A `FakeProcess` goes in at the spawn
seam (`transports.stdio.start_process`): memory streams for its pipes, and for the operating system a
`FakeHandle`, which writes down what it is asked, and when. What it says is a script: an async function.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import attrs
import trio
from trio.testing import memory_stream_one_way_pair, memory_stream_pump

from tests.far_end import EndOfInput, Message, Peer
from trio_mcp.errors import RequestError
from trio_mcp.protocol.revisions import META_SERVER_INFO
from trio_mcp.transports.stdio.process import Process

NEVER = float("inf")


@attrs.frozen(kw_only=True)
class Manners:
    """How many seconds a process takes to go after each hint; None: it takes no notice."""

    eof: float | None = None
    term: float | None = 0.0
    kill: float | None = 0.0


POLITE = Manners(eof=0.0)
DEAF_TO_EOF = Manners()
DEAF_TO_TERM = Manners(term=None)
IMMORTAL = Manners(term=None, kill=None)


class FakeHandle:
    """A process group on paper: see `transports.process.Handle`.

    `log` is what was done to it and when, `looks` when it was asked whether it is empty.
    """

    def __init__(self, leader: Manners, children: Iterable[Manners] = ()) -> None:
        self._manners = [leader, *children]
        self._dies_at = [NEVER for _ in self._manners]  # the leader first
        self._status = 0
        self._changed = trio.Event()
        self.log: list[tuple[float, str]] = []
        self.looks: list[float] = []
        #: Called at the leader's death.
        self.on_death: Callable[[], None] = lambda: None

    @property
    def has_died(self) -> bool:
        """Whether the leader is gone."""
        return self._dies_at[0] <= trio.current_time()

    def close_input(self) -> None:
        """The leader reads the end of its input."""
        self._note("EOF")
        self._doom(0, self._manners[0].eof, 0)

    def exit(self, status: int) -> None:
        """The leader exits by itself."""
        self._doom(0, 0.0, status)

    async def wait_exit(self) -> int | None:
        while not self.has_died:
            with trio.move_on_at(self._dies_at[0]):
                await self._changed.wait()
        self.on_death()
        return self._status

    def signal_group(self, number: signal.Signals) -> None:
        self._note(number.name)
        for index, manners in enumerate(self._manners):
            if number in (signal.SIGTERM, signal.SIGKILL):
                delay = manners.term if number == signal.SIGTERM else manners.kill
                self._doom(index, delay, -number)

    def reap(self) -> None:
        assert self.has_died, "reaping would block"
        self._note("reap")

    def group_is_empty(self) -> bool:
        assert "reap" in self.names, "a zombie leader counts as present"
        self.looks.append(trio.current_time())
        return all(at <= trio.current_time() for at in self._dies_at)

    def release(self) -> None:
        self._note("release")

    @property
    def names(self) -> list[str]:
        """What was done to it, in order."""
        return [name for _, name in self.log]

    def _note(self, what: str) -> None:
        self.log.append((trio.current_time(), what))

    def _doom(self, index: int, delay: float | None, status: int) -> None:
        at = NEVER if delay is None else trio.current_time() + delay
        if at < self._dies_at[index]:
            self._dies_at[index] = at
            if index == 0:
                self._status = status
                self._changed.set()
                self._changed = trio.Event()


class FakeProcess(Process):
    """A `Process` whose other side is a script; its pipes break when it dies, unless a grandchild holds them."""

    def __init__(self, leader: Manners = DEAF_TO_EOF, children: Iterable[Manners] = ()) -> None:
        stdin, their_input = memory_stream_one_way_pair()
        their_output, stdout = memory_stream_one_way_pair()
        their_errors, stderr = memory_stream_one_way_pair()
        self.handle = FakeHandle(leader, children)
        super().__init__(self.handle, stdin, stdout, stderr)
        self.peer = Peer(their_input, their_output)
        self.output, self.errors = their_output, their_errors
        #: What the script has heard so far, and when.
        self.heard: list[Message] = []
        self.times: list[float] = []
        #: A grandchild holds the output and stderr open.
        self.output_is_held = False
        self.tasks: trio.Nursery
        self._over = trio.CancelScope()

        def input_closed() -> None:
            if "EOF" not in self.handle.names:
                memory_stream_pump(stdin, their_input)
                self.handle.close_input()

        stdin.close_hook = input_closed
        self.handle.on_death = self._died

    async def run(self, script: Script) -> None:
        """Follow the script until the process dies."""
        with self._over:
            async with trio.open_nursery() as self.tasks:
                await script(self)
                await trio.sleep_forever()

    def exit(self, status: int) -> None:
        """Exit."""
        self.handle.exit(status)

    def let_go(self) -> None:
        """Nothing holds the output any more."""
        self.output.close()
        self.errors.close()

    def note(self, message: Message) -> None:
        """Write down what was heard."""
        self.heard.append(message)
        self.times.append(trio.current_time())

    @property
    def methods(self) -> list[str]:
        """The methods heard so far."""
        return [message.get("method", "an answer") for message in self.heard]

    def params(self, method: str) -> list[Any]:
        """The params of each message of a method that was heard."""
        return [message["params"] for message in self.heard if message.get("method") == method]

    def _died(self) -> None:
        self._over.cancel()
        self.peer.receive.close()  # type: ignore[attr-defined] # a MemoryReceiveStream
        if not self.output_is_held:
            self.let_go()


Script = Callable[[FakeProcess], Awaitable[None]]


class FakeHost:
    """Starts fake processes: each start follows the next script, the last script for ever."""

    def __init__(self, nursery: trio.Nursery, *scripts: Script) -> None:
        self._nursery = nursery
        self.scripts = list(scripts)
        self.processes: list[FakeProcess] = []
        self.make: Callable[[], FakeProcess] = FakeProcess

    async def start_process(self, *_: object) -> FakeProcess:
        """Takes the place of `transports.stdio.start_process`."""
        await trio.lowlevel.checkpoint()
        process = self.make()
        script = self.scripts[min(len(self.processes), len(self.scripts) - 1)]
        self.processes.append(process)
        self._nursery.start_soon(process.run, script)
        return process


# --- scripts


#: What a server does with a request: answer, refuse, stay silent (None), or something of its own.
Reply = Mapping[str, Any] | RequestError | None | Callable[[FakeProcess, Message], Awaitable[None]]

ECHO_TOOL: dict[str, Any] = {"name": "echo", "inputSchema": {"type": "object"}}


def text(value: str) -> dict[str, Any]:
    """The result of a tools/call that is one text."""
    return {"content": [{"type": "text", "text": value}]}


async def echo(process: FakeProcess, message: Message) -> None:
    """Answer a tools/call with its arguments, as JSON text."""
    await process.peer.answer(message, text(json.dumps(message["params"]["arguments"])))


MODERN: dict[str, Reply] = {
    "server/discover": {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {"listChanged": True}},
        "_meta": {META_SERVER_INFO: {"name": "fake", "version": "1"}},
    },
    "tools/list": {"tools": [ECHO_TOOL]},
    "tools/call": echo,
}
LEGACY: dict[str, Reply] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "fake", "version": "1"},
    },
    "tools/list": {"tools": [ECHO_TOOL]},
    "tools/call": echo,
}


def serving(replies: Mapping[str, Reply], *, deaf_to_eof: bool = False) -> Script:
    """A server that knows these methods, refuses the others, and exits at the end of its input."""

    async def script(process: FakeProcess) -> None:
        while True:
            try:
                message = await process.peer.take()
            except (EndOfInput, trio.ClosedResourceError):
                break
            process.note(message)
            await _reply(process, message, replies)
        if not deaf_to_eof:
            process.exit(0)

    return script


def after(seconds: float, reply: Reply) -> Reply:
    """The same reply, later; other requests are served meanwhile."""

    async def wait(process: FakeProcess, message: Message) -> None:
        async def later() -> None:
            await trio.sleep(seconds)
            await _reply(process, message, {message["method"]: reply})

        process.tasks.start_soon(later)

    return wait


def exiting(status: int, stderr: bytes = b"") -> Callable[[FakeProcess, Message], Awaitable[None]]:
    """Say something on stderr and exit."""

    async def leave(process: FakeProcess, _: Message) -> None:
        await process.errors.send_all(stderr)
        process.exit(status)

    return leave


async def _reply(process: FakeProcess, message: Message, replies: Mapping[str, Reply]) -> None:
    if "id" not in message or "method" not in message:
        return
    reply = replies.get(message["method"], RequestError(-32601, "Method not found"))
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # its pipes are gone: it is about to die
        if isinstance(reply, RequestError):
            await process.peer.refuse(message, reply.code, reply.message, reply.data)
        elif isinstance(reply, Mapping):
            await process.peer.answer(message, reply)
        elif reply is not None:
            await reply(process, message)
