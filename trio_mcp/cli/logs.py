"""Prints log records of the library and of servers as notes: at the command line nobody configures logging."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from .terminal import relay


class NoteHandler(logging.Handler):
    """Prints one note for each record of level warning or above.

    A record about an exception is skipped: the command itself prints that error, with more detail.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple) and any(isinstance(value, Exception) for value in record.args):
            return
        relay("note", record.getMessage())


@contextmanager
def logs_as_notes() -> Iterator[None]:
    """Print log records as notes inside the `with` block."""
    logger, handler = logging.getLogger("trio_mcp"), NoteHandler()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
