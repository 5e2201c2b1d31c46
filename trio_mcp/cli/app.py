"""The command line: registers the commands, splits the words at `--`, and turns errors into exit codes.

Each command has a file of its own. The words are split at the first `--` before cyclopts sees them: everything
after it is a server's command line and stays verbatim.
"""

from __future__ import annotations

from collections.abc import Sequence

from cyclopts import App, CycloptsError

from ..errors import MCPError
from .commands.call import call_tool
from .commands.demo import demo
from .commands.gateway import gateway
from .commands.list import list_tools
from .commands.serve import serve
from .logs import logs_as_notes
from .terminal import CommandError, discard_output, print_error

#: The exit code is 0, or 1 when a tool failed, or this one for every other error.
EXIT_ERROR = 2

_HELP = """Start MCP servers, list and call their tools; serve your own tools, or many servers as one.

Servers come from a configuration file (`--config`: the mcpServers JSON of Claude Desktop, Cursor and VS Code),
or one server is reached at a URL (`--url`), or started by the command line after `--`.
`trio-mcp --version` prints the version.
"""


def run(argv: Sequence[str]) -> int:
    """Run one command and return the exit code. An error that a user can cause is printed, never raised."""
    try:
        with logs_as_notes():
            return _run(argv)
    except BrokenPipeError:  # the reader of our output, such as `head`, has closed the pipe
        discard_output()
        return EXIT_ERROR


def _run(argv: Sequence[str]) -> int:
    tokens, command_line = split(argv)
    app = _app()
    try:
        command, bound, ignored = app.parse_args(tokens, exit_on_error=False, print_error=False)
        extra = {"command_line": command_line} if "command_line" in ignored else {}
        code = command(*bound.args, **bound.kwargs, **extra)
    except CycloptsError as error:
        print_error(CommandError(" ".join(str(error).split())))
        return EXIT_ERROR
    # NotImplementedError: the feature comes in a later release, or this platform cannot do it.
    except (MCPError, CommandError, NotImplementedError) as error:
        print_error(error)
        return EXIT_ERROR
    if not tokens:  # no command was given: cyclopts has printed the help
        return EXIT_ERROR
    return code if isinstance(code, int) else 0


def split(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """Our own words, and the server's command line after the first `--` (None without `--`).

    >>> split(["list", "--", "uvx", "mcp-server-time"])
    (['list'], ('uvx', 'mcp-server-time'))
    >>> split(["list"])
    (['list'], None)
    """
    words = list(argv)
    if "--" not in words:
        return words, None
    at = words.index("--")
    return words[:at], tuple(words[at + 1 :])


def _app() -> App:
    app = App(name="trio-mcp", help=_HELP, version_flags=[], help_flags=["--help", "-h"])
    app.command(
        list_tools,
        name="list",
        usage="Usage: trio-mcp list [SERVER] --config FILE [--json]\n"
        "       trio-mcp list --url URL [--header 'NAME: ${VAR}'] [--bearer-env VAR] [--json]\n"
        "       trio-mcp list [--json] -- COMMAND ARGS…",
    )
    app.command(
        call_tool,
        name="call",
        usage="Usage: trio-mcp call SERVER TOOL [JSON] --config FILE [--json]\n"
        "       trio-mcp call TOOL [JSON] --url URL [--header 'NAME: ${VAR}'] [--bearer-env VAR] [--json]\n"
        "       trio-mcp call TOOL [JSON] [--json] -- COMMAND ARGS…",
    )
    app.command(serve, usage="Usage: trio-mcp serve MODULE:TOOLS [--http [HOST:]PORT]")
    app.command(gateway, usage="Usage: trio-mcp gateway --config FILE [--http [HOST:]PORT]")
    app.command(demo, usage="Usage: trio-mcp demo")
    return app
