"""ToolServer: a name, some tools, and who wants to hear of changes. Knows no transport and no request."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar, overload

from ..errors import UnknownToolError
from ..functions.decorators import ToolDecorator
from ..functions.decorators import tool as make_tool
from ..functions.local_tool import LocalTool
from ..models.icon import Icon
from ..models.tool import other_members
from ..protocol.messages import encode_any, encode_json, one_line, without_halves
from ..protocol.revisions import META_SERVER_INFO, Era
from ..tools.policy import Policy
from ..tools.tool import Tool
from .request_state import check_signing_key

P = ParamSpec("P")
R = TypeVar("R")

#: What official clients refuse a whole listing over where it is something else.
_KINDS = {"annotations": dict, "_meta": dict, "icons": list}
_HINTS = {
    "title": str,
    **dict.fromkeys(("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"), bool),
}
#: Pages of a listing are made once for each era and thrown away at a change.
_NO_PAGES: dict[tuple[Era, str | None], bytes] = {}


class ToolServer:
    """Tools to publish: over stdio, over HTTP, in memory (specification: server/tools).

    Args:
        name: what clients are told it is called.
        version: of your server, for people.
        instructions: what models are told about the server as a whole.
        page_size: tools on one page of a listing; None puts all on one.
        signing_key: signs what clients carry between the rounds of a call (`requestState`). Processes that serve
            one another's rounds share it; random when not given.

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
        self.name = name
        self.version = version
        self.instructions = instructions
        self.page_size = page_size
        self.signing_key = signing_key or secrets.token_bytes(32)
        self._tools: dict[str, Tool] = {}
        self._listeners: dict[object, Callable[[], None]] = {}
        self._pages = dict(_NO_PAGES)

    def __repr__(self) -> str:
        return f"<ToolServer {self.name!r}, {len(self._tools)} tools>"

    @property
    def info(self) -> dict[str, Any]:
        """What clients are told it is: an Implementation of the specification."""
        return {"name": self.name, "version": self.version}

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools, in the order in which they came."""
        return tuple(self._tools.values())

    def find(self, name: str) -> Tool | None:
        """The tool of that name, if there is one."""
        return self._tools.get(name)

    def add_tools(self, *tools: Tool) -> None:
        """Publish tools. One whose name is there already is replaced; connected clients hear of it.

        Raises:
            TypeError: something is no `Tool` (did you forget `@tool`?).
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
        """Publish a tool no more; connected clients hear of it.

        Raises:
            UnknownToolError: there is none of that name.
        """
        if name not in self._tools:
            raise UnknownToolError(name)
        del self._tools[name]
        self._changed()

    # --- for gateway.py

    def replace_tools(self, names: Iterable[str], tools: Iterable[Tool]) -> None:
        """Publish tools instead of those of these names, as one change; as none where nothing differs."""
        before = self.tools
        for name in names:
            self._tools.pop(name, None)
        self._tools |= {tool.name: tool for tool in tools}
        if self.tools != before:
            self._changed()

    # --- for dispatch.py

    def listen(self, key: object, changed: Callable[[], None]) -> None:
        """Call `changed`, which must not block, after each change of the list."""
        self._listeners[key] = changed

    def unlisten(self, key: object) -> None:
        """Stop that."""
        self._listeners.pop(key, None)

    def page(self, cursor: str | None, era: Era) -> bytes | None:
        """One page of the listing, encoded; None for a cursor that never was."""
        found = self._pages.get((era, cursor))
        if found is None:
            found = self._make_page(cursor, era)
            if found is not None:
                self._pages[era, cursor] = found
        return found

    def _make_page(self, cursor: str | None, era: Era) -> bytes | None:
        tools = list(self._tools.values())
        start = 0
        if cursor is not None:
            # A cursor names the tool before the page: one that is removed meanwhile takes its cursor with it.
            names = [tool.name for tool in tools]
            if self.page_size is None or cursor not in names:
                return None
            start = names.index(cursor) + 1
        end = len(tools) if self.page_size is None else start + self.page_size
        entries = b",".join(listed(tool, era) for tool in tools[start:end])
        members = [b'"tools":[%b]' % entries]
        if end < len(tools):
            members.append(b'"nextCursor":' + encode_any(tools[end - 1].name))
        if era == "modern":
            members.append(b'"ttlMs":0,"cacheScope":"private"')
            members.append(self.modern_members)
        return b"{%b}" % b",".join(members)

    @property
    def modern_members(self) -> bytes:
        """What every result of the modern era has, encoded, without braces."""
        return b'"resultType":"complete","_meta":' + encode_json({META_SERVER_INFO: self.info})

    def _changed(self) -> None:
        self._pages.clear()
        for changed in list(self._listeners.values()):
            changed()


def listed(tool: Tool, era: Era) -> bytes:
    """A tool as tools/list has it, encoded: its schemas byte for byte, but for line ends between tokens."""
    spec = tool.spec
    members: dict[str, Any] = {"name": tool.name}
    if spec.title is not None:
        members["title"] = spec.title
    if tool.description:
        members["description"] = tool.description
    encoded = encode_any(members)[:-1] + b',"inputSchema":' + _with_type(spec.input_schema, spec.input_schema_json)
    output = spec.output_schema_json
    # Legacy clients refuse the whole listing over an output schema whose root is no object, and all of them over
    # one that is no schema.
    if output is not None and output.lstrip()[:1] == b"{" and (era == "modern" or spec.output_schema is not None):
        encoded += b',"outputSchema":' + output
    rest = _of_kinds(other_members(spec), _KINDS)
    if "annotations" in rest:
        rest["annotations"] = _of_kinds(rest["annotations"], _HINTS)
    return without_halves(one_line(encoded) + (b"," + encode_any(rest)[1:-1] if rest else b"") + b"}")


def _of_kinds(members: dict[str, Any], kinds: Mapping[str, type]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if isinstance(value, kinds.get(key, object))}


def _with_type(schema: dict[str, Any], encoded: bytes) -> bytes:
    """The schema's bytes, with the type spliced in where the root has none: clients insist on it."""
    if "type" in schema:
        return encoded
    rest = encoded.strip()[1:-1].strip()
    return b'{"type":"object"}' if not rest else b'{"type":"object",' + encoded.strip()[1:]
