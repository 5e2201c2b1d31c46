"""Sockets that listen for an HTTP server, and the end of those that it has accepted. Knows no HTTP."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

import trio

from .keepalive import keep_alive

#: Seconds after which the kernel gives up a client that reads nothing (hypercorn's sends cannot be cancelled).
UNREAD_PATIENCE = 60


async def bound(host: str, port: int) -> list[socket.socket]:
    """Listening addresses, bound: one socket for each address of a name. Where the port is 0, for the first alone.

    Raises:
        OSError: the name has no address that can be bound.
    """
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError as error:
        raise OSError(f"{host!r} is no name of a host") from error
    # IPv4 first: a machine may have IPv6 in name alone.
    found = sorted(set(found), key=lambda info: info[0] != socket.AF_INET)
    sockets: list[socket.socket] = []
    for family, kind, protocol, _, address in found if port else found[:1]:
        try:
            one = socket.socket(family, kind, protocol)
        except OSError:
            if family == socket.AF_INET6 and sockets:
                continue
            raise
        sockets.append(one)
        try:
            if os.name == "posix":
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(one)  # accepted sockets inherit it
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted sockets inherit it
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_PATIENCE * 1000)
            one.setblocking(False)
            one.bind(address)
        except OSError:
            sockets.pop().close()
            if family == socket.AF_INET6 and sockets:
                continue
            for other in sockets:
                other.close()
            raise
    return sockets


def shut_down(addresses: set[tuple[str, int]]) -> None:
    """Shut down every connection that was accepted at these addresses, whichever object holds it."""
    everywhere = {port for host, port in addresses if host in ("0.0.0.0", "::")}
    with suppress(OSError):  # there is no such directory
        for entry in os.listdir("/dev/fd"):
            # The descriptor may be no socket, one of another family, or closed by now.
            with suppress(OSError, LookupError), _duplicate(int(entry)) as one:
                local = one.getsockname()[:2]
                if (local in addresses or local[1] in everywhere) and one.getpeername():
                    one.shutdown(socket.SHUT_RDWR)


def _duplicate(descriptor: int) -> socket.socket:
    """The socket that a descriptor leads to, under a descriptor of its own.

    Raises:
        OSError: it leads to no socket.
    """
    number = os.dup(descriptor)
    try:
        return socket.socket(fileno=number)
    except OSError:
        os.close(number)
        raise
