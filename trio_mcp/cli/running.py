"""Runs the async part of a command so that a signal ends it like a cancel: the servers end before this process.
A command that serves ends at a signal as it does when its client closes.

Ctrl-C and the end of the terminal must not raise in the middle of running code, and SIGTERM must not kill this
process while a server still runs. A server has a session of its own: the terminal's Ctrl-C does not reach it.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from ..nursery import bare_nursery


def run_until_signal(work: Callable[[], Awaitable[int]]) -> int:
    """Run `work`; return its exit code, or 128 + N when signal N ended it. Its exceptions are not wrapped."""

    async def main() -> int:
        arrived: list[int] = []
        code: int | None = None
        failure: Exception | None = None
        with trio.open_signal_receiver(*_signals_to_handle()) as arrivals:
            async with trio.open_nursery() as nursery:

                async def watch() -> None:
                    async for number in arrivals:  # take every one: trio delivers an untaken signal again
                        arrived.append(number)
                        nursery.cancel_scope.cancel()

                nursery.start_soon(watch)
                try:
                    code = await work()
                except Exception as error:  # noqa: BLE001  # raised below: the nursery would wrap it in a group
                    failure = error
                nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return 128 + arrived[0] if code is None else code

    return trio.run(main)


@asynccontextmanager
async def stopped_by_signals() -> AsyncIterator[trio.Event]:
    """An event that SIGTERM, SIGINT and an unignored SIGHUP set; inside the block they do nothing else."""
    stop = trio.Event()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, *_signals_to_handle()) as arrivals:
        async with bare_nursery() as nursery:

            async def watch() -> None:
                async for _ in arrivals:
                    stop.set()

            nursery.start_soon(watch)
            yield stop
            nursery.cancel_scope.cancel()


def _signals_to_handle() -> list[signal.Signals]:
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    known = [getattr(signal, name) for name in names if hasattr(signal, name)]
    # An ignored signal stays ignored: nohup, and shells for background jobs, ignore some on purpose.
    return [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]
