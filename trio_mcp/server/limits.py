"""The bounds of a server that strangers reach, each with its reason. A value: handed in, never patched."""

from __future__ import annotations

import attrs

from ..bounds import count, duration, grace, of_kind
from ..transports.limits import LineLimits


@attrs.frozen(kw_only=True)
class ServerLimits:
    """How much a server holds, runs and waits for. Sizes are in bytes, durations in seconds.

    The comment above each field says why it has its default.

    Attributes:
        max_body: bytes of one HTTP request; a longer one is refused with 413.
        max_running: calls that run at once over HTTP, of all clients; one more is refused with 503.
        max_sessions: legacy HTTP sessions, and streams that belong to no call. One more session takes the place
            of the longest unused one, or is refused with 503 if all are in use; one more stream is refused.
        session_idle: seconds without use after which a legacy HTTP session ends, and seconds that a question
            to a legacy client over HTTP waits for its answer.
        stop_grace: seconds that running calls get when an HTTP server stops.
        eof_grace: seconds that running calls get over stdio after the client has closed our stdin.
        body_patience: seconds that the body of an HTTP request may take.
        body_pace: bytes of a body that buy one more second.
        discard_patience: seconds that a refused body is still read.
        keep_alive: seconds without an event after which a comment is sent on a stream of events.
        connection_idle: seconds that an HTTP connection without a request is kept.
        max_head: bytes of the head of an HTTP request.
        backlog: connections that wait to be accepted.
        max_queued: messages that wait to be sent on one stream of events.
        max_queued_bytes: bytes that wait to be sent on one stream of events.
        max_batch: messages in one JSON-RPC batch over HTTP.
        max_odd_json: bytes of an HTTP request that is JSON only to Python (NaN, lone surrogates).
        request_state_expiry: seconds for which the `requestState` of a call is valid.
        lines: the bounds of a client over stdio: the longest line, and what waits to be written.

    Raises:
        ValueError: a limit is not a number that it can be; the text names it.

    Example:
        >>> ServerLimits(max_body=1024).max_body
        1024
    """

    # Arguments with a few pictures in them fit, and any stranger can make us hold that much.
    max_body: int = count(16 * 2**20)
    # Each call is a task and what its tool needs, and occupies a connection.
    max_running: int = count(1000)
    # Each session is some kilobytes, each stream a connection.
    max_sessions: int = count(10_000)
    # Clients that crash never say that they have gone.
    session_idle: float = duration(1800.0)
    # Below the 10 s after which containers are killed.
    stop_grace: float = grace(5.0)
    # Below the 2 s after which hosts send signals.
    eof_grace: float = grace(1.5)
    # A client that sends byte by byte holds a connection for nothing.
    body_patience: float = duration(30.0)
    body_pace: int = count(4096)
    # A client that is still sending does not read the refusal.
    discard_patience: float = grace(5.0)
    # Proxies close a stream that is silent for a minute, some for less.
    keep_alive: float = duration(15.0)
    # Also bounds half a head. Hypercorn keeps a connection as long that its client has closed: longer would cost
    # a descriptor for each client of the last minute.
    connection_idle: float = duration(5.0)
    # The arguments that a tool wants to see in headers are part of the head.
    max_head: int = count(64 * 2**10)
    # A burst of clients must not be refused by the kernel.
    backlog: int = count(1024)
    # A client that reads too slowly loses the oldest notifications: progress and log messages are news, and a
    # tool must not stand still because a stranger does not read.
    max_queued: int = count(1000)
    max_queued_bytes: int = count(16 * 2**20)
    # Each message of a batch may be a call.
    max_batch: int = count(100)
    # Python's decoder takes fifty times as long as msgspec: 16 MiB of such JSON would hold up every other client
    # for eight seconds.
    max_odd_json: int = count(2**20)
    # As long as people take to answer a form.
    request_state_expiry: float = duration(600.0)
    lines: LineLimits = attrs.field(factory=LineLimits, validator=of_kind(LineLimits))


#: The usual limits.
DEFAULT_LIMITS = ServerLimits()


def checked(limits: ServerLimits | None) -> ServerLimits:
    """The limits that a user handed in, or the usual ones.

    Raises:
        TypeError: they are no `ServerLimits`.
    """
    if limits is not None and not isinstance(limits, ServerLimits):
        raise TypeError(f"limits: expected ServerLimits, got {type(limits).__name__}")
    return limits or DEFAULT_LIMITS
