"""A server process and its group: started, watched, stopped. Knows nothing of MCP.

With server/stdio.py the only file that depends on the operating system (POSIX). Three rules hold it together.

*The group is ours from the start.* The child leads a session and a group of its own: a Ctrl-C at the terminal
goes to the program, which decides; and whatever the server starts can be ended with it.

*The leader is reaped last.* The group's number is the leader's process id, and it stays ours only until the leader
has been reaped. So the leader is watched through a descriptor and `waitid(WNOWAIT)`, which leave it a zombie, and
the group is signalled first. `subprocess.Popen.poll`, `wait` and even its destructor reap: they are never called.

*Every wait is bounded.* A process may ignore every signal but SIGKILL, and a group may never look empty (zombies
count where no init reaps orphans).
"""

from __future__ import annotations

import errno
import logging
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Protocol

import trio

from ..limits import ProcessLimits
from .pipe import PipeReader

logger: logging.Logger = logging.getLogger("trio_mcp.transports")

#: The first pause between two looks at a group; it doubles.
FIRST_LOOK = 0.002

#: Processes started at the same time, each by a thread. Python holds its lock for most of a start, so that more
#: would not be faster, and every thread is memory.
STARTED_AT_ONCE = 4

# A limiter of our own: a program that keeps trio's default one busy could start no server.
_limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("trio_mcp starting threads")

_PIDFD_SIGNAL_PROCESS_GROUP = 4  # linux/pidfd.h, since Linux 6.9


class CannotStart(Exception):  # noqa: N818 - it never leaves the transports: the sentence is its whole content
    """The operating system did not start the command; the text is a reason for people."""


class Handle(Protocol):
    """What the stop ladder needs of the operating system. Tests of its timing put a fake here."""

    async def wait_exit(self) -> int | None:
        """Wait for the leader's exit, without reaping it; its status (-N for a signal), None when unknown."""

    def signal_group(self, number: signal.Signals) -> None:
        """Signal the whole group. Does nothing where it is gone."""

    def reap(self) -> None:
        """Collect the leader, which has exited. Its number may be used again after this."""

    def group_is_empty(self) -> bool:
        """Whether nothing of the group is left. Asked only after reaping: a zombie leader counts as present."""

    def release(self) -> None:
        """Close descriptors; a leader that could not be reaped stays behind."""


class Process:
    """One running server: its pipes, its exit, its end."""

    def __init__(
        self,
        handle: Handle,
        stdin: trio.abc.SendStream,
        stdout: trio.abc.ReceiveStream,
        stderr: trio.abc.ReceiveStream,
        *,
        stdin_descriptor: int | None = None,
    ) -> None:
        self._handle = handle
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self._stdin_descriptor = stdin_descriptor
        self.exited: trio.Event = trio.Event()
        #: The leader's exit status, -N for signal N; None while it runs and where it is unknown.
        self.returncode: int | None = None

    def write_now(self, data: bytes) -> int:
        """Write to stdin without blocking; return how many bytes it took.

        Raises:
            OSError: the pipe is broken.
        """
        if self._stdin_descriptor is None:
            return 0
        try:
            return os.write(self._stdin_descriptor, data)
        except BlockingIOError:
            return 0

    async def watch(self) -> None:
        """Wait for the leader's exit and note its status. One task does this for as long as the process lives."""
        self.returncode = await self._handle.wait_exit()
        self.exited.set()

    async def stop(self, stop_timeout: float, limits: ProcessLimits | None = None) -> None:
        """End the whole group: the stop ladder. Needs `watch`, and readers of stdout and stderr, beside it.

        Blocks for at most `stop_timeout` and the four graces of the limits. A server without children that exits
        at the end of its input costs no wait at all.
        """
        limits = limits or ProcessLimits()
        # basic/lifecycle, "Shutdown", stdio: "First, closing the input stream to the child process (the server)"
        self._stdin_descriptor = None  # its number may be used again
        await self.stdin.aclose()
        # "Waiting for the server to exit, or sending SIGTERM if the server does not exit within a reasonable
        # time". We send it in any case: the leader may be gone and have left children in its group.
        with trio.move_on_after(stop_timeout):
            await self.exited.wait()
        self._handle.signal_group(signal.SIGTERM)
        self._handle.signal_group(signal.SIGCONT)  # a stopped process acts on no other signal
        with trio.move_on_after(limits.term_grace):
            await self.exited.wait()
        if not self.exited.is_set():
            # "Sending SIGKILL if the server does not exit within a reasonable time after SIGTERM"
            self._handle.signal_group(signal.SIGKILL)
            with trio.move_on_after(limits.kill_grace):
                await self.exited.wait()
        if self.exited.is_set():
            self._handle.reap()
            if not await self._group_empties(limits.group_grace):
                self._handle.signal_group(signal.SIGKILL)
                if not await self._group_empties(limits.orphan_grace):
                    logger.info("something of a server's process group still looks alive after SIGKILL")
        else:
            logger.error("a server process did not end %s s after SIGKILL; it is left behind", limits.kill_grace)
        self._handle.release()

    async def _group_empties(self, seconds: float) -> bool:
        pause = FIRST_LOOK
        with trio.move_on_after(seconds):
            while not self._handle.group_is_empty():
                await trio.sleep(pause)
                pause *= 2
        return self._handle.group_is_empty()


async def start_process(command: str, args: Sequence[str], env: Mapping[str, str], cwd: str | None) -> Process:
    """Start a command as the leader of a new session and group.

    A bare `command` is looked up on the child's PATH when `env` has one, else on ours. Blocks in a worker thread
    until the new program runs; a cancel meanwhile waits for that, so that nothing is left half started.

    Raises:
        CannotStart: the operating system did not start it, and why.
    """
    found = _look_up(command, env)
    with ExitStack() as on_failure:
        try:
            child_in, our_in = _pipe(on_failure)
            our_out, child_out = _pipe(on_failure)
            our_err, child_err = _pipe(on_failure)
        except OSError as error:
            what = "this process has no pipes left for its standard streams"
            raise CannotStart(f"{what}: {error.strerror}") from error

        def spawn() -> subprocess.Popen[bytes]:
            # Our ends of the pipes are close-on-exec: no other child holds them open, so that a server
            # reads the end of its input even when this program is killed.
            return subprocess.Popen(
                [found, *args],
                stdin=child_in,
                stdout=child_out,
                stderr=child_err,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )

        try:
            popen = await trio.to_thread.run_sync(spawn, limiter=_starters())
        except (OSError, ValueError) as error:
            raise CannotStart(_why(error, command, found, cwd)) from error
        on_failure.pop_all()
    for descriptor in (child_in, child_out, child_err):
        os.close(descriptor)
    stdin = trio.lowlevel.FdStream(our_in)
    return Process(_Group(popen), stdin, PipeReader(our_out), PipeReader(our_err), stdin_descriptor=our_in)


def _starters() -> trio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        limiter = trio.CapacityLimiter(STARTED_AT_ONCE)
        _limiter.set(limiter)
        return limiter


class _Group:
    """The operating system's side of a process group."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen  # kept: its destructor would reap
        self._pid = popen.pid
        self._descriptor = _exit_descriptor(popen.pid)

    async def wait_exit(self) -> int | None:
        look = os.WEXITED | os.WNOWAIT if hasattr(os, "waitid") else None
        if self._descriptor is not None:
            await trio.lowlevel.wait_readable(self._descriptor)
        try:
            if look is None:  # macOS before Python 3.13: unknown until it is reaped
                return None
            if self._descriptor is None:
                await trio.to_thread.run_sync(
                    partial(os.waitid, os.P_PID, self._pid, look),
                    limiter=trio.CapacityLimiter(1),  # it waits for as long as the server lives
                    abandon_on_cancel=True,
                )
            seen = os.waitid(os.P_PID, self._pid, look | os.WNOHANG)  # noqa: ASYNC222 - it does not block
        except ChildProcessError:  # a SIGCHLD handler of the program reaped it
            return None
        if seen is None:
            return None
        return seen.si_status if seen.si_code == os.CLD_EXITED else -seen.si_status

    def signal_group(self, number: signal.Signals) -> None:
        self._signal(number)

    def reap(self) -> None:
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        self._popen.returncode = 0  # so that its destructor asks for nothing more

    def group_is_empty(self) -> bool:
        return not self._signal(0)

    def release(self) -> None:
        self._popen.returncode = 0
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _signal(self, number: int) -> bool:
        """Signal the group; whether there was one. A pidfd, where the system has it, cannot mean another group."""
        try:
            if self._descriptor is not None and hasattr(signal, "pidfd_send_signal"):
                try:
                    signal.pidfd_send_signal(self._descriptor, number, None, _PIDFD_SIGNAL_PROCESS_GROUP)
                    return True
                except OSError as error:
                    if error.errno not in (errno.EINVAL, errno.ENOSYS):
                        raise
            os.killpg(self._pid, number)
        except (ProcessLookupError, PermissionError):
            # ESRCH and EPERM mean gone: nothing is there, or nothing that is ours.
            return False
        return True


def _exit_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when the process exits; None where the system has none to give."""
    if sys.platform == "linux":
        try:
            return os.pidfd_open(pid)
        except OSError:  # before Linux 5.3, and in some sandboxes
            return None
    if hasattr(select, "kqueue"):
        queue = select.kqueue()
        watched = select.kevent(
            pid,
            filter=select.KQ_FILTER_PROC,
            flags=select.KQ_EV_ADD | select.KQ_EV_ONESHOT,
            fflags=select.KQ_NOTE_EXIT,
        )
        try:
            queue.control([watched], 0)
        except ProcessLookupError:  # it has exited already: there would be no event
            queue.close()
            return None
        descriptor = os.dup(queue.fileno())
        queue.close()
        return descriptor
    return None


def _pipe(on_failure: ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for descriptor in ends:
        on_failure.callback(os.close, descriptor)
    return ends


def _look_up(command: str, env: Mapping[str, str]) -> str:
    if os.sep in command or not command:
        return command
    path = env.get("PATH", os.environ.get("PATH", os.defpath))
    found = shutil.which(command, path=path)
    if found is None:
        whose = "the server's PATH" if "PATH" in env else "PATH"
        raise CannotStart(f"the command {command!r} is not on {whose}{_hint(command)}")
    return os.path.abspath(found)


def _hint(command: str) -> str:
    return "; arguments belong into args, not into the command" if " " in command else ""


def _why(error: OSError | ValueError, command: str, found: str, cwd: str | None) -> str:
    """Why the operating system did not start a command, in words that name what to change."""
    if isinstance(error, ValueError):
        return f"the command line or the environment of {command!r} cannot be passed on: {error}"
    if error.errno == errno.E2BIG:
        return f"the arguments and the environment of {command!r} are too long for the operating system"
    if cwd is not None and not os.path.isdir(cwd):
        problem = "is no directory" if os.path.exists(cwd) else "does not exist"
        return f"the working directory {cwd!r} {problem}"
    target = os.path.join(cwd or os.curdir, found)
    if isinstance(error, FileNotFoundError):
        if not os.path.exists(target):
            return f"the command {command!r} does not exist{_hint(command)}"
        return f"the interpreter that the first line of {command!r} names does not exist{_first_line(target)}"
    if isinstance(error, PermissionError):
        if os.path.isdir(target):
            return f"the command {command!r} is a directory"
        if os.path.isfile(target) and not os.access(target, os.X_OK):
            return f"the command {command!r} is not executable: its file has no x bit"
        return f"the operating system denies access to the command {command!r}"
    if error.errno == errno.ENOEXEC:
        return f"the command {command!r} is not an executable format: no program, and no #! in its first line"
    return f"the operating system did not start {command!r}: {error.strerror or error}"


def _first_line(path: str) -> str:
    try:
        with open(path, "rb") as file:
            line = file.readline(256)
    except OSError:
        return ""
    return f": {line[2:].decode('utf-8', errors='replace').strip()!r}" if line.startswith(b"#!") else ""
