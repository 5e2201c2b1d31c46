"""One request on its way, and the task that sleeps until something comes for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable
from typing import Any

import trio

from ...protocol.messages import Undecoded

#: Progress that waits for a busy caller; beyond it the oldest is dropped: the newest is what counts.
PROGRESS_WAITING = 1000


class PendingCall:
    """Made, and slept on, by the task that makes the request; woken by the task that reads the stream.

    `long_lived` is as in `Transport.request`; `answer` is the undecoded result, or the exception to raise;
    `progress` the params that wait to be delivered. Thousands may wait: it holds no more than every call needs.
    """

    __slots__ = ("_task", "answer", "long_lived", "progress")

    def __init__(self, long_lived: bool = False) -> None:
        self.long_lived = long_lived
        self.answer: Undecoded | Exception | None = None
        self.progress: deque[bytes] | None = None
        self._task = trio.lowlevel.current_task()

    def sleep(self) -> Awaitable[Any]:
        """What is to be awaited until something comes. Only where nothing has."""
        self._task.custom_sleep_data = self
        return trio.lowlevel.wait_task_rescheduled(_abort)  # noqa: ASYNC105 - our caller awaits it

    def resolve(self, answer: Undecoded | Exception) -> None:
        """The answer has come."""
        self.answer = answer
        # trio clears this when it wakes the task, for a cancel too: who is awake already is not to be woken.
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
