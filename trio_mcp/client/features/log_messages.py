"""Hands a server's log messages to the program (specification: server/utilities/logging).

Where they go, `Options` says: to `on_log`, or to a logger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import ProtocolError
from ...protocol.messages import decode_json
from ..feature import Feature

#: A plain function `(level, logger, data)`: the level as the specification names it, the logger or None, any JSON.
OnLog = Callable[[str, str | None, Any], object]


def log_messages(put: Callable[[str, str | None, Any], None]) -> Feature:
    """The feature that gives each log message to `put`, which must not block."""

    def take(params: bytes) -> None:
        try:
            found = decode_json(params)
            level, source, data = found["level"], found.get("logger"), found["data"]
        except (ProtocolError, TypeError, LookupError, AttributeError):
            level = None
        if not isinstance(level, str):
            raise ProtocolError("a log message that cannot be read was dropped")
        put(level, source if isinstance(source, str) else None, data)

    return Feature(notifications={"notifications/message": take})
