"""A connection to a server that is made of functions, in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from ..client.connection import Connection
from ..client.features.log_messages import OnLog
from ..client.limits import ClientLimits
from ..functions.decorators import tool
from ..memory import open_memory_connection
from ..models.elicitation import OnElicit
from ..protocol.revisions import ProtocolChoice
from ..server.registry import ToolServer
from ..tools.tool import Tool


def open_functions(
    *functions: Callable[..., Any] | Tool,
    name: str = "memory",
    protocol: ProtocolChoice = "auto",
    client_info: Mapping[str, Any] | None = None,
    on_elicit: OnElicit | None = None,
    on_log: OnLog | None = None,
    limits: ClientLimits | None = None,
) -> AbstractAsyncContextManager[Connection]:
    """A connection to a server made of functions, in this process.

    Args:
        functions: what `tool` takes, or tools.
        name, protocol, client_info, on_elicit, on_log, limits: as in `open_memory_connection`.

    Raises:
        TypeError: something is no function, or one that cannot be a tool.

    Example:
        >>> import trio
        >>> def double(number: int) -> int:
        ...     return 2 * number
        >>> async def main():
        ...     async with open_functions(double) as connection:
        ...         return (await connection.call_tool("double", {"number": 4})).content
        >>> trio.run(main)
        '8'
    """
    server = ToolServer("functions")
    server.add_tools(*(function if isinstance(function, Tool) else tool(function) for function in functions))
    return open_memory_connection(
        server,
        name=name,
        protocol=protocol,
        client_info=client_info,
        on_elicit=on_elicit,
        on_log=on_log,
        limits=limits,
    )
