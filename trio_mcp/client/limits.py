"""The bounds that a client keeps, as one value with a reason beside each."""

from __future__ import annotations

import attrs

from ..bounds import amount, count, duration, of_kind, patience
from ..transports.limits import LineLimits, ProcessLimits
from ..transports.streamable.limits import StreamableLimits


@attrs.frozen(kw_only=True)
class ClientLimits:
    """How long a client waits, how often it tries and how much it keeps. The defaults suit nearly every program.

    >>> ClientLimits(probe_patience=1.0).max_rounds
    10
    """

    #: Of connections over stdio and in memory: the longest line, and what waits to be written.
    lines: LineLimits = attrs.field(factory=LineLimits, validator=of_kind(LineLimits))
    #: Of server processes: the steps of their end, and what is kept of their stderr.
    process: ProcessLimits = attrs.field(factory=ProcessLimits, validator=of_kind(ProcessLimits))
    #: Of connections over HTTP.
    streamable: StreamableLimits = attrs.field(factory=StreamableLimits, validator=of_kind(StreamableLimits))
    #: Seconds after which a server that has not answered the probe is sent `initialize` as well. Most servers
    #: start in less, and a server that ignores unknown methods costs no more.
    probe_patience: float = patience(3.0)
    #: Rounds of one call in which a modern server may ask for more input. A server that asks more often never
    #: means to finish.
    max_rounds: int = amount(10)
    #: Seconds before a request is made again whose server asks for time and not for input; doubled each time.
    round_pause: float = patience(0.1)
    #: Requests of one legacy server that are answered at once. A user answers one at a time.
    max_questions: int = amount(16)
    #: Pages and entries of one listing; the rest is left out with a warning. No model can choose from so many
    #: tools, and so many can be held.
    max_pages: int = count(1_000)
    max_entries: int = count(100_000)
    #: Seconds that a modern server gets to acknowledge `subscriptions/listen` before a watcher goes on without it.
    acknowledge_patience: float = patience(2.0)
    #: Seconds before `subscriptions/listen` is sent again after the server ended it: doubled each time, up to the
    #: second.
    first_listen_pause: float = duration(1.0)
    longest_listen_pause: float = duration(60.0)
