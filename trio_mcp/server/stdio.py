"""Serves over this process's standard streams. Depends on the operating system: POSIX descriptors.

Nothing but messages may go to stdout. While serving, descriptor 1 leads to stderr and descriptor 0 to nothing, so
that a `print()` in a tool, a child that inherits them, or a library that writes to descriptor 1 by itself, cannot
break the wire.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import trio

from ..nursery import bare_nursery
from .limits import ServerLimits, checked
from .registry import ToolServer
from .streams import StreamService


async def serve_stdio(
    server: ToolServer,
    *,
    stop: trio.Event | None = None,
    limits: ServerLimits | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve one client over stdin and stdout (specification: basic/transports, stdio).

    Blocks until the client closes our stdin, or `stop` is set: then no new request is taken, running calls get
    1.5 s (`ServerLimits.eof_grace`), and those that still run are cancelled. While serving, descriptor 0 reads
    nothing and descriptor 1 leads to stderr; both are restored at the end.

    Args:
        server: what to serve.
        stop: set it to stop serving as if the client had closed.
        limits: the bounds of the server; None for the usual ones.
        task_status: reports started when requests are taken (`nursery.start`).

    Raises:
        RuntimeError: descriptor 0 or 1 is closed, so that there is no client to serve.
        TypeError: `server` is no `ToolServer`, or `limits` are no `ServerLimits`.

    Example:
        >>> import trio
        >>> from trio_mcp import ToolServer, serve_stdio
        >>> server = ToolServer("mine")
        >>> if __name__ == "__main__":  # doctest: +SKIP
        ...     trio.run(serve_stdio, server)
    """
    await trio.lowlevel.checkpoint()
    if not isinstance(server, ToolServer):
        raise TypeError(f"server: expected ToolServer, got {type(server).__name__}")
    limits = checked(limits)
    with _standard_streams() as (receive_from, send_to):
        # FdStream restores the blocking mode that it found. Where both lead to one terminal or socket, only the
        # one that was opened first has found the original mode: it is closed last.
        async with trio.lowlevel.FdStream(receive_from) as receive, trio.lowlevel.FdStream(send_to) as send:

            def write_now(data: bytes) -> int:
                try:
                    return os.write(send_to, data)
                except BlockingIOError:
                    return 0

            service = StreamService(
                server, send, receive, grace=limits.eof_grace, write_now=write_now, limits=limits
            )

            async def wait_stop() -> None:
                if stop is not None:
                    await stop.wait()
                    service.stop()

            async with bare_nursery() as nursery:
                nursery.start_soon(wait_stop)
                task_status.started()
                await service.run()
                nursery.cancel_scope.cancel()


def check_standard_streams() -> None:
    """Check that a client can be on the other side of them.

    Raises:
        RuntimeError: descriptor 0 or 1 is closed.
    """
    for descriptor in (0, 1):
        if not _is_open(descriptor):
            raise RuntimeError(f"descriptor {descriptor} is closed: there is no client to serve over stdio")


@contextmanager
def _standard_streams() -> Iterator[tuple[int, int]]:
    """Duplicates of descriptors 0 and 1, which lead elsewhere meanwhile."""
    check_standard_streams()
    _flush_stdout()  # before it is redirected
    kept = [os.dup(0), os.dup(1)]
    served = [os.dup(0), os.dup(1)]  # closed by the streams
    null = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(null, 0)
        os.dup2(2 if _is_open(2) else null, 1)
        yield served[0], served[1]
    finally:
        _flush_stdout()  # what tools have printed goes to stderr
        for descriptor, original in enumerate(kept):
            os.dup2(original, descriptor)
        for descriptor in (*kept, null):
            os.close(descriptor)


def _flush_stdout() -> None:
    with suppress(AttributeError, ValueError, OSError):  # it is None, or closed, or leads nowhere
        sys.stdout.flush()


def _is_open(descriptor: int) -> bool:
    """Whether a descriptor leads to a stream. A closed one that trio took for its own bookkeeping does not."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return any(kind(mode) for kind in (stat.S_ISREG, stat.S_ISFIFO, stat.S_ISSOCK, stat.S_ISCHR))
