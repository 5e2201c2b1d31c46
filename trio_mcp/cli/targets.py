"""Which servers a command is about: those of a configuration file, the one at a URL, or the one behind `--`.

The options that say so are the same for every command and stand here as types.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..config import legal_name, load_servers
from ..models.server import Server
from .endpoint import Endpoint
from .terminal import CommandError, note

ConfigOption = Annotated[Path | None, Parameter(help="The mcpServers JSON of Claude Desktop, Cursor or VS Code.")]
#: What stood behind `--`: cyclopts never sees it, app.py hands it over.
CommandLine = Annotated[tuple[str, ...] | None, Parameter(parse=False)]


def chosen_servers(
    name: str | None, config: Path | None, command_line: tuple[str, ...] | None, endpoint: Endpoint
) -> tuple[Server, ...]:
    """The servers: all of the file, the one of this name, or the one that the command line reaches or starts.

    Raises:
        CommandError: none or several of the ways are given, or the file has no server of this name.
        InvalidServerError: the file is no such JSON, or the command line is none.
    """
    if [config is not None, command_line is not None, endpoint.is_given].count(True) > 1:
        raise CommandError("give one of --config FILE, --url URL and -- COMMAND ARGS…")
    if config is None and name is not None and (command_line is not None or endpoint.is_given):
        way = "--url" if command_line is None else "--"
        raise CommandError(f'with {way} the server is not named: leave out "{name}"')
    if command_line is not None:
        return (_server_of(command_line),)
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
    raise CommandError(f'no server "{name}" in {config}{nearest(name, names) or _choice(names)}')


def nearest(wrong: str, names: Iterable[str]) -> str:
    """The end of a sentence that names what may have been meant; empty when nothing is near.

    >>> nearest("ecko", ["echo", "add"])
    '; did you mean "echo"?'
    """
    near = difflib.get_close_matches(wrong, list(names), n=3)
    return "; did you mean " + " or ".join(f'"{name}"' for name in near) + "?" if near else ""


def _choice(names: list[str]) -> str:
    return "; it has " + ", ".join(names) if names else ""


def _server_of(command_line: tuple[str, ...]) -> Server:
    if not command_line:
        raise CommandError("there is no command behind --")
    command, *args = command_line
    name = legal_name(os.path.basename(command)) or "server"
    # What is typed at a shell expects the shell's environment.
    return Server(name, command=command, args=tuple(args), env=dict(os.environ))
