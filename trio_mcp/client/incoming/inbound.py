"""Passes on what a server says without being asked: notifications, questions, progress.

Called by the transport's reader, so nothing here blocks or runs a function of the program. Which notification goes
where is said by the features (feature.py); who answers a question is decided in answering.py.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable

import msgspec

from ...errors import ProtocolError, RequestError
from ...protocol.messages import METHOD_NOT_FOUND, Id
from ...redaction import Redactor, bounded_line
from ...tools.context import OnProgress
from ..feature import OnNotification

logger: logging.Logger = logging.getLogger("trio_mcp.client")

#: How much of a server's own method a warning shows.
METHOD_SHOWN = 100

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


#: Requests that only clients make.
_OURS = ("server/discover", "initialize")


class _Progress(msgspec.Struct):
    progress: float
    total: float | None = None
    message: str | None = None


_decode_progress = msgspec.json.Decoder(_Progress).decode


class Inbound:
    """Takes what comes in on one connection. `era` is "" until the revision is agreed on.

    `notifications` has the handlers by method; `answer` begins to answer a question, or says that no feature knows
    its method; `respond` sends an answer.
    """

    def __init__(
        self,
        server_name: str,
        notifications: Mapping[str, OnNotification],
        answer: Callable[[Id, str, bytes], bool],
        respond: Callable[[Id, bytes | RequestError], None],
        redactor: Redactor,
    ) -> None:
        self.era = ""
        #: The peer has sent a request that only clients make: our own.
        self.is_echo: bool = False
        self._server_name = server_name
        self._notifications = notifications
        self._answer = answer
        self._respond = respond
        self._redactor = redactor
        self._warned_of: set[str] = set()

    def notified(self, method: str, params: bytes) -> None:
        """A notification that belongs to no request. An unknown or malformed one is dropped with one warning."""
        handler = self._notifications.get(method)
        if handler is None:
            if method not in _UNUSED:
                self.warn_once("unknown", f"the notification {self._shown(method)} is unknown and was dropped")
            return
        try:
            handler(params)
        except ProtocolError as error:
            self.warn_once(method, error.reason)

    def asked(self, id_: Id, method: str, params: bytes) -> None:
        """A question of the server."""
        if method in _OURS:
            self.is_echo = True
        # basic, 2026-07-28: servers send no requests. There is no answer that such a server could expect.
        if self.era == "modern":
            self.warn_once(
                "request", f"the request {self._shown(method)} is not for a server to send: not answered"
            )
        # basic/utilities/ping: "The receiver MUST respond promptly with an empty response"
        elif method == "ping":
            self._respond(id_, b"{}")
        elif not self._answer(id_, method, params):
            self._respond(id_, RequestError(METHOD_NOT_FOUND, f"Method not found: {method[:METHOD_SHOWN]}"))

    def progress_to(self, on_progress: OnProgress) -> Callable[[bytes], Awaitable[None]]:
        """The function that the transport awaits, in the caller's task, for each progress of one request.

        Progress that cannot be read is dropped: it is no reason to fail a call.
        """
        if not callable(on_progress):
            raise TypeError(f"on_progress: expected an async function, got {type(on_progress).__name__}")

        async def deliver(params: bytes) -> None:
            try:
                found = _decode_progress(params)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self.warn_once("notifications/progress", "progress that cannot be read was dropped")
                return
            pending: object = on_progress(found.progress, found.total, found.message)
            if not isawaitable(pending):
                raise TypeError(
                    f"on_progress: expected an async function, this one returned {type(pending).__name__}"
                )
            await pending

        return deliver

    def _shown(self, method: str) -> str:
        return f"'{bounded_line(self._redactor(method), METHOD_SHOWN)}'"

    def odd_result(self, text: str) -> None:
        """A result has something in it that a server should not have written."""
        self.warn_once(text.partition(":")[0], text)

    def warn_once(self, kind: str, text: str) -> None:
        """Log one warning of a kind, however often it happens."""
        if kind not in self._warned_of:
            self._warned_of.add(kind)
            logger.warning('server "%s": %s', self._server_name, self._redactor(text))
