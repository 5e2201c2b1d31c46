"""Serves a ToolServer for a command: over stdin and stdout, or at an HTTP address."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import trio
from attrs import evolve, frozen
from cyclopts import Parameter

from ..nursery import bare_nursery
from ..server.http.origin import Guard, is_loopback
from ..server.http.serving import serve_http
from ..server.registry import ToolServer
from ..server.request_state import check_signing_key
from ..server.stdio import serve_stdio
from .terminal import CommandError, note

HttpOption = Annotated[
    str | None,
    Parameter(name="--http", help="Serve over HTTP there, [HOST:]PORT, instead of over stdin and stdout."),
]
AllowedHostOption = Annotated[
    tuple[str, ...],
    Parameter(
        name="--allowed-host",
        negative=(),
        show_default=False,
        help="With --http, a name by which clients reach the server, '*' for any; may be given several times.",
    ),
]

#: The variable of the signing key. Processes behind one load balancer share the key, so that any of them can
#: continue a call that another one began.
KEY_VARIABLE = "TRIO_MCP_SIGNING_KEY"


@frozen
class Address:
    """Where to listen, and by which names clients may reach it; none: only by those of this machine.

    >>> Address.parse("8000").port, Address.parse("[::1]:80").host
    (8000, '::1')
    """

    host: str
    port: int
    allowed_hosts: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Address:
        """The address that `[HOST:]PORT` names.

        Raises:
            CommandError: the text is no such address.
        """
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") if colon else "127.0.0.1"
        if not host or not (port.isdecimal() and port.isascii() and len(port) <= 5 and int(port) < 2**16):
            raise CommandError(f"--http takes [HOST:]PORT, such as 8000 or 0.0.0.0:8000, got {text!r}")
        return cls(host, int(port))

    @classmethod
    def of_options(cls, http: str | None, allowed_hosts: tuple[str, ...]) -> Address | None:
        """The address that the options name; None for stdin and stdout.

        Raises:
            CommandError: `--http` is no address, or `--allowed-host` is missing or says nothing.
        """
        if http is None:
            if allowed_hosts:
                raise CommandError("--allowed-host needs --http")
            return None
        address = evolve(cls.parse(http), allowed_hosts=allowed_hosts)
        if not allowed_hosts and not is_loopback(address.host.lower()):
            raise CommandError(
                f"--http {http}: everybody in the network can call the tools there; name the hosts by which"
                " clients reach the server with --allowed-host NAME, or '*' for any"
            )
        try:
            Guard(allowed_hosts=allowed_hosts)
        except ValueError as error:
            raise CommandError(str(error).replace("allowed_hosts", "--allowed-host", 1)) from error
        return address


async def serve_at(address: Address | None, server: ToolServer, stop: trio.Event) -> None:
    """Serve over HTTP at an address, or over stdin and stdout, until the client closes or `stop` is set.

    Raises:
        CommandError: a descriptor is closed, the address is taken, or hypercorn is missing.
    """
    try:
        if address is None:
            if sys.stdin is not None and sys.stdin.isatty():  # a person typed this, and would see nothing else
                note(f"{server.name} waits for a client on stdin and stdout; Ctrl-C ends it")
            await serve_stdio(server, stop=stop)
        else:
            await _serve_http(server, address, stop)
    except RuntimeError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        where = "" if address is None else f"cannot listen on {address.host}, port {address.port}: "
        raise CommandError(f"{where}{error.strerror or error}") from error


async def _serve_http(server: ToolServer, address: Address, stop: trio.Event) -> None:
    key = os.environ.get(KEY_VARIABLE, "").encode("utf-8", "surrogateescape") or None
    try:
        check_signing_key(KEY_VARIABLE, key)
    except ValueError as error:
        raise CommandError(str(error)) from error
    async with bare_nursery() as nursery:

        async def serve(task_status: trio.TaskStatus[str]) -> None:
            await serve_http(
                server,
                host=address.host,
                port=address.port,
                allowed_hosts=address.allowed_hosts or None,
                stop=stop,
                signing_key=key,
                task_status=task_status,
            )

        url: str = await nursery.start(serve)
        note(f"{server.name} is served at {url}")
