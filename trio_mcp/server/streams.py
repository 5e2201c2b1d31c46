"""A ToolServer on one pair of streams: reads requests, runs each in a task, writes answers, ends in order."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import trio

from ..errors import ProtocolError, RequestError
from ..nursery import bare_nursery
from ..protocol.messages import INVALID_REQUEST, PARSE_ERROR, Id, decode_json, is_id
from ..transports.base import Handlers
from ..transports.lines.transport import StreamTransport
from .dispatch import Session, Work
from .params import cancelled_id
from .registry import ToolServer

logger = logging.getLogger("trio_mcp.server")


class StreamService:
    """One client on one pair of streams.

    `grace` is how many seconds answers in flight get once the client has sent its last byte.
    """

    principal: Any = None  # whoever holds the other end

    def __init__(
        self,
        server: ToolServer,
        send: trio.abc.SendStream,
        receive: trio.abc.ReceiveStream,
        *,
        grace: float,
        write_now: Callable[[bytes], int] | None = None,
    ) -> None:
        self._session = Session(server, self.notify)
        self._transport = StreamTransport(
            send,
            receive,
            Handlers(
                on_notification=self._notified,
                on_request=self._asked,
                on_end=lambda _: None,
                on_invalid=self._reject_invalid,
                takes_batches=lambda: self._session.takes_batches,
            ),
            name=server.name,
            write_now=write_now,
        )
        self._grace = grace
        self._running: dict[Id, trio.CancelScope] = {}
        self._idle = trio.lowlevel.ParkingLot()
        self._nursery: trio.Nursery | None = None  # of the handlers; None before and after

    def __repr__(self) -> str:
        return f"<StreamService of {self._session!r}, {len(self._running)} running>"

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification."""
        self._transport.notify(method, params)

    async def ask(self, method: str, params: bytes) -> bytes:
        """Ask the client; its result, undecoded."""
        return bytes(await self._transport.request(method, params))

    def stop(self) -> None:
        """Take no new requests; what runs gets its grace."""
        self._transport.wake_supervisor.set()

    async def run(self) -> None:
        """Serve until the client has sent its last byte, or `stop`; answers in flight get their grace, then go.

        Closes nothing: the streams are the caller's.
        """
        async with bare_nursery() as nursery:
            async with bare_nursery() as handlers:
                self._nursery = handlers
                nursery.start_soon(self._transport.read)
                nursery.start_soon(self._transport.write)
                await self._transport.wake_supervisor.wait()
                self._nursery = None
                # Questions to the client fail now: whoever waits for an answer waits in vain.
                self._transport.close()
                self._session.close()
                with trio.move_on_after(self._grace):
                    while self._running:
                        await self._idle.park()
                for scope in self._running.values():
                    scope.cancel()
            await self._transport.drain()
            self._transport.end(None)
            nursery.cancel_scope.cancel()

    def _asked(self, id_: Id, method: str, params: bytes) -> None:
        if self._nursery is None:
            return
        # basic: "The request ID MUST NOT have been previously used by the requestor within the same session."
        if id_ in self._running:
            self._transport.respond(id_, RequestError(INVALID_REQUEST, f"request {id_!r} is still running"))
            return
        answer: bytes | Work | RequestError
        try:
            answer = self._session.begin(id_, method, params, self)
        except RequestError as error:
            answer = error
        if isinstance(answer, bytes | RequestError):
            self._transport.respond(id_, answer)
            return
        # Known from now on: the next line may cancel it, or be the last.
        scope = self._running[id_] = trio.CancelScope()
        self._nursery.start_soon(self._finish, id_, answer, scope)

    async def _finish(self, id_: Id, work: Work, scope: trio.CancelScope) -> None:
        answer: bytes | RequestError | None = None
        try:
            with scope:
                try:
                    answer = await work()
                except RequestError as error:
                    answer = error
                await self._transport.wait_room()  # a client that reads slowly holds back its answers
        except Exception:
            # What goes wrong beside a cancel comes in one group with it, which only the scope takes apart.
            logger.exception("a call failed while it was cancelled")
        finally:
            del self._running[id_]
            if not self._running:
                self._idle.unpark_all()
        # basic/utilities/cancellation: receivers "SHOULD NOT send a response for the cancelled request"
        if answer is not None and not scope.cancel_called:
            self._transport.respond(id_, answer, held=True)

    def _notified(self, method: str, params: bytes) -> None:
        if method == "notifications/initialized":
            self._session.initialized()
        elif method == "notifications/cancelled":
            id_ = cancelled_id(params)
            if id_ is not None and (scope := self._running.get(id_)) is not None:
                scope.cancel()

    def _reject_invalid(self, data: bytes) -> None:
        """A line that is no message: its sender is told, by its id where it has one."""
        if self._nursery is None:
            return
        try:
            value = decode_json(data)
        except ProtocolError:
            self._transport.respond(None, RequestError(PARSE_ERROR, "Parse error"))
            return
        id_ = value.get("id") if isinstance(value, dict) else None
        self._transport.respond(id_ if is_id(id_) else None, RequestError(INVALID_REQUEST, "Invalid Request"))
