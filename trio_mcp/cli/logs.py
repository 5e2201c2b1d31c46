"""What the library and the servers log, as notes on stderr: at the command line nobody has configured logging."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from .terminal import relay


class NoteHandler(logging.Handler):
    """One note for each record, from warnings on.

    A logged exception is left to the command, which complains of it with all that it knows.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple) and any(isinstance(value, Exception) for value in record.args):
            return
        relay("note", record.getMessage())


@contextmanager
def shown_logs() -> Iterator[None]:
    """Show them as long as this lasts."""
    logger, handler = logging.getLogger("trio_mcp"), NoteHandler()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
