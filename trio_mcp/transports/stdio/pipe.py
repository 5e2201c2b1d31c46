"""The reading end of a pipe, for a task that reads it all the time. Knows nothing of the bytes that come."""

from __future__ import annotations

import os

import trio

#: How much is read at once where the caller does not say: what a pipe holds.
CHUNK = 64 * 1024


class PipeReader(trio.abc.ReceiveStream):
    """Waits first and reads then: one turn of the event loop for each chunk.

    trio's own stream makes a checkpoint, reads in vain, and waits: two turns, and a read that fails. That suits a
    stream in which bytes are mostly ready; a client mostly waits.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """The bytes that are there, as soon as there are some; b"" at the end.

        Raises:
            trio.ClosedResourceError: it is closed here, or becomes so while this waits.
            trio.BrokenResourceError: the operating system cannot read it.
        """
        while self._descriptor is not None:
            await trio.lowlevel.wait_readable(self._descriptor)
            if self._descriptor is None:  # closed after it became readable, before this task ran
                break
            try:
                return os.read(self._descriptor, max_bytes or CHUNK)
            except BlockingIOError:  # another reader of the same pipe was first
                continue
            except OSError as error:
                raise trio.BrokenResourceError from error
        raise trio.ClosedResourceError("the pipe was closed")

    async def aclose(self) -> None:
        """Close it; a task that waits in `receive_some` raises ClosedResourceError."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            trio.lowlevel.notify_closing(descriptor)
            os.close(descriptor)
        await trio.lowlevel.checkpoint()
