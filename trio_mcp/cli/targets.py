"""Chooses the servers of a command: those of a configuration file, the one at a URL, or the one after `--`.

The options for it are the same for every command, and are defined here as types.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..config import legal_name, load_servers
from ..models.server import Server
from ..tools.naming import nearest_names
from .endpoint import Endpoint
from .terminal import CommandError, note

ConfigOption = Annotated[Path | None, Parameter(help="The mcpServers JSON of Claude Desktop, Cursor or VS Code.")]
#: The words after `--`: app.py passes them, cyclopts never sees them.
CommandLine = Annotated[tuple[str, ...] | None, Parameter(parse=False)]


def choose_servers(
    name: str | None, config: Path | None, command_line: tuple[str, ...] | None, endpoint: Endpoint
) -> tuple[Server, ...]:
    """All servers of the file, the one with this name, or the one that `--url` or the words after `--` describe.

    Raises:
        CommandError: no source or more than one is given, or the file has no server with this name.
        InvalidServerError: the file is not a configuration file, or the command after `--` is not valid.
    """
    if [config is not None, command_line is not None, endpoint.is_given].count(True) > 1:
        raise CommandError("give only one of --config FILE, --url URL and -- COMMAND ARGS…")
    if config is None and name is not None and (command_line is not None or endpoint.is_given):
        option = "--url" if command_line is None else "--"
        raise CommandError(f'leave out "{name}": with {option} there is no server name')
    if command_line is not None:
        return (_server_from_command_line(command_line),)
    if endpoint.is_given:
        return (endpoint.server(),)
    if config is None:
        raise CommandError("which server? give --config FILE, --url URL or -- COMMAND ARGS…")
    loaded = load_servers(config)
    for warning in loaded.warnings:
        note(warning)
    if not loaded.servers:
        note(f"{config} has no server that could be started")
    if name is None:
        return loaded.servers
    for server in loaded.servers:
        if server.name == name:
            return (server,)
    names = [server.name for server in loaded.servers]
    raise CommandError(f'no server "{name}" in {config}{nearest(name, names) or _all_names(names)}')


def nearest(wrong: str, names: Iterable[str]) -> str:
    """The end of an error text that suggests the nearest names; empty when no name is near.

    >>> nearest("ecko", ["echo", "add"])
    '; did you mean "echo"?'
    """
    near = nearest_names(wrong, names)
    return "; did you mean " + " or ".join(f'"{name}"' for name in near) + "?" if near else ""


def _all_names(names: list[str]) -> str:
    return "; its servers are " + ", ".join(names) if names else ""


def _server_from_command_line(command_line: tuple[str, ...]) -> Server:
    if not command_line:
        raise CommandError("there is no command after --: write -- COMMAND ARGS…")
    command, *args = command_line
    name = legal_name(os.path.basename(command)) or "server"
    # A command that is typed at a shell gets the shell's environment.
    return Server(name, command=command, args=tuple(args), env=dict(os.environ))
