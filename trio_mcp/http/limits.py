"""The bounds of the HTTP client, with the reason beside each."""

from __future__ import annotations

import attrs

from ..bounds import amount, count, duration, patience


@attrs.frozen(kw_only=True)
class PoolLimits:
    """Bounds of one pool of connections. Times are in seconds, sizes in bytes.

    >>> PoolLimits(max_idle=2).idle_expiry
    60.0
    """

    #: To connect, the look-up of the name and the TLS handshake included, where the request says nothing.
    connect_timeout: float = duration(10.0)
    #: Idle connections that are kept for one origin: descriptors are few, and a new connection costs little.
    max_idle: int = amount(256)
    #: The age at which an idle connection is not used any more: servers commonly close theirs after 5 to 75 s.
    idle_expiry: float = patience(60.0)
    #: How often, while the pool is used, all idle connections are looked at: those that the server has closed go.
    sweep_pause: float = patience(1.0)
    #: The head of a response, as in httpcore.
    max_head: int = count(100 * 1024)
