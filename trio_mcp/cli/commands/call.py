"""`trio-mcp call`: calls one tool and prints its result."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from ...client.connection import Connection
from ...client.opening import open_connection
from ...errors import UnknownToolError
from ...models.result import ToolResult
from ...models.server import Server
from ...protocol.arguments import encode_arguments
from ...tools.failures import SILENT_FAILURE
from ...tools.tool import Tool
from ..endpoint import BearerOption, Endpoint, HeaderOption, UrlOption
from ..progress import CallProgress
from ..running import run_until_signal
from ..targets import CommandLine, ConfigOption, choose_servers, nearest
from ..terminal import CommandError, note, write_error, write_json, write_result


def call_tool(
    *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    config: ConfigOption = None,
    url: UrlOption = None,
    header: HeaderOption = (),
    bearer_env: BearerOption = None,
    as_json: Annotated[
        bool,
        Parameter(name="--json", negative=(), show_default=False, help="Print the result as the server sent it."),
    ] = False,
    command_line: CommandLine,
) -> int:
    """Call one tool.

    TOOL is the tool's name on its server, or `mcp__SERVER__TOOL`. JSON is the object of its arguments; "-" reads
    it from stdin, and without JSON the tool gets no arguments. When the tool fails, its text goes to stderr and
    the exit code is 1.
    """
    endpoint = Endpoint(url, header, bearer_env)
    with_server = command_line is None and not endpoint.is_given
    server_name, tool_name, arguments = _parse_words(words, with_server=with_server)
    (server,) = choose_servers(server_name, config, command_line, endpoint)
    # The arguments are checked before a server is started: bad JSON must not cost a process.
    encoded = encode_arguments(tool_name, _read_stdin() if arguments == "-" else arguments)
    return run_until_signal(partial(_call, server, tool_name, encoded, as_json))


def _parse_words(words: tuple[str, ...], *, with_server: bool) -> tuple[str | None, str, str | None]:
    for word in words:
        if word.startswith("-") and word != "-":
            raise CommandError(f"unknown option {word}")
    names = 2 if with_server else 1
    if not names <= len(words) <= names + 1:
        usage = (
            "SERVER TOOL [JSON] --config FILE" if with_server else "TOOL [JSON], and --url URL or -- COMMAND ARGS…"
        )
        raise CommandError(f"call takes {usage}")
    if with_server and len(words) == 2 and words[1].lstrip().startswith("{"):
        raise CommandError("call takes SERVER TOOL [JSON] --config FILE: one of the two names is missing")
    server = words[0] if with_server else None
    return server, words[names - 1], words[names] if len(words) > names else None


def _read_stdin() -> bytes:
    if sys.stdin is None:  # it was closed before we were started
        raise CommandError("stdin is closed: give the arguments as JSON instead of -")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise CommandError(f"cannot read stdin: {error.strerror or error}") from error


async def _call(server: Server, name: str, arguments: bytes, as_json: bool) -> int:
    async with open_connection(server) as connection:
        for warning in connection.warnings:
            note(f'server "{connection.name}": {warning}')
        tool = _find_tool(connection, name)
        with CallProgress(tool.remote_name, server.redactor) as progress:
            result = await connection.call_tool(
                tool.remote_name, arguments, on_progress=progress.on_progress if progress.visible else None
            )
        if as_json and result.raw is not None:
            write_json(result.raw.decode("utf-8", "replace"))
        if result.is_error:
            write_error(_text_for_people(result) or SILENT_FAILURE)
        elif not as_json:
            write_result(_text_for_people(result))
        return 1 if result.is_error else 0


def _find_tool(connection: Connection, name: str) -> Tool:
    for tool in connection.tools:
        if tool.remote_name == name:
            return tool
    for tool in connection.tools:
        if tool.name == name:
            return tool
    names = [tool.remote_name for tool in connection.tools]
    raise CommandError(str(UnknownToolError(name)) + nearest(name, names))


def _text_for_people(result: ToolResult) -> str:
    """The result for a person: its blocks, as `as_text` shows them; without blocks, the structured value."""
    return (ToolResult(result.blocks) if result.blocks else result).as_text()
