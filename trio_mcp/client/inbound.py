"""What a server says without being asked: notifications, questions, log messages, progress.

Called by the transport's reader, so nothing here blocks or runs a user's code.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

import msgspec

from ..errors import ProtocolError, RequestError
from ..protocol.messages import METHOD_NOT_FOUND, Id, decode_json
from ..redaction import Redactor
from ..tools.context import OnProgress
from .callbacks import Callback
from .features.tool_watch import Changes

logger = logging.getLogger("trio_mcp.client")

#: Notifications that are no news here: of features that this client does not use.
_UNUSED = frozenset(
    {
        "notifications/cancelled",
        "notifications/elicitation/complete",
        "notifications/initialized",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/tasks/status",
    }
)


class _Progress(msgspec.Struct):
    progress: float
    total: float | None = None
    message: str | None = None


_decode_progress = msgspec.json.Decoder(_Progress).decode


class Inbound:
    """Judges what comes in on one connection. `era` is "" until the revision is agreed on."""

    def __init__(
        self,
        name: str,
        changes: Changes,
        log: Callback[str, str | None, Any],
        respond: Callable[[Id, bytes | RequestError], None],
        elicit: Callable[[Id, bytes], None] | None,
        redactor: Redactor,
    ) -> None:
        self.era = ""
        self._name = name
        self._changes = changes
        self._log = log
        self._respond = respond
        self._elicit = elicit
        self._redactor = redactor
        self._warned_of: set[str] = set()

    def notified(self, method: str, params: bytes) -> None:
        """A notification that belongs to no request. What is unknown or malformed is dropped with one warning."""
        if method == "notifications/tools/list_changed":
            self._changes.notice()
        elif method == "notifications/subscriptions/acknowledged":
            self._changes.acknowledge()
        elif method == "notifications/message":
            self._logged(params)
        elif method not in _UNUSED:
            self._warn_once("unknown", f"the notification {method[:100]!r} is unknown and was dropped")

    def asked(self, id_: Id, method: str, params: bytes) -> None:
        """A question of the server."""
        # basic, 2026-07-28: servers send no requests. There is no answer that such a server could expect.
        if self.era == "modern":
            self._warn_once("request", f"the request {method[:100]!r} is not for a server to send: not answered")
        # basic/utilities/ping: "The receiver MUST respond promptly with an empty response"
        elif method == "ping":
            self._respond(id_, b"{}")
        elif method == "elicitation/create" and self._elicit is not None:
            self._elicit(id_, params)
        else:
            self._respond(id_, RequestError(METHOD_NOT_FOUND, f"Method not found: {method[:100]}"))

    def _logged(self, params: bytes) -> None:
        try:
            found = decode_json(params)
            level, source, data = found["level"], found.get("logger"), found["data"]
        except (ProtocolError, TypeError, LookupError, AttributeError):
            level = None
        if not isinstance(level, str):
            self._warn_once("notifications/message", "a log message that cannot be read was dropped")
            return
        self._log.put(level, source if isinstance(source, str) else None, data)

    def progress_to(self, on_progress: OnProgress) -> Callable[[bytes], Awaitable[None]]:
        """What the transport is to await, in the caller's task, for each progress notification of one request.

        Progress that cannot be read is dropped: it is no reason to fail a call.
        """
        if not callable(on_progress):
            raise TypeError(f"on_progress: expected an async function, got {type(on_progress).__name__}")

        async def deliver(params: bytes) -> None:
            try:
                found = _decode_progress(params)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._warn_once("notifications/progress", "progress that cannot be read was dropped")
                return
            pending: object = on_progress(found.progress, found.total, found.message)
            if not isawaitable(pending):
                raise TypeError(
                    f"on_progress: expected an async function, this one returned {type(pending).__name__}"
                )
            await pending

        return deliver

    def _warn_once(self, kind: str, text: str) -> None:
        if kind not in self._warned_of:
            self._warned_of.add(kind)
            logger.warning('server "%s": %s', self._name, self._redactor(text))
