"""TCP keepalive: the kernel asks a silent peer whether it is there, and a dead one is an error. Knows no HTTP."""

from __future__ import annotations

import socket
from contextlib import suppress

#: Seconds of silence after which the kernel asks: a NAT commonly forgets a connection after some minutes.
IDLE = 60
#: Seconds between two questions, and how many go without an answer: two minutes after it died, a peer is dead.
INTERVAL, COUNT = 15, 4

#: TCP_KEEPALIVE is macOS's name of the first.
_OPTIONS = {"TCP_KEEPIDLE": IDLE, "TCP_KEEPALIVE": IDLE, "TCP_KEEPINTVL": INTERVAL, "TCP_KEEPCNT": COUNT}


def keep_alive(one: socket.socket) -> None:
    """Have the kernel look after this connection, or after those that a listening socket will accept."""
    with suppress(OSError):  # no TCP socket
        one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _OPTIONS.items():
            if hasattr(socket, name):
                one.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
