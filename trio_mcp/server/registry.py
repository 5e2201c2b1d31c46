"""ToolServer: the name of a server and its tools. Knows no transport and no request."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar, overload

from ..errors import UnknownToolError
from ..functions.decorators import ToolDecorator
from ..functions.decorators import tool as make_tool
from ..functions.local_tool import LocalTool
from ..models.icon import Icon
from ..protocol.revisions import META_SERVER_INFO
from ..tools.policy import Policy
from ..tools.tool import Tool
from .changes import Changes, Topic
from .request_state import check_signing_key

#: The list of tools.
TOOLS_CHANGED = Topic("toolsListChanged", "notifications/tools/list_changed")

Derived = TypeVar("Derived")
P = ParamSpec("P")
R = TypeVar("R")


class ToolServer:
    """Tools to publish: over stdio, over HTTP, in memory (specification: server/tools).

    Args:
        name: the name of the server, as clients are told.
        version: the version of your server, for people.
        instructions: a text about the server as a whole, for models.
        page_size: tools on one page of a listing; None puts all on one page.
        signing_key: signs the state that clients carry between the rounds of a call (`requestState`). Processes
            that share it can continue each other's calls; random when not given.
        mask_errors: tell clients of an exception that is no `ToolError` nothing but that the tool failed; the
            log has the rest. Without it they read its type and text, which may hold what is not for strangers.

    Attributes:
        changes: who is told of changes, of the tools and of other features.

    Raises:
        TypeError: `name`, `version` or `instructions` is no str.
        ValueError: `name` or `version` is empty, `page_size` is no integer of at least 1, or `signing_key` is
            shorter than 16 bytes.

    Example:
        >>> from trio_mcp import ToolServer, tool
        >>> @tool
        ... def shout(text: str) -> str:
        ...     '''Say it louder.'''
        ...     return text.upper()
        >>> server = ToolServer("voices")
        >>> server.add_tools(shout)
        >>> [tool.name for tool in server.tools]
        ['shout']
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        instructions: str | None = None,
        page_size: int | None = None,
        signing_key: bytes | None = None,
        mask_errors: bool = False,
    ) -> None:
        for field, value, empty in (
            ("name", name, False),
            ("version", version, False),
            ("instructions", instructions, True),
        ):
            if not (isinstance(value, str) or (empty and value is None)):
                raise TypeError(f"{field}: expected str, got {type(value).__name__}")
            if not value and not empty:
                raise ValueError(f"{field}: is empty")
        if page_size is not None and (type(page_size) is not int or page_size < 1):
            raise ValueError(f"page_size: expected at least 1, got {page_size!r}")
        check_signing_key("signing_key", signing_key)
        if not isinstance(mask_errors, bool):
            raise TypeError(f"mask_errors: expected bool, got {type(mask_errors).__name__}")
        self.mask_errors = mask_errors
        self.name = name
        self.version = version
        self.instructions = instructions
        self.page_size = page_size
        self.signing_key: bytes = signing_key or secrets.token_bytes(32)
        self.changes: Changes = Changes()
        self._tools: dict[str, Tool] = {}
        self._derived: dict[Hashable, Any] = {}

    def __repr__(self) -> str:
        return f"<ToolServer {self.name!r}, {len(self._tools)} tools>"

    @property
    def info(self) -> dict[str, Any]:
        """The name and version, as clients are told: an Implementation of the specification."""
        return {"name": self.name, "version": self.version}

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The published tools, in the order in which they were added."""
        return tuple(self._tools.values())

    def find(self, name: str) -> Tool | None:
        """The tool of that name, if there is one."""
        return self._tools.get(name)

    def add_tools(self, *tools: Tool) -> None:
        """Publish tools, and tell connected clients. A tool replaces the one that had its name.

        Raises:
            TypeError: an argument is no `Tool` (did you forget `@tool`?).
            ValueError: a name comes twice in this call, or a tool requires approval, for which MCP has no channel.
        """
        added: dict[str, Tool] = {}
        for tool in tools:
            if not isinstance(tool, Tool):
                raise TypeError(f"tools: expected Tool, got {type(tool).__name__}")
            if tool.name in added:
                raise ValueError(f"tools: {tool.name!r} comes twice")
            if tool.policy.require_approval:
                raise ValueError(f"tools: {tool.name!r} requires approval, and MCP has no channel for that")
            added[tool.name] = tool
        if added:
            self._tools |= added
            self._changed()

    @overload
    def tool(self, function: Callable[P, R], /) -> LocalTool[P, R]: ...
    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        meta: Mapping[str, Any] | None = None,
        icons: Iterable[Icon] = (),
        policy: Policy | None = None,
    ) -> ToolDecorator: ...
    def tool(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        meta: Mapping[str, Any] | None = None,
        icons: Iterable[Icon] = (),
        policy: Policy | None = None,
    ) -> LocalTool[..., Any] | ToolDecorator:
        """Make a function a tool, as `trio_mcp.tool` does, and publish it.

        The options are those of `trio_mcp.tool`. The function's name then is the tool, which can be called as
        the function still.

        Raises:
            TypeError, ValueError: as `trio_mcp.tool` and `add_tools`; nothing was published.

        Example:
            >>> server = ToolServer("voices")
            >>> @server.tool
            ... def shout(text: str) -> str:
            ...     return text.upper()
            >>> @server.tool(read_only=True)
            ... def whisper(text: str) -> str:
            ...     return text.lower()
            >>> shout("Hello"), [tool.name for tool in server.tools]
            ('HELLO', ['shout', 'whisper'])
        """
        options = make_tool(
            name=name,
            title=title,
            description=description,
            read_only=read_only,
            destructive=destructive,
            idempotent=idempotent,
            open_world=open_world,
            meta=meta,
            icons=icons,
            policy=policy,
        )

        def publish(function: Callable[P, R], /) -> LocalTool[P, R]:
            made = options(function)
            self.add_tools(made)
            return made

        return publish if function is None else publish(function)

    def remove_tool(self, name: str) -> None:
        """Stop publishing a tool, and tell connected clients.

        Raises:
            UnknownToolError: no published tool has that name.
        """
        if name not in self._tools:
            raise UnknownToolError(name)
        del self._tools[name]
        self._changed()

    # --- for gateway.py

    def replace_tools(self, names: Iterable[str], tools: Iterable[Tool]) -> None:
        """Replace the tools of these names atomically; clients are told only if the list changed."""
        before = self.tools
        for name in names:
            self._tools.pop(name, None)
        self._tools |= {tool.name: tool for tool in tools}
        if self.tools != before:
            self._changed()

    # --- for features

    @property
    def modern_members(self) -> dict[str, Any]:
        """The members that every result of the modern era has."""
        return {"resultType": "complete", "_meta": {META_SERVER_INFO: self.info}}

    def derived(self, key: Hashable, make: Callable[[], Derived | None]) -> Derived | None:
        """The value that `make` returns, kept until the tools change. None is not kept."""
        found: Derived | None = self._derived.get(key)
        if found is None:
            found = make()
            if found is not None:
                self._derived[key] = found
        return found

    def _changed(self) -> None:
        self._derived.clear()
        self.changes.announce(TOOLS_CHANGED)
