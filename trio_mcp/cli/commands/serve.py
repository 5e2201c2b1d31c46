"""`trio-mcp serve`: publish tools of a Python module, over stdio or HTTP."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterable
from contextlib import redirect_stdout
from typing import Annotated, Any

import trio
from cyclopts import Parameter

from ...server.registry import ToolServer
from ...tools.tool import Tool
from ..running import stopped_by_signals
from ..serving import Address, AllowedHostOption, HttpOption, serve_at
from ..terminal import CommandError


def serve(
    target: Annotated[str, Parameter(name="MODULE:TOOLS", help="A tool, a list of tools or a ToolServer.")],
    /,
    *,
    http: HttpOption = None,
    allowed_host: AllowedHostOption = (),
) -> int:
    """Serve tools over stdin and stdout, until the client closes, or over HTTP.

    SIGTERM and SIGINT stop the server: running calls get some seconds to finish. The working directory is on
    sys.path, so that a module in it is found. Over HTTP, all processes that serve the same clients share the
    environment variable TRIO_MCP_SIGNING_KEY, at least 16 bytes.
    """
    address = Address.of_options(http, allowed_host)
    with redirect_stdout(sys.stderr):  # stdout belongs to the client alone
        server = _load_server(target)
    trio.run(_serve, server, address)
    return 0


async def _serve(server: ToolServer, address: Address | None) -> None:
    async with stopped_by_signals() as stop:
        await serve_at(address, server, stop)


def _load_server(target: str) -> ToolServer:
    """The server that MODULE:TOOLS names.

    Raises:
        CommandError: the module cannot be imported, or has no such tools; the text says why.
    """
    module_name, colon, path = target.partition(":")
    if not module_name or not colon or not path:
        raise CommandError(f"expected MODULE:TOOLS, such as words:server, got {target!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if os.sep in module_name:
        name = os.path.basename(module_name).removesuffix(".py")
        raise CommandError(f"{module_name!r} is a file, not a module: {name}:{path}, from its directory")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise CommandError(_failed(module_name, error)) from error
        hint = f"; a module, not a file: {module_name[:-3]}:{path}" if module_name.endswith(".py") else ""
        raise CommandError(f"there is no module {module_name!r} (looked in {os.getcwd()} too){hint}") from error
    except (Exception, SystemExit) as error:
        raise CommandError(_failed(module_name, error)) from error
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise CommandError(f"{module_name} has no {path!r}") from None
    if isinstance(found, ToolServer):
        return found
    tools = [found] if isinstance(found, Tool) else found
    if not isinstance(tools, Iterable) or isinstance(tools, str):
        hint = "; @tool makes a tool of it" if inspect.isfunction(found) else ""
        raise CommandError(
            f"{target} is a {type(found).__name__}, neither a tool nor a list of tools nor a ToolServer{hint}"
        )
    server = ToolServer(module_name)
    try:
        server.add_tools(*tools)
    except (TypeError, ValueError) as error:
        raise CommandError(f"{target}: {error}") from error
    return server


def _failed(module_name: str, error: BaseException) -> str:
    said = f"importing {module_name} failed: {type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):  # its text has the line, and its traceback ends in the import system
        return said
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{said} ({os.path.basename(where.filename)}:{where.lineno})"
