"""The legacy era's session over HTTP: its id, the stream of the server's own messages, resumption, renewal, end.

Knows no method of MCP; the handshake is made by whoever gave `reinitialize`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from ...errors import AuthError, MCPError, ServerStoppedError, renewed
from ...protocol.headers import LAST_EVENT_ID, PROTOCOL_VERSION, SESSION
from ...protocol.sse import EventBuffer
from .endpoint import Endpoint
from .exchange import EVENTS, JSON, Exchange
from .reply import Reply, status_text

logger = logging.getLogger("trio_mcp.transports")

#: Seconds before a stream is opened again: what the server asks for, within these bounds.
SHORTEST_RETRY, LONGEST_RETRY = 0.1, 60.0
#: The same where it asks for nothing; doubled while the stream brings nothing.
FIRST_PAUSE = 1.0
#: How often one answer is asked for again after its stream ended.
RESUMPTIONS = 10
#: Seconds that the server's own stream gets to open before the first request goes without it.
LISTENING_PATIENCE = 1.0
#: Seconds for the DELETE that ends a session.
DELETE_PATIENCE = 1.0


class SessionLostError(Exception):
    """The server does not know the session any more (404)."""


class _Renewal:
    """One handshake that everybody waits for who found the session lost."""

    def __init__(self) -> None:
        self.is_over = trio.Event()
        self.error: Exception | None = None


class Session:
    """The session with one server. `headers` go with every request in it; empty before there is one.

    `generation` counts the sessions. `own` makes the `Exchange` that takes the server's own messages; `on_lost` is
    told why the session cannot be made anew, which ends the connection by the error that it gives back.
    """

    def __init__(
        self,
        name: str,
        wire: Endpoint,
        own: Callable[[], Exchange],
        reinitialize: Callable[[], Awaitable[None]],
        on_lost: Callable[[str, int | None], ServerStoppedError],
    ) -> None:
        self.headers: dict[str, str] = {}
        self.generation = 0
        self._name = name
        self._wire = wire
        self._own = own
        self._reinitialize = reinitialize
        self._on_lost = on_lost
        self._offered: str | None = None
        self._ready = trio.Event()  # the handshake is over and the server's own stream had its chance
        self._listening = trio.CancelScope()
        self._renewal: _Renewal | None = None

    @property
    def has_id(self) -> bool:
        """Whether the server gave the session an id, so that it can be lost, and ended."""
        return SESSION in self.headers

    def offer(self, reply: Reply) -> None:
        """The reply to initialize: 2025-11-25, "Session Management"."""
        self._offered = reply.header(SESSION)

    def begin(self, version: str) -> None:
        """The handshake has succeeded: this is the session from now on."""
        self._listening.cancel()
        self.generation += 1
        self._ready = trio.Event()
        self.headers = {PROTOCOL_VERSION: version}
        if self._offered:
            self.headers[SESSION] = self._offered

    async def wait_ready(self) -> None:
        """Until requests may be made."""
        if not self._ready.is_set():
            await self._ready.wait()

    def open(self, nursery: trio.Nursery) -> None:
        """The server has been told that the handshake is over: listen to what it has to say."""
        self._listening = trio.CancelScope()
        nursery.start_soon(self._listen, self._listening, self._ready)

    async def renew(self, generation: int, nursery: trio.Nursery) -> None:
        """Wait for the handshake that makes up for the loss of this generation.

        Raises:
            ServerStoppedError, AuthError: it failed.
        """
        if generation != self.generation:
            return
        if self._renewal is None:
            self._renewal = _Renewal()
            nursery.start_soon(self._renew, self._renewal)
        renewal = self._renewal
        await renewal.is_over.wait()
        if renewal.error is not None:
            raise renewed(renewal.error) if isinstance(renewal.error, MCPError) else renewal.error

    async def resume(self, exchange: Exchange, buffer: EventBuffer) -> None:
        """Ask for the rest of events that ended without the answer (2025-11-25, "Resumability and Redelivery").

        Raises:
            ServerStoppedError: there is no answer to be had.
        """
        reason = "the response ended before the answer"
        for _ in range(RESUMPTIONS):
            if buffer.last_event_id is None:
                break
            await trio.sleep(_pause(buffer, 0))
            headers = {"Accept": EVENTS, **self.headers, LAST_EVENT_ID: buffer.last_event_id}
            buffer = EventBuffer(last_event_id=buffer.last_event_id, retry=buffer.retry)
            try:
                async with await self._wire.send("GET", headers) as reply:
                    if reply.status != 200 or reply.media_type != EVENTS:
                        reason += f", and cannot be resumed ({status_text(reply.status)})"
                        raise ServerStoppedError(self._name, reason, status=reply.status)
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
        raise ServerStoppedError(self._name, reason, status=200)

    async def delete(self) -> None:
        """ "Clients that no longer need a particular session SHOULD send an HTTP DELETE": best effort."""
        with trio.move_on_after(DELETE_PATIENCE):
            try:
                async with await self._wire.send("DELETE", {"Accept": JSON, **self.headers}):
                    pass
            except Exception as error:  # noqa: BLE001 - a function for the headers may raise anything
                logger.debug('server "%s": the session was not deleted: %s', self._name, type(error).__name__)

    @trio.lowlevel.enable_ki_protection
    async def _renew(self, renewal: _Renewal) -> None:
        try:
            await self._reinitialize()
        except AuthError as error:  # the next one may have better credentials
            renewal.error = error
        except MCPError as error:
            reason = f"lost the session, and the new handshake failed: {getattr(error, 'reason', error)}"
            renewal.error = self._on_lost(reason, getattr(error, "status", None))
        except Exception as error:  # noqa: BLE001 - raised by each who waits
            renewal.error = error
        finally:
            self._renewal = None
            renewal.is_over.set()

    @trio.lowlevel.enable_ki_protection
    async def _listen(self, scope: trio.CancelScope, ready: trio.Event) -> None:
        """The stream of the server's own messages. Any refusal means that there is none."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_be_patient, ready)
                with scope:
                    await self._follow(ready)
                nursery.cancel_scope.cancel()
        finally:
            ready.set()

    async def _follow(self, ready: trio.Event) -> None:
        buffer = EventBuffer()
        barren = 0  # openings in a row that brought nothing
        while True:
            headers = {"Accept": EVENTS, **self.headers}
            if buffer.last_event_id is not None:
                headers[LAST_EVENT_ID] = buffer.last_event_id
            buffer = EventBuffer(last_event_id=buffer.last_event_id, retry=buffer.retry)
            try:
                async with await self._wire.send("GET", headers) as reply:
                    if reply.status != 200 or reply.media_type != EVENTS:
                        return
                    ready.set()
                    await self._own().read_events(reply, buffer)
            except ServerStoppedError as error:
                if buffer.overflowed or (error.status is not None and error.status != 200):
                    return  # a redirect that is not followed
            except Exception as error:  # noqa: BLE001 - refused, or the function for the headers raised
                logger.info('server "%s": its own stream is not read: %s', self._name, error)
                return
            barren = 0 if buffer.events else barren + 1
            await trio.sleep(_pause(buffer, barren))


@trio.lowlevel.enable_ki_protection
async def _be_patient(ready: trio.Event) -> None:
    await trio.sleep(LISTENING_PATIENCE)
    ready.set()


def _pause(buffer: EventBuffer, barren: int) -> float:
    wished = FIRST_PAUSE if buffer.retry is None else max(buffer.retry, SHORTEST_RETRY)
    return min(wished * 2.0 ** min(barren, 10), LONGEST_RETRY)
