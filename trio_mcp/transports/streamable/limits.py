"""The bounds of MCP over HTTP, as one value with a reason beside each. Knows no HTTP library."""

from __future__ import annotations

import attrs

from ...bounds import amount, count, duration, grace, patience
from ...protocol.framing import MAX_LINE


@attrs.frozen(kw_only=True)
class StreamableLimits:
    """How long one connection over HTTP waits, how often it tries, and how much it reads.

    >>> StreamableLimits(max_redirects=0).resumptions
    10
    """

    #: Bytes of one body or one event. An answer has to be in memory as a whole, as a line of a stdio server has.
    max_message: int = count(MAX_LINE)
    #: Answers to requests of a legacy server: so many are posted at once, so many (and bytes of them) may wait. A
    #: server that asks faster than it takes answers never stops, and the connection ends.
    answers_at_once: int = count(4)
    max_answers: int = count(1000)
    max_answer_bytes: int = count(16 * 1024 * 1024)
    #: Redirects that one request follows, each within the origin.
    max_redirects: int = amount(5)
    #: The body of a refusal is read for the error in it: so many bytes, for so many seconds.
    max_refusal: int = amount(1024 * 1024)
    refusal_patience: float = patience(5.0)
    #: Seconds for a `Server.http_transport` to let go of a response.
    close_grace: float = grace(1.0)
    #: Seconds in which a response that has given its answer may end by itself, so that its connection is kept.
    linger: float = grace(1.0)
    #: Seconds before a stream of events is opened again: what the server asks for, within these bounds.
    shortest_retry: float = duration(0.1)
    longest_retry: float = duration(60.0)
    #: The same where the server asks for nothing; doubled while the stream brings nothing.
    first_pause: float = duration(1.0)
    #: How often one answer is asked for again after its stream ended.
    resumptions: int = amount(10)
    #: Seconds that the server's own stream gets to open before the first request goes without it.
    listening_patience: float = patience(1.0)
    #: Seconds for the DELETE that ends a session.
    delete_patience: float = grace(1.0)
    #: Seconds to find out whether an endpoint that refuses the handshake is one of the deprecated HTTP+SSE.
    endpoint_patience: float = patience(2.0)
