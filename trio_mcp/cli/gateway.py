"""`trio-mcp gateway`: all servers of a configuration file behind one server, over stdio or HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import attrs
import trio
from cyclopts import Parameter

from ..gateway import open_gateway
from ..models.server import Server
from ..nursery import bare_nursery
from ..server.stdio import check_standard_streams
from .endpoint import Endpoint
from .running import stopped_by_signals
from .serving import Address, HttpOption, serve_at
from .targets import chosen_servers
from .terminal import CommandError, relay

#: Seconds that a server gets to exit by itself. Hosts wait 2 s after closing our stdin and 2 s more after
#: SIGTERM, then they kill us: by then even one that is deaf to both has to be gone.
STOP_TIMEOUT = 1.0
#: The variable by which servers know the files of the gateways that they are started by. Whoever adds the gateway
#: to the very file that it reads would have it start itself, and that one again.
WITHIN = "TRIO_MCP_GATEWAY"


def gateway(
    *,
    config: Annotated[Path, Parameter(help="The mcpServers JSON of Claude Desktop, Cursor or VS Code.")],
    http: HttpOption = None,
) -> int:
    """Serve the tools of all servers of a file over stdin and stdout, until the client closes, or over HTTP.

    SIGTERM and SIGINT stop it: what runs may end, within some seconds. A server that fails is reported on stderr,
    where the servers' own stderr goes too, and is started again.
    """
    address = None if http is None else Address.parse(http)
    if address is None:
        try:
            check_standard_streams()  # before a server's pipe can take the number of one that is closed
        except RuntimeError as error:
            raise CommandError(str(error)) from error
    file, around = os.path.realpath(config), os.environ.get(WITHIN, "").split(os.pathsep)
    if file in around:
        raise CommandError(f"{config} starts this gateway, which would start it again, without end")
    servers = chosen_servers(None, config, None, Endpoint())
    if not servers:
        raise CommandError(f"{config} has no server that could be started")
    within = os.pathsep.join([*filter(None, around), file])
    trio.run(_gateway, [_prepared(server, within) for server in servers], address)
    return 0


async def _gateway(servers: list[Server], address: Address | None) -> None:
    redactors = {server.name: server.redactor for server in servers}

    def say(name: str, line: str) -> None:
        relay(name, redactors[name](line))

    opening, watching = trio.CancelScope(), trio.CancelScope()
    async with stopped_by_signals() as stop, bare_nursery() as nursery:

        async def give_up() -> None:
            with watching:
                await stop.wait()
                opening.cancel()

        nursery.start_soon(give_up)
        with opening:
            async with open_gateway(servers, on_stderr=say) as server:
                watching.cancel()  # from now on a signal ends the serving, not whatever runs
                await serve_at(address, server, stop)


def _prepared(server: Server, within: str) -> Server:
    if server.command is None:
        return server
    return attrs.evolve(server, stop_timeout=STOP_TIMEOUT, env={**(server.env or {}), WITHIN: within})
