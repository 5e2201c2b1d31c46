"""The legacy era's session over HTTP: its id, the stream of the server's own messages, resumption, end.

Knows no method of MCP. The handshakes are made by the client, a new one for a lost session too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from ...errors import ExchangeError, ServerStoppedError
from ...protocol.headers import LAST_EVENT_ID, PROTOCOL_VERSION, SESSION
from ...protocol.sse import EventBuffer
from .endpoint import Endpoint
from .exchange import EVENTS, JSON, Exchange
from .limits import StreamableLimits
from .reply import Reply, is_passing, status_text

logger: logging.Logger = logging.getLogger("trio_mcp.transports")


class Session:
    """The session with one server. `headers` go with every request in it; empty before there is one.

    `number` counts the sessions from 1. `make_exchange` makes the one that takes the server's own messages.
    """

    def __init__(
        self,
        name: str,
        wire: Endpoint,
        make_exchange: Callable[[], Exchange],
        limits: StreamableLimits,
    ) -> None:
        self.headers: dict[str, str] = {}
        self.number: int = 0
        self._name = name
        self._wire = wire
        self._make_exchange = make_exchange
        self._limits = limits
        self._offered: str | None = None
        self._ready = trio.Event()  # the handshake is over and the server's own stream had its chance
        self._listening = trio.CancelScope()

    @property
    def has_id(self) -> bool:
        """Whether the server gave the session an id, so that it can be lost, and ended."""
        return SESSION in self.headers

    def offer(self, reply: Reply) -> None:
        """Keep the id that the reply to initialize gives (2025-11-25, "Session Management")."""
        self._offered = reply.header(SESSION)

    def begin(self, version: str) -> None:
        """Begin a session: the handshake has succeeded."""
        self._listening.cancel()
        self.number += 1
        self._ready = trio.Event()
        self.headers = {PROTOCOL_VERSION: version}
        if self._offered:
            self.headers[SESSION] = self._offered

    async def wait_ready(self) -> None:
        """Wait until requests may be made."""
        if not self._ready.is_set():
            await self._ready.wait()

    def open(self, nursery: trio.Nursery) -> None:
        """Read the server's own messages from now on: it has been told that the handshake is over."""
        self._listening = trio.CancelScope()
        nursery.start_soon(self._listen, self._listening, self._ready)

    async def resume(self, exchange: Exchange, buffer: EventBuffer) -> None:
        """Ask for the rest of events that ended without the answer (2025-11-25, "Resumability and Redelivery").

        Raises:
            ExchangeError: the answer cannot be had.
        """
        reason = "the response ended before the answer"
        for _ in range(self._limits.resumptions):
            if buffer.last_event_id is None:
                break
            await trio.sleep(self._pause(buffer, 0))
            headers = {"Accept": EVENTS, **self.headers, LAST_EVENT_ID: buffer.last_event_id}
            buffer = self._buffer(buffer.last_event_id, buffer.retry)
            try:
                async with await self._wire.send("GET", headers) as reply:
                    if reply.status != 200 or reply.media_type != EVENTS:
                        reason += f", and cannot be resumed ({status_text(reply.status)})"
                        raise ExchangeError(self._name, reason, status=reply.status)
                    try:
                        await exchange.read_events(reply, buffer)
                    except ServerStoppedError:
                        if buffer.overflowed:
                            raise
            except ServerStoppedError as error:
                if error.status is not None:
                    raise
            if exchange.answer is not None:
                return
        raise ExchangeError(self._name, reason, status=200)

    async def delete(self) -> None:
        """End the session: "clients [...] SHOULD send an HTTP DELETE" (2025-11-25). A failure changes nothing."""
        with trio.move_on_after(self._limits.delete_patience):
            try:
                async with await self._wire.send("DELETE", {"Accept": JSON, **self.headers}):
                    pass
            except Exception as error:  # noqa: BLE001 - a function for the headers may raise anything
                logger.debug('server "%s": the session was not deleted: %s', self._name, type(error).__name__)

    @trio.lowlevel.enable_ki_protection
    async def _listen(self, scope: trio.CancelScope, ready: trio.Event) -> None:
        """Read the stream of the server's own messages. A refusal that does not pass says that there is none."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._be_patient, ready)
                with scope:
                    await self._follow(ready)
                nursery.cancel_scope.cancel()
        finally:
            ready.set()

    async def _follow(self, ready: trio.Event) -> None:
        buffer = self._buffer()
        barren = 0  # openings in a row that brought nothing
        while True:
            headers = {"Accept": EVENTS, **self.headers}
            if buffer.last_event_id is not None:
                headers[LAST_EVENT_ID] = buffer.last_event_id
            buffer = self._buffer(buffer.last_event_id, buffer.retry)
            try:
                async with await self._wire.send("GET", headers) as reply:
                    if is_passing(reply.status):  # tried again, slower and slower
                        ready.set()
                        if reply.retry_after is not None:
                            buffer.retry = reply.retry_after
                    elif reply.status != 200 or reply.media_type != EVENTS:
                        return
                    else:
                        ready.set()
                        await self._make_exchange().read_events(reply, buffer)
            except ServerStoppedError as error:
                if buffer.overflowed or (error.status is not None and error.status != 200):
                    return  # a redirect that is not followed
            except Exception as error:  # noqa: BLE001 - refused, or the function for the headers raised
                logger.info('server "%s": its own stream is not read: %s', self._name, error)
                return
            barren = 0 if buffer.events else barren + 1
            await trio.sleep(self._pause(buffer, barren))

    @trio.lowlevel.enable_ki_protection
    async def _be_patient(self, ready: trio.Event) -> None:
        await trio.sleep(self._limits.listening_patience)
        ready.set()

    def _buffer(self, last_event_id: str | None = None, retry: float | None = None) -> EventBuffer:
        return EventBuffer(self._limits.max_message, last_event_id=last_event_id, retry=retry)

    def _pause(self, buffer: EventBuffer, barren: int) -> float:
        limits = self._limits
        wished = limits.first_pause if buffer.retry is None else max(buffer.retry, limits.shortest_retry)
        return min(wished * 2.0 ** min(barren, 10), limits.longest_retry)
