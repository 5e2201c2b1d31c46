"""The requests of one client that run: known by their ids, cancelled by them, waited for at the end.

Knows no transport, and of the methods of MCP the cancel alone.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from ..errors import RequestError
from ..protocol.messages import INVALID_REQUEST, Id
from ..tools.failures import raise_unless_failure
from .dispatch import Answering, internal_error
from .params import cancelled_id

logger: logging.Logger = logging.getLogger("trio_mcp.server")


class RunningRequests:
    """Requests that run, each in a cancel scope: made known by `begin`, carried out by `finish`."""

    def __init__(self) -> None:
        self._scopes: dict[Id, trio.CancelScope] = {}
        self._all_done = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<RunningRequests: {len(self._scopes)}>"

    def __len__(self) -> int:
        return len(self._scopes)

    def refuse_repeated(self, id_: Id, *, is_unanswered: bool = False) -> RequestError | None:
        """The error for a request whose id belongs to one that still runs; None where no such request runs.

        `is_unanswered` says that the answer to another one of that id has not been written.

        basic: "The request ID MUST NOT have been previously used by the requestor within the same session."
        """
        if is_unanswered or id_ in self._scopes:
            return RequestError(INVALID_REQUEST, f"request {id_!r} is still running")
        return None

    def begin(self, id_: Id) -> trio.CancelScope:
        """Make a request known, at once: the client's next message may cancel it, or be its last."""
        scope = self._scopes[id_] = trio.CancelScope()
        return scope

    async def finish(
        self,
        id_: Id,
        answering: Answering,
        scope: trio.CancelScope,
        wait_room: Callable[[], Awaitable[None]] | None = None,
    ) -> bytes | RequestError | None:
        """Carry out a request that has begun; the answer, or None where it was cancelled.

        `wait_room` is awaited before the request is forgotten: a client that reads slowly holds back its answers.
        """
        answer: bytes | RequestError | None = None
        try:
            with scope:
                answer = await answering()
                if wait_room is not None:
                    await wait_room()
        except BaseException as error:
            if not isinstance(error, Exception):
                await raise_unless_failure(error)
            # An exception beside a cancel comes in one group with it, which only the scope takes apart.
            logger.exception("a call failed while it was cancelled")
            answer = internal_error()
        finally:
            del self._scopes[id_]
            if not self._scopes:
                self._all_done.unpark_all()
        # basic/utilities/cancellation: receivers "SHOULD NOT send a response for the cancelled request"
        return None if scope.cancel_called else answer

    def cancelled_by(self, method: str, params: bytes) -> bool:
        """Whether a notification is a cancel; the request that it names is cancelled."""
        if method != "notifications/cancelled":
            return False
        id_ = cancelled_id(params)
        if id_ is not None and (scope := self._scopes.get(id_)) is not None:
            scope.cancel()
        return True

    def cancel_all(self) -> None:
        """Cancel every request that runs."""
        for scope in self._scopes.values():
            scope.cancel()

    async def wait_all_done(self) -> None:
        """Wait until no request runs."""
        while self._scopes:
            await self._all_done.park()
