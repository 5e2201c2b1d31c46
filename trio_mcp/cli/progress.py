"""Shows the progress of one call as a bar on stderr, only where stderr is a terminal."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ..redaction import NOTHING_SECRET, Redactor
from .terminal import one_line

#: How much of a message a bar shows: some lines of a terminal.
MESSAGE_SHOWN = 400


class CallProgress:
    """A context manager around one call, which gets `on_progress` when `visible` is true.

    The bar appears with the first report and is removed when the call ends: a quick tool shows no bar.
    """

    def __init__(self, title: str, redactor: Redactor = NOTHING_SECRET) -> None:
        # Asked of the stream, not of rich: FORCE_COLOR makes rich take a pipe for a terminal.
        self.visible: bool = sys.stderr is not None and sys.stderr.isatty()
        self._title = one_line(title)
        self._redactor = redactor
        self._task: TaskID | None = None
        # markup=False: text from a server must not be read as rich markup.
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[amount]}", markup=False),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )

    def __enter__(self) -> CallProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._bar.stop()

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Show one report; while the total is unknown, the bar pulses."""
        amount = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        title = self._title
        if message:
            title += f": {one_line(self._redactor(message))[:MESSAGE_SHOWN]}"
        task = self._task if self._task is not None else self._bar.add_task(title, amount=amount)
        self._bar.update(task, description=title, total=total, completed=progress, amount=amount)
        if self._task is None:
            self._task = task
            self._bar.start()
