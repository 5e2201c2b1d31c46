"""The command line as a whole: the commands, `--`, and what becomes of errors. Each command has its own file.

`argv` is split at the first `--` before cyclopts sees it: what follows is a server's command line, verbatim.
"""

from __future__ import annotations

from collections.abc import Sequence

from cyclopts import App, CycloptsError

from ..errors import MCPError
from .call import call_tool
from .demo import demo
from .gateway import gateway
from .list import list_tools
from .logs import shown_logs
from .serve import serve
from .terminal import CommandError, abandon_output, complain

#: The exit codes: 0, 1 when a tool failed, 2 for everything else.
FAILED = 2

_HELP = """Start MCP servers, list their tools, call them; serve your own, or many as one.

The servers come from a configuration file (`--config`, the mcpServers JSON of Claude Desktop, Cursor and VS
Code), or one is reached at a `--url`, or one is started from the command line behind `--`.
`trio-mcp --version` tells the version.
"""


def run(argv: Sequence[str]) -> int:
    """Run one command and return the exit code. Nothing that a user can cause leaves as an exception."""
    try:
        with shown_logs():
            return _run(argv)
    except BrokenPipeError:  # whoever read our output has seen enough
        abandon_output()
        return FAILED


def _run(argv: Sequence[str]) -> int:
    tokens, command_line = split(argv)
    app = _app()
    try:
        command, bound, ignored = app.parse_args(tokens, exit_on_error=False, print_error=False)
        extra = {"command_line": command_line} if "command_line" in ignored else {}
        code = command(*bound.args, **bound.kwargs, **extra)
    except CycloptsError as error:
        complain(CommandError(" ".join(str(error).split())))
        return FAILED
    # NotImplementedError is a promise for a later release, or a platform that cannot.
    except (MCPError, CommandError, NotImplementedError) as error:
        complain(error)
        return FAILED
    if not tokens:  # the help was printed because nothing was asked
        return FAILED
    return code if isinstance(code, int) else 0


def split(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """Our own words, and the command line behind the first `--`: None without one.

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
