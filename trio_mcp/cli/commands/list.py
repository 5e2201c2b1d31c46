"""`trio-mcp list`: lists the tools of one server, or of all servers in a configuration file."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated, Any

from cyclopts import Parameter
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...client.opening import open_connections
from ...errors import MCPError
from ...models.server import Server
from ...tools.tool import Tool
from ..endpoint import BearerOption, Endpoint, HeaderOption, UrlOption
from ..json_output import array_text, object_text
from ..running import run_until_signal
from ..targets import CommandLine, ConfigOption, choose_servers
from ..terminal import CommandError, note, one_line, print_error, strip_controls, write, write_json

#: The arguments and the description need at least so many characters of a line to be readable beside the names.
MIN_TEXT_WIDTH = 32
_HEADINGS = ("server", "tool", "arguments", "description")


def list_tools(
    server: Annotated[str | None, Parameter(help="One server of the file; without it, all are listed.")] = None,
    /,
    *,
    config: ConfigOption = None,
    url: UrlOption = None,
    header: HeaderOption = (),
    bearer_env: BearerOption = None,
    as_json: Annotated[
        bool, Parameter(name="--json", negative=(), show_default=False, help="Print a JSON array.")
    ] = False,
    command_line: CommandLine,
) -> int:
    """List tools.

    A server that fails is reported on stderr; the others are still listed, and the exit code is 2.
    """
    endpoint = Endpoint(url, header, bearer_env)
    servers = choose_servers(server, config, command_line, endpoint)
    return run_until_signal(partial(_list, servers, as_json))


async def _list(servers: tuple[Server, ...], as_json: bool) -> int:
    async with open_connections(servers, on_error="warn") as connections:
        rows = [(name, tool) for name, connection in connections.items() for tool in connection.tools]
        if as_json:
            write_json(array_text([object_text(_json_fields(name, tool)) for name, tool in rows]))
        elif rows:
            write(table_of(rows))
        for name, connection in connections.items():
            for warning in connection.warnings:
                note(f'server "{name}": {warning}')
            if not connection.tools:
                note(f'server "{name}" has no tools')
        for name, failure in connections.failed.items():
            # The text of an MCPError names the server already.
            print_error(failure if isinstance(failure, MCPError) else CommandError(f'server "{name}": {failure}'))
        return 2 if connections.failed else 0


def table_of(rows: list[tuple[str, Tool]]) -> str:
    """A table of tools for people, each with its server's name."""
    return _table([_cells(name, tool) for name, tool in rows])


def _json_fields(server: str, tool: Tool) -> dict[str, Any]:
    return {
        "server": server,
        "name": tool.name,
        "remote_name": tool.remote_name,
        "description": tool.description,
        "inputSchema": tool.input_schema_json,
    }


def _cells(server: str, tool: Tool) -> tuple[str, str, str, str]:
    # Only the first paragraph: some servers put a whole manual into a description.
    first = strip_controls(tool.spec.description or "").strip().partition("\n\n")[0]
    return server, one_line(tool.remote_name), _argument_names(tool.input_schema), one_line(first)


def _argument_names(schema: dict[str, Any]) -> str:
    """The names of the properties, the optional ones with a question mark."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return ""
    needed = required if isinstance(required, list) else []
    return ", ".join(one_line(name) + ("" if name in needed else "?") for name in properties)


def _table(rows: list[tuple[str, str, str, str]]) -> str:
    # Asked of the stream, not of rich: FORCE_COLOR makes rich take a pipe for a terminal.
    if sys.stdout is None or not sys.stdout.isatty():
        return _plain_table([_HEADINGS, *rows])
    console = Console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    # The user has to type the names: they stay on one line where there is room, else are folded, never cut.
    names = sum(max(cell_len(row[column]) for row in rows) for column in (0, 1))
    names_fit = names + MIN_TEXT_WIDTH <= console.width
    for column, heading in enumerate(_HEADINGS):
        table.add_column(heading, overflow="fold", no_wrap=names_fit and column < 2)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def _plain_table(rows: list[tuple[str, str, str, str]]) -> str:
    """Aligned columns of unlimited width: a program that reads the pipe can break the lines itself."""
    widths = [max(cell_len(row[column]) for row in rows) for column in range(len(_HEADINGS) - 1)]
    lines = []
    for row in rows:
        padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=False))
        lines.append("  ".join([*padded, row[-1]]).rstrip())
    return "\n".join(lines) + "\n"
