"""The bounds of the transports over streams and processes, with the reason beside each. Knows no transport.

They are handed in where a transport is made. The defaults suit servers as they are met; tests, and programs with
unusual servers, hand in others.
"""

from __future__ import annotations

import attrs

from ..bounds import amount, count, grace
from ..protocol.framing import MAX_LINE
from .base import FLUSH_GRACE


@attrs.frozen(kw_only=True)
class LineLimits:
    """Bounds of one connection over two streams. Sizes are in bytes, times in seconds.

    >>> LineLimits(max_line=1_000_000).max_line
    1000000
    """

    #: One line of the peer. A longer one ends the connection: its end may never come.
    max_line: int = count(MAX_LINE)
    #: Lines that wait to be written. Beyond it a new request waits for room: a peer that reads slowly holds back
    #: its callers, and they take no more memory.
    backlog: int = count(64 * 1024 * 1024)
    #: The same for notifications and answers alone, which cannot wait. A peer that lets this much gather reads
    #: nothing: the connection fails.
    max_unread: int = count(64 * 1024 * 1024)
    #: How much is joined into one write: what a pipe holds, so that a request behind it can still be taken back.
    batch: int = count(64 * 1024)
    #: Lines that are no messages: this many are kept for error texts, each clipped to so many characters.
    samples: int = amount(5)
    sample_length: int = amount(200)
    #: At the end: the time that messages already handed over get to be written.
    flush_grace: float = grace(FLUSH_GRACE)


@attrs.frozen(kw_only=True)
class ProcessLimits:
    """Bounds of one server process, its end above all. Times are in seconds, sizes in bytes.

    The time between the end of its input and SIGTERM is `Server.stop_timeout`.

    >>> ProcessLimits(term_grace=10).kill_grace
    2.0
    """

    #: What the leader of the group gets after SIGTERM, before SIGKILL.
    term_grace: float = grace(2.0)
    #: What the kernel gets to carry out a SIGKILL on the leader; it needs more only where it hangs in the kernel.
    kill_grace: float = grace(2.0)
    #: What the rest of the group gets after SIGTERM, once the leader is gone.
    group_grace: float = grace(0.5)
    #: What orphans get after SIGKILL. Nobody here can wait for them: where no init reaps them they look alive for
    #: ever.
    orphan_grace: float = grace(0.25)
    #: The time between exit and the end of output, whichever comes first, before the other is given up.
    drain_grace: float = grace(0.25)
    #: How much of the end of stderr is kept: a long traceback and what led to it.
    stderr_tail: int = count(64 * 1024)
    #: A longer line of stderr is passed on in pieces, so that one without an end needs no memory.
    stderr_line: int = count(64 * 1024)
