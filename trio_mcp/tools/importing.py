"""`import_tools`: a server's tools under the server's own names, to publish again or to call from a program.

An entry of the listing that cannot be used costs no other entry: it is skipped, and the reason is data. A
connection is known here as a `ToolSource`, and is left as it was.
"""

from __future__ import annotations

from typing import Protocol

import trio
from attrs import frozen

from ..errors import SkippedToolError, ToolImportError
from ..models.tool import ToolSpec
from .policy import NO_POLICY, Policy
from .tool import Tool, ToolCaller, imported_tool


class ToolSource(ToolCaller, Protocol):
    """A connection, as far as an import needs it.

    `list_specs` gives the server's list now, over all pages: each entry as listed, or why it cannot be used.
    """

    async def list_specs(self) -> tuple[ToolSpec | SkippedToolError, ...]: ...


@frozen
class ImportedTools:
    """The tools of a server, and the entries of its listing that cannot be used.

    Attributes:
        tools: the tools, in the order of the server.
        skipped: a `SkippedToolError` for each entry that cannot be used, in the order of the server.
    """

    tools: tuple[Tool, ...]
    skipped: tuple[SkippedToolError, ...] = ()

    @property
    def error(self) -> ToolImportError | None:
        """The skipped entries as one exception to raise, new each time; None where nothing was skipped.

        Its text names the first ten and why. It is a group: `except* SkippedToolError` catches its parts, and
        `split` separates them.

        Example:
            >>> imported = ImportedTools((), (SkippedToolError("add", 0, "no-schema"),))
            >>> try:
            ...     raise imported.error
            ... except* SkippedToolError as group:
            ...     print(*group.exceptions)
            tool "add" at index 0 was skipped: no-schema
        """
        if not self.skipped:
            return None
        many = "1 tool was" if len(self.skipped) == 1 else f"{len(self.skipped)} tools were"
        return ToolImportError(f"{many} skipped", self.skipped)


async def import_tools(connection: ToolSource, *, prefix: str = "", policy: Policy | None = None) -> ImportedTools:
    """List a server's tools, every page, and take them under the server's own names (server/tools).

    Names and descriptions are the server's, where `Connection.tools` has the names that agents see. `Server.tools`
    is applied: a tool that it hides is neither imported nor skipped. The connection and its `tools` stay as they
    are; an imported tool can be called for as long as the connection is open. The text of a result is its
    structured output, where there is one: see `Policy.render`. There is no timeout parameter: use
    `trio.fail_after`.

    Args:
        connection: an open `Connection`.
        prefix: goes before each name. Names are not changed otherwise, however odd they are.
        policy: for all of the tools.

    Returns:
        Its `tools`, and what was `skipped`, with the reason of each.

    Raises:
        TypeError: an argument is of the wrong type; nothing was sent.
        RequestError, ProtocolError, ServerStoppedError, AuthError, trio.ClosedResourceError: the list could not
            be had, as in `Connection.refresh_tools`, and there are no tools. One tool that cannot be used is no
            reason to raise.

    Example:
        >>> import trio
        >>> from trio_mcp import ToolServer, open_memory_connection, tool
        >>> @tool
        ... def shout(text: str) -> str:
        ...     '''Say it louder.'''
        ...     return text.upper()
        >>> server = ToolServer("voices")
        >>> server.add_tools(shout)
        >>> async def main():
        ...     async with open_memory_connection(server) as connection:
        ...         imported = await import_tools(connection, prefix="loud_")
        ...         return [tool.name for tool in imported.tools], imported.error
        >>> trio.run(main)
        (['loud_shout'], None)
    """
    await trio.lowlevel.checkpoint()
    if not hasattr(connection, "list_specs"):
        raise TypeError(f"connection: expected Connection, got {type(connection).__name__}")
    if not isinstance(prefix, str):
        raise TypeError(f"prefix: expected str, got {type(prefix).__name__}")
    if policy is not None and not isinstance(policy, Policy):
        raise TypeError(f"policy: expected Policy, got {type(policy).__name__}")
    tools: list[Tool] = []
    skipped: list[SkippedToolError] = []
    for found in await connection.list_specs():
        if isinstance(found, SkippedToolError):
            skipped.append(found)
        else:
            tools.append(imported_tool(found, connection, prefix + found.name, policy or NO_POLICY))
    return ImportedTools(tuple(tools), tuple(skipped))
