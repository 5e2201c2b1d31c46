"""A connection to one server: its tools, its calls, its end.

Knows both eras, and no transport: what it is given moves requests and answers. Its life belongs to opening.py.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import trio

from ..errors import (
    InvalidArgumentsError,
    RequestError,
    ServerStoppedError,
    UnknownToolError,
)
from ..models.result import ToolResult, read_any_result, read_call_result
from ..protocol.arguments import encode_arguments
from ..protocol.messages import Id, Undecoded, encode_any
from ..protocol.versions import META_LOG_LEVEL, Agreed, request_meta
from ..redaction import NOTHING_SECRET
from ..tools.context import OnProgress
from ..tools.tool import Arguments, Tool
from ..transports.base import Handlers, Transport
from .asking import Asking
from .headers import RequestHeaders
from .inbound import Inbound
from .listing import Entries, choose_tools, list_entries
from .mending import is_corrected, reopen_session
from .meta import RequestMeta
from .requests import Requests, Statistics
from .watching import Changes, ToolWatch, watching

logger = logging.getLogger("trio_mcp.client")

if TYPE_CHECKING:
    from ..models.server import Server
    from .options import Options


class Connection:
    """One server, open. Made by `open_connection`, `connect` and `open_connections`, which also end it.

    Attributes:
        server: as configured; None for a server in this process.
        name: the server's name, as configured.
        server_info: what the server says it is: name, version and more; empty when it does not say.
        capabilities: what it offers, as the specification lists it.
        protocol_version: the revision that both sides speak.
        instructions: what the server tells models about itself, or None.
        done: a `trio.Event`, set when the connection has ended, by close or by loss.
    """

    server_info: dict[str, Any]
    capabilities: dict[str, Any]
    protocol_version: str
    instructions: str | None

    def __init__(self, server: Server | None, name: str, options: Options) -> None:
        self.server = server
        self.name = name
        self.done = trio.Event()
        self._options = options
        #: The names that `Server.tools` keeps; None keeps all.
        self.wanted = None if server is None or server.tools is None else frozenset(server.tools)
        self._transport: Transport
        self._nursery: trio.Nursery
        self._tools: tuple[Tool, ...] = ()
        self._warnings: tuple[str, ...] = ()
        self._relisting = trio.Lock()
        self._changes = Changes()
        self._error: ServerStoppedError | None = None
        self._gone = trio.Event()
        self._asking = Asking(options.elicitor, self._respond, self.start_soon)
        elicit = self._asking.asked if options.elicitor.capabilities else None
        self._redactor = NOTHING_SECRET if server is None else server.redactor
        self._inbound = Inbound(name, self._changes, options.log, self._respond, elicit, self._redactor)
        self._requests = Requests(options.elicitor, self._inbound, self._redactor)
        #: What the transport is built with.
        self.handlers = Handlers(
            on_notification=self._inbound.notified,
            on_request=self._inbound.asked,
            on_end=self._has_ended,
            reinitialize=self._reinitialize,
        )

    def __repr__(self) -> str:
        state = "ended" if self.done.is_set() else "open"
        version = getattr(self, "protocol_version", "not agreed")
        return f"<Connection {self.name!r} {version} {state}, {len(self._tools)} tools>"

    # --- what is known of the server

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The server's tools, every page listed, the filter applied, in the order of the server."""
        return self._tools

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was odd about the last listing: filtered names not offered, tools skipped and why, odd pages."""
        return self._warnings

    @property
    def error(self) -> ServerStoppedError | None:
        """The error that ended the connection; None while it is open, and after a plain close."""
        return self._error

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB of a server process's stderr, as text; bytes that are no UTF-8 show as U+FFFD."""
        return self._transport.stderr_tail

    def statistics(self) -> Statistics:
        """Counts since the connection was opened."""
        return self._requests.statistics()

    # --- calls

    async def call_tool(
        self,
        name: str,
        arguments: Arguments = None,
        *,
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
            on_progress: `async (progress, total, message)`, run in this task, in the order of the wire, all of it
                before this returns. It can be cancelled, and what it raises ends the call.
            meta: more members for the request's `_meta`.

        Raises:
            UnknownToolError: the configured filter hides that name; nothing was sent.
            InvalidArgumentsError: the arguments are not one JSON object; nothing was sent.
            RequestError: the server answered with a JSON-RPC error.
            ProtocolError: the answer is none; the server is at fault.
            ServerStoppedError: the server went away.
            trio.ClosedResourceError: the connection was closed here.

        Example:
            >>> async def noon(connection):
            ...     result = await connection.call_tool("get_current_time", {"timezone": "Europe/Rome"})
            ...     return result.content
        """
        return (await self._calling(name, arguments, on_progress, meta))[1]

    async def call_tool_raw(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> tuple[bytes, ToolResult]:
        """Call a tool as `call_tool` does; the JSON of its result as the server sent it, and the result."""
        data, result = await self._calling(name, arguments, on_progress, meta)
        return bytes(data), result

    def _calling(
        self, name: str, arguments: Arguments, on_progress: OnProgress | None, meta: Mapping[str, Any] | None
    ) -> Awaitable[tuple[Undecoded, ToolResult]]:
        """What is to be awaited for a call. No coroutine of its own: each is held while it waits."""
        if type(name) is not str:
            raise TypeError(f"name: expected str, got {type(name).__name__}")
        if self.wanted is not None and name not in self.wanted:
            return _unknown(name)
        members = (b'"name":%b,"arguments":' % encode_any(name), encode_arguments(name, arguments))
        return self._requests.call(
            "tools/call", members, name, read_call_result, meta=meta, on_progress=on_progress
        )

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send any MCP request; its result, decoded. Resources, prompts and completion need nothing more.

        Args:
            method: such as "resources/read".
            params: a mapping of JSON values. A `_meta` in it is sent beside what the revision demands there.

        Raises:
            InvalidArgumentsError: `params` is no mapping of JSON values; nothing was sent.
            RequestError, ProtocolError, ServerStoppedError, trio.ClosedResourceError: as `call_tool`.

        Example:
            >>> async def resources(connection):
            ...     return (await connection.request("resources/list"))["resources"]
        """
        if type(method) is not str:
            raise TypeError(f"method: expected str, got {type(method).__name__}")
        if params is not None and not isinstance(params, Mapping):
            raise InvalidArgumentsError(method, f"expected a mapping, got {type(params).__name__}")
        members = dict(params or {})
        meta = members.pop("_meta", None)
        if meta is not None and not isinstance(meta, Mapping):
            raise InvalidArgumentsError(method, f"_meta: expected a mapping, got {type(meta).__name__}")
        encoded = encode_arguments(method, members)[1:-1]
        return (await self._requests.call(method, encoded, method, partial(read_any_result, method), meta=meta))[1]

    # --- the list of tools

    async def refresh_tools(self) -> None:
        """List the tools again, every page; replace `tools` and `warnings`.

        Raises:
            RequestError, ProtocolError, ServerStoppedError, trio.ClosedResourceError: the listing failed; the
                previous list stays.
        """
        if "tools" not in self.capabilities:
            await trio.lowlevel.checkpoint()
            return
        async with self._relisting:
            await self._relist()

    async def catch_up(self) -> None:
        """List again unless somebody else has done so since the last change."""
        async with self._relisting:
            if self._changes.is_behind and "tools" in self.capabilities:
                await self._relist()

    async def _relist(self) -> None:
        noticed = self._changes.noticed
        listed = await self._list()
        tools, warnings = await choose_tools(listed.entries, self, self.name, self.wanted, self.headers)
        self._tools, self._warnings = tools, listed.warnings + warnings
        self._changes.listed = noticed

    async def _list(self) -> Entries:
        ask = partial(self._requests.send, "tools/list", name="tools/list")
        return await list_entries(ask, self._redactor)

    def watch_tools(self) -> AbstractAsyncContextManager[ToolWatch]:
        """Follow changes of the list: a context manager that gives an async iterator of tuples of `Tool`.

        After each change (many at once count as one) `tools` is replaced and the new tuple is given out; changes
        since the last listing come first. A listing that fails is raised from the iterator, and the old list
        stays. The iterator ends when the connection is closed.

        Raises:
            ServerStoppedError: from the iterator, when the connection is lost.

        Example:
            >>> async def follow(connection):
            ...     async with connection.watch_tools() as changes:
            ...         async for tools in changes:
            ...             print([tool.name for tool in tools])
        """
        return watching(self, self._changes)

    # --- for import_tools, with `wanted`: see `ToolSource`

    @property
    def headers(self) -> RequestHeaders | None:
        """What knows the headers of requests: modern, over HTTP."""
        return self._requests.headers

    async def list_entries(self) -> tuple[bytes, ...]:
        """Every entry of the server's list now, as JSON; `tools` stays. What is odd about pages is logged."""
        if "tools" not in self.capabilities:
            await trio.lowlevel.checkpoint()
            return ()
        listed = await self._list()
        for warning in listed.warnings:
            logger.warning('server "%s": %s', self.name, warning)
        return listed.entries

    # --- the end

    async def wait_done(self) -> None:
        """Wait until the connection has ended, by close or by loss."""
        await self.done.wait()

    async def aclose(self) -> None:
        """Close the connection: calls in flight fail, the server's processes end. From any task, repeatedly.

        Blocks until everything is gone, within the server's `stop_timeout` and a fixed bound. Cancelling it
        stops the waiting, not the closing.
        """
        self.close_soon()
        await self._gone.wait()

    # --- for watching.py

    @property
    def must_listen(self) -> bool:
        """Whether changes of the list are told only to who listens."""
        tools = self.capabilities.get("tools")
        return self._inbound.era == "modern" and isinstance(tools, dict) and tools.get("listChanged") is True

    async def listen(self, members: bytes) -> None:
        """Listen for changes until the server ends it."""
        await self._requests.send("subscriptions/listen", members, "subscriptions/listen", standing=True)

    def start_soon(self, task: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Start a task that ends with the connection at the latest."""
        if not self._gone.is_set():
            self._nursery.start_soon(task, *args)

    # --- for opening.py

    def attach(self, transport: Transport, nursery: trio.Nursery) -> None:
        """Live on this transport, with tasks in this nursery."""
        self._transport = transport
        self._requests.attach(transport)
        self._nursery = nursery
        nursery.start_soon(self._run)

    def agree(self, agreed: Agreed) -> None:
        """What both sides speak, and what the server said of itself."""
        self._inbound.era = agreed.era
        self.server_info = agreed.server_info
        self.capabilities = agreed.capabilities
        self.protocol_version = agreed.version
        self.instructions = agreed.instructions
        if agreed.era == "modern":
            options = self._options
            meta = request_meta(agreed.version, options.client_info, options.elicitor.capabilities)
            if options.wants_log:
                meta[META_LOG_LEVEL] = "debug"
            self._requests.meta = RequestMeta(meta)
            if self.server is not None and self.server.url is not None:
                self._requests.headers = RequestHeaders(agreed.version)
                self._requests.correct = partial(is_corrected, self)
        self._transport.negotiated(agreed.version)
        if agreed.era == "legacy":
            # basic/lifecycle: "the client MUST send an `initialized` notification"
            self._transport.notify("notifications/initialized")

    async def prepare(self) -> None:
        """What comes before the first call: the log level, where somebody listens, and the list of tools."""
        await self.ask_for_logs()
        await self.refresh_tools()

    async def ask_for_logs(self) -> None:
        """Legacy: have the server send its log messages, where somebody listens."""
        if self._inbound.era == "legacy" and self._options.wants_log and "logging" in self.capabilities:
            try:
                await self._requests.send("logging/setLevel", b'"level":"debug"', "logging/setLevel")
            except RequestError as error:  # no reason not to open: it sends what it sends
                logger.warning('server "%s" refuses to set a log level: %s', self.name, error)

    def close_soon(self, *, let_leave: bool = False) -> None:
        """Begin to end; see `Transport.close`."""
        self._asking.stop()
        self._transport.close(let_leave=let_leave)

    async def wait_gone(self) -> None:
        """Wait until nothing of the connection is left."""
        await self._gone.wait()

    async def _reinitialize(self) -> None:
        await reopen_session(self, self._transport, self._options)
        self._changes.doubt()

    @trio.lowlevel.enable_ki_protection
    async def _run(self) -> None:
        try:
            await self._transport.run()
        finally:
            self._changes.close()
            self._gone.set()
            self.done.set()

    def _respond(self, id_: Id, answer: bytes | RequestError) -> None:
        self._transport.respond(id_, answer)

    def _has_ended(self, error: Exception | None) -> None:
        if isinstance(error, ServerStoppedError):
            self._error = error
            self.done.set()
        self._asking.stop()
        self._changes.close()


async def _unknown(name: str) -> NoReturn:
    await trio.lowlevel.checkpoint()
    raise UnknownToolError(name)
