"""The contract of a transport, which moves requests and answers. Of MCP's methods it knows cancellation alone.

A transport is given three plain functions, which it calls from its own tasks and which never block:

- `on_notification(method, params)`: a notification has come that belongs to no request;
- `on_request(id, method, params)`: the peer has sent a request, which is answered later with `respond`;
- `on_end(error)`: the transport has ended, by `close` (None) or by loss (the error that every call now raises).

A server gives two more. `on_invalid(data)`: a line has come that is no message; the server tells its client. In a
client, which has no way to tell its server, such lines are skipped, counted and warned of once.
`takes_batches()`: whether the peer may send an array of messages.

`params` are always undecoded bytes, `b""` when absent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Protocol

import attrs

from ..errors import RequestError, ServerStoppedError
from ..protocol.messages import Encoded, Id, Undecoded

#: Called with the undecoded params, in the task that waits for the answer, in the order of the wire.
OnRawProgress = Callable[[bytes], Awaitable[None]]

NO_HEADERS: Mapping[str, str] = MappingProxyType({})

#: Seconds in which messages that were handed over are still written when a connection is closed.
FLUSH_GRACE = 1.0


class SessionLostError(Exception):
    """The server has forgotten the legacy session, and done nothing of a request in it (HTTP).

    Never leaves a connection: a client makes the handshake once more, by requests of the same transport, and then
    the request. `number` counts the transport's sessions from 1. `give_up(reason, status)` is for a client that
    cannot have a new session: it ends the transport, and gives the error that it has ended by.
    """

    def __init__(self, number: int, give_up: Callable[[str, int | None], ServerStoppedError]) -> None:
        super().__init__(number)
        self.number = number
        self.give_up = give_up


@attrs.frozen(kw_only=True)
class Handlers:
    """The plain functions that a transport is built with."""

    on_notification: Callable[[str, bytes], None]
    on_request: Callable[[Id, str, bytes], None]
    on_end: Callable[[Exception | None], None]
    on_invalid: Callable[[bytes], None] | None = None
    takes_batches: Callable[[], bool] = lambda: True


@attrs.frozen(kw_only=True)
class TransportStatistics:
    """Counts since the start. Bytes are those of messages, both ways."""

    in_flight: int
    bytes_in: int
    bytes_out: int
    late_answers: int
    skipped_lines: int


class Transport(Protocol):
    """Moves requests and answers between two peers."""

    async def run(self) -> None:
        """Run until the transport has ended and everything that belongs to it is gone.

        It is shielded from cancellation from its first step: only `close`, or loss, ends it. Requests can be made
        while it runs.
        """

    async def request(
        self,
        method: str,
        params: Encoded,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
        progress_token: int | None = None,
        on_progress: OnRawProgress | None = None,
        cancellable: bool = True,
        long_lived: bool = False,
    ) -> Undecoded:
        """Send one request; return its result, undecoded.

        `on_progress` gets the params of each progress notification that bears `progress_token`. A cancelled
        request tells the peer, unless it is not `cancellable` (initialize, the probe). One that is `long_lived`
        stays open for long: an error without an id is not taken for its answer.

        Raises:
            RequestError: the peer answered with an error.
            ProtocolError: the answer is no JSON-RPC answer.
            ServerStoppedError: the connection was lost. Over HTTP also ExchangeError: this one request failed.
            SessionLostError: the legacy session was lost, and the connection stays (HTTP).
            trio.ClosedResourceError: it was closed here.
        """

    def notify(self, method: str, params: bytes | None = None) -> None:
        """Hand over a notification."""

    def respond(self, id: Id | None, answer: bytes | RequestError) -> None:  # noqa: A002 - the protocol's word
        """Answer a request of the peer; `id` is None where the request's id could not be read."""

    def negotiated(self, version: str) -> None:
        """Tell the transport which revision both sides speak from now on."""

    def close(self, *, drain_cancelled: bool = False) -> None:
        """Begin the end: no new requests; messages that were handed over are written; then `run` returns.

        With `drain_cancelled`, requests that are being cancelled get a moment in which to tell the peer. Without
        it, all requests in flight fail at once.
        """

    @property
    def stderr_tail(self) -> str:
        """The end of what a server process wrote to stderr; empty where there is no process."""

    def statistics(self) -> TransportStatistics:
        """Counts since the start."""
