"""`trio-mcp gateway`: serves the tools of all servers of a configuration file as one server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import attrs
import trio
from cyclopts import Parameter

from ...gateway import open_gateway
from ...models.server import Server
from ...nursery import bare_nursery
from ...server.stdio import check_standard_streams
from ..endpoint import Endpoint
from ..running import stopped_by_signals
from ..serving import Address, AllowedHostOption, HttpOption, serve_at
from ..targets import choose_servers
from ..terminal import CommandError, relay

#: Seconds that a server gets to exit by itself. A host waits 2 s after it closes our stdin and 2 s more after
#: SIGTERM, then it kills us: by then a server that ignores both must be gone too.
STOP_TIMEOUT = 1.0
#: The environment variable that tells a server which configuration files the gateways above it read. A gateway
#: that is listed in its own file would start itself without end.
OUTER_FILES = "TRIO_MCP_GATEWAY"


def gateway(
    *,
    config: Annotated[Path, Parameter(help="The mcpServers JSON of Claude Desktop, Cursor or VS Code.")],
    http: HttpOption = None,
    allowed_host: AllowedHostOption = (),
) -> int:
    """Serve the tools of all servers of a file over stdin and stdout, until the client closes them, or over HTTP.

    SIGTERM and SIGINT stop it; running calls get some seconds to end. A server that fails is reported on stderr,
    where the servers' own stderr goes too, and is started again.
    """
    address = Address.of_options(http, allowed_host)
    if address is None:
        try:
            check_standard_streams()  # first: a new pipe could get the number of a closed stream
        except RuntimeError as error:
            raise CommandError(str(error)) from error
    file, outer = os.path.realpath(config), os.environ.get(OUTER_FILES, "").split(os.pathsep)
    if file in outer:
        raise CommandError(f"{config} lists this gateway, which would start itself without end: remove that entry")
    servers = choose_servers(None, config, None, Endpoint())
    if not servers:
        raise CommandError(f"{config} has no server that could be started")
    all_files = os.pathsep.join([*filter(None, outer), file])
    trio.run(_gateway, [_with_gateway_settings(server, all_files) for server in servers], address)
    return 0


async def _gateway(servers: list[Server], address: Address | None) -> None:
    redactors = {server.name: server.redactor for server in servers}

    def relay_stderr(name: str, line: str) -> None:
        relay(name, redactors[name](line))

    opening, waiting_to_cancel = trio.CancelScope(), trio.CancelScope()
    async with stopped_by_signals() as stop, bare_nursery() as nursery:

        async def cancel_opening() -> None:
            with waiting_to_cancel:
                await stop.wait()
                opening.cancel()

        nursery.start_soon(cancel_opening)
        with opening:
            async with open_gateway(servers, on_stderr=relay_stderr) as server:
                waiting_to_cancel.cancel()  # from now on a signal stops the serving in order
                await serve_at(address, server, stop)


def _with_gateway_settings(server: Server, all_files: str) -> Server:
    if server.command is None:
        return server
    return attrs.evolve(server, stop_timeout=STOP_TIMEOUT, env={**(server.env or {}), OUTER_FILES: all_files})
