"""One client of one server, from its start to its end: what stands behind a `Connection`.

Everything that the package does with a connection and its users do not is here. Knows both eras, and no transport:
what it is given moves requests and answers. Its life belongs to opening.py.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from ..errors import RequestError, ServerStoppedError, SkippedToolError
from ..models.tool import ToolSpec
from ..protocol.messages import Id
from ..protocol.negotiation import Agreed
from ..protocol.revisions import META_LOG_LEVEL, request_meta
from ..redaction import NOTHING_SECRET
from ..tools.tool import Tool
from ..transports.base import Handlers, Transport
from .connection import Connection
from .features.questions import PendingElicitations
from .features.tool_watch import Changes
from .features.tools import Entries, choose_tools, judge_entries, list_entries
from .headers import RequestHeaders
from .inbound import Inbound
from .meta import RequestMeta
from .recovery import correct, reopen_session
from .requests import Requests

if TYPE_CHECKING:
    from ..models.server import Server
    from .options import Options

logger = logging.getLogger("trio_mcp.client")


class Client:
    """One server as the package sees it. `connection` is the same as programs see it.

    `agreed` is there once the handshake is over; `done` is set when the connection has ended, by close or by loss,
    and `error` is what it was lost by; `wanted` holds the names that `Server.tools` keeps, None keeps all;
    `handlers` are what the transport is built with.
    """

    agreed: Agreed

    def __init__(self, server: Server | None, name: str, options: Options) -> None:
        self.server = server
        self.name = name
        self.wanted = None if server is None or server.tools is None else frozenset(server.tools)
        self.tools: tuple[Tool, ...] = ()
        self.warnings: tuple[str, ...] = ()
        self.changes = Changes()
        self.done = trio.Event()
        self.error: ServerStoppedError | None = None
        self._options = options
        self._transport: Transport
        self._nursery: trio.Nursery
        self._relisting = trio.Lock()
        self._gone = trio.Event()
        self._elicitations = PendingElicitations(options.elicitor, self._respond, self.start_soon)
        elicit = self._elicitations.handle if options.elicitor.capabilities else None
        self._redactor = NOTHING_SECRET if server is None else server.redactor
        self._inbound = Inbound(name, self.changes, options.log, self._respond, elicit, self._redactor)
        self.requests = Requests(options.elicitor, self._inbound, self._redactor)
        self.handlers = Handlers(
            on_notification=self._inbound.notified,
            on_request=self._inbound.asked,
            on_end=self._has_ended,
            reinitialize=self._reinitialize,
        )
        self.connection = Connection(self)

    @property
    def stderr_tail(self) -> str:
        """See `Connection.stderr_tail`."""
        return self._transport.stderr_tail

    # --- the beginning

    def attach(self, transport: Transport, nursery: trio.Nursery) -> None:
        """Live on this transport, with tasks in this nursery."""
        self._transport = transport
        self.requests.attach(transport)
        self._nursery = nursery
        nursery.start_soon(self._run)

    def agree(self, agreed: Agreed) -> None:
        """What both sides speak, and what the server said of itself."""
        self.agreed = agreed
        self._inbound.era = agreed.era
        if agreed.era == "modern":
            options = self._options
            meta = request_meta(agreed.version, options.client_info, options.elicitor.capabilities)
            if options.wants_log:
                meta[META_LOG_LEVEL] = "debug"
            self.requests.meta = RequestMeta(meta)
            if self.server is not None and self.server.url is not None:
                self.requests.headers = RequestHeaders(agreed.version)
                self.requests.correct = partial(correct, self)
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
        if self.agreed.era == "legacy" and self._options.wants_log and "logging" in self.agreed.capabilities:
            try:
                await self.requests.send("logging/setLevel", b'"level":"debug"', "logging/setLevel")
            except RequestError as error:  # no reason not to open: it sends what it sends
                logger.warning('server "%s" refuses to set a log level: %s', self.name, error)

    async def _reinitialize(self) -> None:
        await reopen_session(self, self._transport, self._options)
        self.changes.mark_maybe_stale()

    # --- the list of tools

    async def refresh_tools(self) -> None:
        """See `Connection.refresh_tools`."""
        if "tools" not in self.agreed.capabilities:
            await trio.lowlevel.checkpoint()
            return
        async with self._relisting:
            await self._relist()

    async def catch_up(self) -> None:
        """List again unless somebody else has done so since the last change."""
        async with self._relisting:
            if self.changes.is_behind and "tools" in self.agreed.capabilities:
                await self._relist()

    async def list_specs(self) -> tuple[ToolSpec | SkippedToolError, ...]:
        """See `Connection.list_specs`."""
        if "tools" not in self.agreed.capabilities:
            await trio.lowlevel.checkpoint()
            return ()
        listed = await self._list()
        for warning in listed.warnings:
            logger.warning('server "%s": %s', self.name, warning)
        return await self._judge(listed)

    async def _relist(self) -> None:
        noticed = self.changes.noticed
        listed = await self._list()
        tools, warnings = choose_tools(await self._judge(listed), self.connection, self.name, self.wanted)
        self.tools, self.warnings = tools, listed.warnings + warnings
        self.changes.listed = noticed

    async def _list(self) -> Entries:
        ask = partial(self.requests.send, "tools/list", name="tools/list")
        return await list_entries(ask, self._redactor)

    async def _judge(self, listed: Entries) -> tuple[ToolSpec | SkippedToolError, ...]:
        return await judge_entries(listed.entries, self.wanted, self.requests.headers)

    # --- its changes, for watching.py

    @property
    def must_listen(self) -> bool:
        """Whether changes of the list are told only to who listens."""
        tools = self.agreed.capabilities.get("tools")
        return self.agreed.era == "modern" and isinstance(tools, dict) and tools.get("listChanged") is True

    async def listen(self, members: bytes) -> None:
        """Listen for changes until the server ends it."""
        await self.requests.send("subscriptions/listen", members, "subscriptions/listen", long_lived=True)

    # --- life and end

    def start_soon(self, task: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Start a task that ends with the connection at the latest."""
        if not self._gone.is_set():
            self._nursery.start_soon(task, *args)

    def close_soon(self, *, drain_cancelled: bool = False) -> None:
        """Begin to end; see `Transport.close`."""
        self._elicitations.stop()
        self._transport.close(drain_cancelled=drain_cancelled)

    async def wait_gone(self) -> None:
        """Wait until nothing of the connection is left."""
        await self._gone.wait()

    @trio.lowlevel.enable_ki_protection
    async def _run(self) -> None:
        try:
            await self._transport.run()
        finally:
            self.changes.close()
            self._gone.set()
            self.done.set()

    def _respond(self, id_: Id, answer: bytes | RequestError) -> None:
        self._transport.respond(id_, answer)

    def _has_ended(self, error: Exception | None) -> None:
        if isinstance(error, ServerStoppedError):
            self.error = error
            self.done.set()
        self._elicitations.stop()
        self.changes.close()
