"""One request on its way, and the task that sleeps until something comes for it."""

from __future__ import annotations

from collections import deque
from typing import Any

import trio

#: Progress that waits for a busy caller; beyond it the oldest is dropped: the newest is what counts.
PROGRESS_WAITING = 1000


class PendingCall:
    """Made, and slept on, by the task that makes the request; woken by the task that reads the stream.

    `standing` is as in `Transport.request`; `answer` is the undecoded result, or the exception to raise;
    `progress` the params that wait to be delivered.
    """

    __slots__ = ("answer", "progress", "standing", "task")

    def __init__(self, standing: bool = False) -> None:
        self.standing = standing
        self.answer: bytes | Exception | None = None
        self.progress: deque[bytes] = deque(maxlen=PROGRESS_WAITING)
        self.task: trio.lowlevel.Task | None = None

    async def wait(self) -> None:
        """Sleep until something comes. Only called where nothing has."""
        self.task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def resolve(self, answer: bytes | Exception) -> None:
        """The answer has come."""
        self.answer = answer
        self._wake()

    def advance(self, params: bytes) -> None:
        """Some progress has come."""
        self.progress.append(params)
        self._wake()

    def _wake(self) -> None:
        if self.task is not None:
            trio.lowlevel.reschedule(self.task)
            self.task = None

    def _abort(self, _: Any) -> trio.lowlevel.Abort:
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED
