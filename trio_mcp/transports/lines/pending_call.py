"""One request on its way, and the task that sleeps until something comes for it. Knows no stream and no table."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable
from typing import Any

import trio

from ...protocol.messages import Undecoded

#: Progress notifications that wait for a busy caller. Beyond it the oldest is dropped: the newest counts.
PROGRESS_WAITING = 1000


class PendingCall:
    """The task that makes a request makes it and sleeps on it; the task that reads the stream wakes that task.

    `long_lived` is as in `Transport.request`; `answer` is the undecoded result, or the exception to raise;
    `progress` holds the params that wait to be delivered. Thousands may wait: each holds no more than
    every call needs.
    """

    __slots__ = ("_task", "answer", "long_lived", "progress")

    def __init__(self, long_lived: bool = False) -> None:
        self.long_lived: bool = long_lived
        self.answer: Undecoded | Exception | None = None
        self.progress: deque[bytes] | None = None
        self._task = trio.lowlevel.current_task()

    def sleep(self) -> Awaitable[Any]:
        """An awaitable that ends when an answer or some progress comes. Only to be awaited where none has come."""
        self._task.custom_sleep_data = self
        return trio.lowlevel.wait_task_rescheduled(_abort)  # noqa: ASYNC105 - our caller awaits it

    def resolve(self, answer: Undecoded | Exception) -> None:
        """The answer has come."""
        self.answer = answer
        # trio clears this when it wakes the task, for a cancel too: a task that is awake is not woken again.
        if self._task.custom_sleep_data is self:
            trio.lowlevel.reschedule(self._task)

    def advance(self, params: bytes) -> None:
        """Some progress has come."""
        if self.progress is None:
            self.progress = deque(maxlen=PROGRESS_WAITING)
        self.progress.append(params)
        if self._task.custom_sleep_data is self:
            trio.lowlevel.reschedule(self._task)


def _abort(_: Any) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.SUCCEEDED
