"""A server as a child process, spoken to over its standard streams: a `Process` and a `StreamTransport`.

This file decides when such a connection is over. Exit and the end of output are two events: a leader can exit
while a grandchild holds its stdout, and a server can close its stdout and live on. Either ends the connection,
after a moment in which the other may follow, so that the last answers are read, the tail of stderr is whole, and
the error can name the exit status.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence

import trio

from ...errors import ServerStartError, ServerStoppedError, describe_exit
from ...models.server import Server
from ..base import Handlers
from ..limits import LineLimits, ProcessLimits
from ..lines.transport import StreamTransport
from .process import CannotStart, Process, start_process
from .stderr import StderrTail

#: Starts a command with its arguments, environment and working directory: `start_process`, or a fake in tests.
StartProcess = Callable[[str, Sequence[str], Mapping[str, str], str | None], Awaitable[Process]]


async def _start_process(command: str, args: Sequence[str], env: Mapping[str, str], cwd: str | None) -> Process:
    return await start_process(command, args, env, cwd)


def path_hint(server: Server) -> str:
    """A hint for the reason of a failed start: an environment without PATH may well be the cause."""
    if server.command is None or "PATH" in (server.env or {}):
        return ""
    return "; the server's environment has no PATH; default_environment() is a start"


class StdioTransport(StreamTransport):
    """A `Transport` over a process of its own. Made by `start`, so that it is never without one."""

    def __init__(
        self,
        server: Server,
        process: Process,
        handlers: Handlers,
        on_stderr: Callable[[str], None] | None = None,
        *,
        lines: LineLimits | None = None,
        limits: ProcessLimits | None = None,
    ) -> None:
        super().__init__(
            process.stdin,
            process.stdout,
            handlers,
            name=server.name,
            redactor=server.redactor,
            write_now=process.write_now,
            limits=lines,
        )
        self._server = server
        self._process = process
        self._process_limits = limits or ProcessLimits()
        self._stderr = StderrTail(on_stderr, limits=self._process_limits)
        self._stdout_ended, self._stderr_ended = trio.Event(), trio.Event()

    @classmethod
    async def start(
        cls,
        server: Server,
        handlers: Handlers,
        on_stderr: Callable[[str], None] | None = None,
        *,
        lines: LineLimits | None = None,
        limits: ProcessLimits | None = None,
        start_process: StartProcess | None = None,
    ) -> StdioTransport:
        """Start the process. `run` must follow at once: only `run` ends it.

        Args:
            server: what to start.
            handlers: what the transport calls.
            on_stderr: called with each line of stderr.
            lines: the bounds of the connection, where they are not the usual ones.
            limits: the bounds of the process, likewise.
            start_process: starts it in place of the operating system.

        Raises:
            ServerStartError: the operating system did not start it.
            NotImplementedError: on Windows.
        """
        if sys.platform == "win32":
            raise NotImplementedError("stdio servers need POSIX process groups; HTTP servers work on Windows")
        assert server.command is not None
        try:
            process = await (start_process or _start_process)(
                server.command, server.args, dict(server.env or {}), server.cwd
            )
        except CannotStart as error:
            raise ServerStartError(
                server.name,
                str(error) + path_hint(server),
                command=server.redacted_command,
                redactor=server.redactor,
            ) from (error.__cause__ if server.redactor(str(error.__cause__)) == str(error.__cause__) else None)
        return cls(server, process, handlers, on_stderr, lines=lines, limits=limits)

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB of the server's stderr, as text."""
        return self._stderr.text

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Watch over the process until it and its group are gone; see `Transport.run`."""
        # Without a deadline: its bound is the body that uses the connection, whose end calls `close`. Were it
        # not shielded, an outer cancel would end the writer before a cancelled call could tell the server.
        with trio.CancelScope(shield=True):
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._watch)
                    nursery.start_soon(self._read_output)
                    nursery.start_soon(self.write)
                    nursery.start_soon(self._read_stderr)
                    await self.wake_supervisor.wait()
                    await self._conclude()
                    await self._process.stop(self._server.stop_timeout, self._process_limits)
                    await self._wait_output_ended()
                    nursery.cancel_scope.cancel()
            except BaseException:  # a bug of ours must not leave a process behind
                try:
                    self._lost("the connection failed")
                finally:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._watch)
                        await self._process.stop(0, self._process_limits)
                        nursery.cancel_scope.cancel()
                raise
            finally:
                try:
                    await self._close(self._process.stdout)
                finally:
                    await self._close(self._process.stderr)

    async def _conclude(self) -> None:
        """End the connection with its reason: closed here, a rule broken, exited, or output closed."""
        if self._closing:
            await self.drain()
            self.end(None)
            return
        if self.failure is None:
            with trio.move_on_after(self._process_limits.drain_grace):
                await self._process.exited.wait()
                await self._stdout_ended.wait()
                await self._stderr_ended.wait()
        if self._closing:  # `close` was called in that moment
            self.end(None)
            return
        self._lost(self._reason())

    def _lost(self, reason: str) -> None:
        self.end(
            ServerStoppedError(
                self._server.name,
                reason,
                command=self._server.redacted_command,
                returncode=self._process.returncode,
                stderr_tail=self.stderr_tail,
                junk=self.samples,
                redactor=self._server.redactor,
            )
        )

    def _reason(self) -> str:
        if self.failure is not None:
            return self.failure
        if not self._process.exited.is_set():
            return "closed its output" if self._stdout_ended.is_set() else "closed its input"
        happened = describe_exit(self._process.returncode)
        if self._process.returncode == 0 and not self._stdout_ended.is_set():
            happened += (
                " while another process holds its output: "
                "a server that its wrapper puts into the background is not supported"
            )
        return happened

    async def _wait_output_ended(self) -> None:
        with trio.move_on_after(self._process_limits.drain_grace):
            await self._stdout_ended.wait()
            await self._stderr_ended.wait()

    @trio.lowlevel.enable_ki_protection
    async def _watch(self) -> None:
        await self._process.watch()
        self.wake_supervisor.set()

    @trio.lowlevel.enable_ki_protection
    async def _read_output(self) -> None:
        await self.read()
        self._stdout_ended.set()

    @trio.lowlevel.enable_ki_protection
    async def _read_stderr(self) -> None:
        await self._stderr.drain(self._process.stderr)
        self._stderr_ended.set()
