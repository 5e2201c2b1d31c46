"""A ToolServer on one pair of streams: reads requests, runs each in a task, writes answers, ends in order.

Knows no method, and not whose streams they are: stdio.py serves those of this process, memory.py a pair in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import trio

from ..errors import ProtocolError, RequestError
from ..nursery import bare_nursery
from ..protocol.messages import INVALID_REQUEST, PARSE_ERROR, Id, decode_json, is_id
from ..transports.base import Handlers
from ..transports.lines.transport import StreamTransport
from .client_state import ClientState
from .dispatch import Answering, Dispatcher
from .feature import FeatureTable
from .features.table import FEATURES
from .limits import DEFAULT_LIMITS, ServerLimits
from .registry import ToolServer
from .request_state import RequestState
from .running import RunningRequests


class StreamService:
    """One client on one pair of streams.

    Args:
        server: what to serve.
        send, receive: the streams; one object may be both.
        grace: seconds that running requests get once the client has sent its last byte.
        write_now: a non-blocking write, where the stream has one (see `Outbox`).
        limits: the bounds of the server.
        features: what the server can do.
        clock: the time in seconds, by which a call's `requestState` expires.
    """

    principal: Any = None  # streams carry no authorization

    def __init__(
        self,
        server: ToolServer,
        send: trio.abc.SendStream,
        receive: trio.abc.ReceiveStream,
        *,
        grace: float,
        write_now: Callable[[bytes], int] | None = None,
        limits: ServerLimits = DEFAULT_LIMITS,
        features: FeatureTable = FEATURES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        state = RequestState(server.signing_key, expiry=limits.request_state_expiry, clock=clock)
        self.server = server
        self._client = ClientState(server, self.notify, state)
        self._dispatcher = Dispatcher(self._client, features)
        self._transport = StreamTransport(
            send,
            receive,
            Handlers(
                on_notification=self._notified,
                on_request=self._requested,
                on_end=lambda _: None,
                on_invalid=self._reject_invalid,
                takes_batches=lambda: self._dispatcher.takes_batches,
            ),
            name=server.name,
            write_now=write_now,
            limits=limits.lines,
        )
        self._grace = grace
        self.running: RunningRequests = RunningRequests()
        self._nursery: trio.Nursery | None = None  # the tasks of requests; None before and after serving

    def __repr__(self) -> str:
        return f"<StreamService of {self._client!r}, {len(self.running)} running>"

    def notify(self, method: str, params: bytes, *, once: bool = False) -> None:
        """Send a notification."""
        self._transport.notify(method, params)

    async def ask(self, method: str, params: bytes) -> bytes:
        """Ask the client; its result, undecoded."""
        return bytes(await self._transport.request(method, params))

    def stop(self) -> None:
        """Take no new requests; running ones get their grace."""
        self._transport.wake_supervisor.set()

    async def run(self) -> None:
        """Serve until the client has sent its last byte, or `stop`; running requests get their grace.

        Closes nothing: the streams are the caller's.
        """
        try:
            async with bare_nursery() as nursery:
                async with bare_nursery() as handlers:
                    self._nursery = handlers
                    nursery.start_soon(self._transport.read)
                    nursery.start_soon(self._transport.write)
                    await self._transport.wake_supervisor.wait()
                    self._nursery = None
                    # Questions to the client fail now: their answers cannot come any more.
                    self._transport.close()
                    self._client.close()
                    with trio.move_on_after(self._grace):
                        await self.running.wait_all_done()
                    self.running.cancel_all()
                await self._transport.drain()
                nursery.cancel_scope.cancel()
        finally:  # also after a bug of ours, or a cancel: no notice is kept for a client that is gone
            self._nursery = None
            try:
                self._client.close()
            finally:
                self._transport.end(None)

    def _requested(self, id_: Id, method: str, params: bytes) -> None:
        if self._nursery is None:
            return
        refusal = self.running.refuse_repeated(id_, is_unanswered=self._transport.is_unwritten(id_))
        answer = refusal or self._dispatcher.begin(id_, method, params, self)
        if isinstance(answer, bytes | RequestError):
            self._transport.respond(id_, answer)
            return
        self._nursery.start_soon(self._finish, id_, answer, self.running.begin(id_))

    async def _finish(self, id_: Id, answering: Answering, scope: trio.CancelScope) -> None:
        # A client that reads slowly holds back its answers.
        answer = await self.running.finish(id_, answering, scope, self._transport.wait_room)
        if answer is not None:
            self._transport.respond(id_, answer, held=True)

    def _notified(self, method: str, params: bytes) -> None:
        if not self.running.cancelled_by(method, params):
            self._dispatcher.notified(method, params)

    def _reject_invalid(self, data: bytes) -> None:
        """Tell the sender of a line that is no message, by its id where it has one."""
        if self._nursery is None:
            return
        try:
            value = decode_json(data)
        except ProtocolError:
            self._transport.respond(None, RequestError(PARSE_ERROR, "Parse error"))
            return
        id_ = value.get("id") if isinstance(value, dict) else None
        self._transport.respond(id_ if is_id(id_) else None, RequestError(INVALID_REQUEST, "Invalid Request"))
