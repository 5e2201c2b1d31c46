"""A connection to one server, as programs see it: its tools, its calls, its end.

Holds no state of its own: everything is asked of the `Client` behind it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, NoReturn, overload

import trio

from ..errors import (
    InvalidArgumentsError,
    ServerStoppedError,
    SkippedToolError,
    UnknownToolError,
)
from ..models.result import InputRequired, ToolResult, read_any_result, read_call_result
from ..models.server import Server
from ..models.tool import ToolSpec
from ..models.typed_result import Decode, TypedToolResult, Value, decoder_of, read_typed
from ..protocol.arguments import encode_arguments
from ..protocol.messages import Undecoded, encode_any
from ..tools.context import OnProgress
from ..tools.naming import nearest_names
from ..tools.tool import Arguments, Tool
from .client import Client
from .features.tool_watch import ToolWatch
from .outgoing.requests import Statistics


class Connection:
    """One server, open. Made by `open_connection`, `connect`, `open_connections` and `open_memory_connection`.

    Any number of tasks may use it at once; it ends with the scope that opened it. Once it has ended its calls
    raise the error that it was lost by, or `trio.ClosedResourceError` after a close.

    Attributes:
        server: as configured; None for a server in this process.
        name: the server's name, as configured.
        done: a `trio.Event`, set when the connection has ended, by close or by loss.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.server: Server | None = client.server
        self.name: str = client.name
        self.done: trio.Event = client.done
        self._read_result = partial(read_call_result, warn=client.odd_result)

    def __repr__(self) -> str:
        state = "ended" if self.done.is_set() else "open"
        return f"<Connection {self.name!r} {self.protocol_version} {state}, {len(self.tools)} tools>"

    # --- what is known of the server

    @property
    def server_info(self) -> dict[str, Any]:
        """What the server says it is: name, version and more; empty when it does not say."""
        return self._client.agreed.server_info

    @property
    def capabilities(self) -> dict[str, Any]:
        """What the server offers, as the specification lists it."""
        return self._client.agreed.capabilities

    @property
    def protocol_version(self) -> str:
        """The revision that both sides speak."""
        return self._client.agreed.version

    @property
    def instructions(self) -> str | None:
        """What the server tells models about itself, or None."""
        return self._client.agreed.instructions

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The server's tools, every page listed, the filter applied, in the order of the server."""
        return self._client.tool_list.tools

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was odd about the last listing: filtered names not offered, tools skipped and why, odd pages."""
        return self._client.tool_list.warnings

    @property
    def error(self) -> ServerStoppedError | None:
        """The error that ended the connection; None while it is open, and after a plain close."""
        return self._client.error

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB of a server process's stderr, as text; bytes that are no UTF-8 show as U+FFFD.

        Empty where there is no process of ours: over HTTP, in memory.
        """
        return self._client.stderr_tail

    def statistics(self) -> Statistics:
        """Counts since the connection was opened."""
        return self._client.requests.statistics()

    # --- calls

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ToolResult: ...

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        returns: type[Value],
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> TypedToolResult[Value]: ...

    async def call_tool(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        returns: type[Any] | None = None,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ToolResult:
        """Call a tool by the server's own name for it (specification: server/tools, "Calling Tools").

        Blocks until the server answers. Cancelling tells the server; there is no timeout parameter, use
        `trio.fail_after`. A tool that ran and failed is a result with `is_error`.

        Args:
            name: the tool's name, as the server lists it.
            arguments: a mapping of JSON values; or JSON text or bytes of one object, sent as they are (but for
                line ends between tokens); None and blank stand for no arguments.
            returns: a class to decode the structured output as, which is then `result.value`: an attrs class, a
                dataclass, a TypedDict, a msgspec.Struct or a pydantic model.
            on_progress: `async (progress, total, message)`, run in this task, in the order of the wire, all of it
                before this returns. It can be cancelled, and what it raises ends the call.
            meta: more members for the request's `_meta`.

        Raises:
            UnknownToolError: the configured filter hides that name; nothing was sent.
            InvalidArgumentsError: the arguments are not one JSON object; nothing was sent.
            RequestError: the server answered with a JSON-RPC error.
            ProtocolError: the answer is no result, or its structured output does not fit `returns`; the server is
                at fault.
            ServerStoppedError: the server went away.
            ExchangeError: over HTTP, this one request failed.
            AuthError: the server refused it with 401 or 403 (HTTP).
            trio.ClosedResourceError: the connection was closed here.
            TypeError: `returns` is no class that can be decoded; nothing was sent.

        Example:
            >>> async def noon(connection):
            ...     result = await connection.call_tool("get_current_time", {"timezone": "Europe/Rome"})
            ...     return result.content
        """
        try:
            # No function made here: its cells would be held by every call that waits, typed or not.
            read = self._read_result if returns is None else partial(self._read_typed, decoder_of(returns))
            pending = self._call(name, arguments, on_progress, meta, read)
        except Exception:  # the arguments are wrong; a refusal is a checkpoint as a call is
            await trio.lowlevel.checkpoint()
            raise
        return await pending

    def _read_typed(self, decode: Decode[Value], data: Undecoded) -> ToolResult | InputRequired:
        result = self._read_result(data)
        return result if isinstance(result, InputRequired) else read_typed(result, decode)

    def _call(
        self,
        name: str,
        arguments: Arguments,
        on_progress: OnProgress | None,
        meta: Mapping[str, Any] | None,
        read: Callable[[Undecoded], ToolResult | InputRequired],
    ) -> Awaitable[ToolResult]:
        """The awaitable of one call. No coroutine of its own: each is held while it waits."""
        if type(name) is not str:
            raise TypeError(f"name: expected str, got {type(name).__name__}")
        client = self._client
        wanted = client.tool_list.wanted
        if wanted is not None and name not in wanted:
            return _unknown(name, wanted)
        encoded = encode_arguments(name, arguments)
        headers = client.requests.headers
        make_headers = None
        if headers is not None:
            make_headers = partial(headers.of_call, name, arguments if isinstance(arguments, Mapping) else encoded)
        return client.requests.call(
            "tools/call",
            (b'"name":%b,"arguments":' % encode_any(name), encoded),
            name,
            read,
            meta=meta,
            on_progress=on_progress,
            headers=make_headers,
        )

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send any MCP request; its result, decoded. Resources, prompts and completion need nothing more.

        Args:
            method: such as "resources/read".
            params: a mapping of JSON values. A `_meta` in it is sent beside what the revision demands there.

        Raises:
            InvalidArgumentsError: `params` is no mapping of JSON values; nothing was sent.
            RequestError, ProtocolError, ServerStoppedError, AuthError, trio.ClosedResourceError: as `call_tool`.

        Example:
            >>> async def resources(connection):
            ...     return (await connection.request("resources/list"))["resources"]
        """
        try:
            pending = self._request(method, params)
        except Exception:  # as in `call_tool`
            await trio.lowlevel.checkpoint()
            raise
        return await pending

    def _request(self, method: str, params: Mapping[str, Any] | None) -> Awaitable[dict[str, Any]]:
        if type(method) is not str:
            raise TypeError(f"method: expected str, got {type(method).__name__}")
        if params is not None and not isinstance(params, Mapping):
            raise InvalidArgumentsError(method, f"expected a mapping, got {type(params).__name__}")
        members = dict(params or {})
        meta = members.pop("_meta", None)
        if meta is not None and not isinstance(meta, Mapping):
            raise InvalidArgumentsError(method, f"_meta: expected a mapping, got {type(meta).__name__}")
        encoded = encode_arguments(method, members)[1:-1]
        requests = self._client.requests
        return requests.call(
            method,
            encoded,
            method,
            partial(read_any_result, method),
            meta=meta,
            headers=None if requests.headers is None else partial(requests.headers.of, method, members),
        )

    # --- the list of tools

    def tool(self, name: str) -> Tool:
        """The tool of that name: the server's own name for it, or the name that agents see.

        Raises:
            UnknownToolError: no tool has that name now; the error names the nearest ones.

        Example:
            >>> async def noon(connection):
            ...     return await connection.tool("get_current_time").invoke({"timezone": "Europe/Rome"})
        """
        tools = self._client.tool_list.tools
        for tool in tools:
            if tool.remote_name == name:
                return tool
        for tool in tools:
            if tool.name == name:
                return tool
        known = [known for tool in tools for known in (tool.remote_name, tool.name)]
        raise UnknownToolError(name, nearest=nearest_names(name, known))

    async def refresh_tools(self) -> None:
        """List the tools again, every page; replace `tools` and `warnings`.

        Raises:
            RequestError, ProtocolError, ServerStoppedError, AuthError, trio.ClosedResourceError: the listing
                failed, as a call may; the previous list stays.
        """
        await self._client.tool_list.refresh()

    def watch_tools(self) -> AbstractAsyncContextManager[ToolWatch]:
        """Follow changes of the list: a context manager that gives an async iterator of tuples of `Tool`.

        After each change (many at once count as one) `tools` is replaced and the new tuple is given out; changes
        since the last listing come first. The iterator ends when the connection is closed.

        Raises:
            RequestError, ProtocolError, ServerStoppedError, AuthError: from the iterator, when a listing fails
                (the old list stays, and the next change is waited for), or when the connection is lost.

        Example:
            >>> async def follow(connection):
            ...     async with connection.watch_tools() as changes:
            ...         async for tools in changes:
            ...             print([tool.name for tool in tools])
        """
        return self._client.watches.open()

    async def list_specs(self) -> tuple[ToolSpec | SkippedToolError, ...]:
        """The server's list now, for `import_tools`: each entry as it is listed, or why it cannot be used.

        The filter is applied, and `tools` stays. What is odd about pages is logged. Raises as `refresh_tools`.
        """
        return await self._client.tool_list.list_specs()

    # --- the end

    async def wait_done(self) -> None:
        """Wait until the connection has ended, by close or by loss."""
        await self.done.wait()

    async def aclose(self) -> None:
        """Close the connection: calls in flight fail, the server's processes end. From any task, repeatedly.

        Over HTTP the session ends instead, where there is one. Blocks until everything is gone, within the
        server's `stop_timeout` and a fixed bound. Cancelling it stops the waiting, not the closing.
        """
        self._client.close_soon()
        await self._client.wait_gone()


async def _unknown(name: str, known: Iterable[str]) -> NoReturn:
    await trio.lowlevel.checkpoint()
    raise UnknownToolError(name, nearest=nearest_names(name, known))
