"""The client of one server, from its start to its end: what stands behind a `Connection`.

Joins the parts of a connection (requests, features, the list of tools, recovery) and knows both eras, but no
transport: the one it is given moves requests and answers. opening.py begins and ends its life.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import attrs
import trio

from ..errors import MCPError, RequestError, ServerStoppedError
from ..models.server import Server
from ..protocol.messages import Id
from ..protocol.negotiation import Agreed
from ..protocol.revisions import META_LOG_LEVEL, request_meta
from ..redaction import NOTHING_SECRET
from ..tools.tool import ToolCaller
from ..transports.base import Handlers, Transport
from ..transports.lines.transport import StreamTransport
from .feature import FeatureTable
from .features.log_messages import log_messages
from .features.tool_list import ToolList
from .features.tool_watch import ToolWatches
from .incoming.answering import PendingAnswers, answer_round
from .incoming.inbound import Inbound
from .limits import ClientLimits
from .negotiating import initialize_again
from .options import Options
from .outgoing.headers import RequestHeaders
from .outgoing.meta import RequestMeta
from .outgoing.requests import Requests
from .recovery import Recovery, SessionRenewal, correct

logger: logging.Logger = logging.getLogger("trio_mcp.client")


class Client:
    """One server as the package sees it.

    Attributes:
        agreed: there once the handshake is over.
        done: set when the connection has ended, by close or by loss; `error` is what it was lost by.
        capabilities: what this client declares to its server.
        handlers: what the transport is built with.
    """

    agreed: Agreed

    def __init__(self, server: Server | None, name: str, options: Options) -> None:
        self.server = server
        self.name = name
        self.limits: ClientLimits = options.limits
        self.done: trio.Event = trio.Event()
        self.error: ServerStoppedError | None = None
        self._options = options
        self._transport: Transport
        self._nursery: trio.Nursery
        self._gone = trio.Event()
        redactor = NOTHING_SECRET if server is None else server.redactor
        wanted = None if server is None or server.tools is None else frozenset(server.tools)
        self.tool_list: ToolList = ToolList(name, wanted, self._list_page, redactor, options.limits)
        self.watches: ToolWatches = ToolWatches(
            name, self.tool_list, self._listen, self.start_soon, lambda: self.error, options.limits
        )
        table = FeatureTable((*options.features, log_messages(options.log.put), self.tool_list.feature))
        self.capabilities: dict[str, Any] = table.capabilities
        self._answers = PendingAnswers(
            name, table.requests, self._respond, self.start_soon, options.limits.max_questions
        )
        self._inbound = Inbound(name, table.notifications, self._answers.handle, self._respond, redactor)
        self.requests: Requests = Requests(
            partial(answer_round, table.requests), self._inbound.progress_to, redactor, options.limits
        )
        self.handlers: Handlers = Handlers(
            on_notification=self._inbound.notified, on_request=self._inbound.asked, on_end=self._has_ended
        )

    @property
    def junk(self) -> tuple[str, ...]:
        """What the server has written that is no message, its unfinished line too; empty over HTTP."""
        transport = self._transport
        return transport.unread_lines if isinstance(transport, StreamTransport) else ()

    @property
    def is_echo(self) -> bool:
        """Whether the peer has sent our own requests back."""
        return self._inbound.is_echo

    @property
    def odd_result(self) -> Callable[[str], None]:
        """Takes what is odd in a result, and logs it once."""
        return self._inbound.odd_result

    @property
    def stderr_tail(self) -> str:
        """See `Connection.stderr_tail`."""
        return self._transport.stderr_tail

    # --- the beginning

    def attach(self, transport: Transport, nursery: trio.Nursery, caller: ToolCaller) -> None:
        """Live on this transport, with tasks in this nursery; `caller` is what listed tools call through."""
        self._transport = transport
        self.requests.attach(transport)
        self.tool_list.caller = caller
        self._nursery = nursery
        nursery.start_soon(self._run)

    def agree(self, agreed: Agreed) -> None:
        """Keep what both sides speak, and what the server said of itself."""
        self.agreed = agreed
        self._inbound.era = agreed.era
        tools = agreed.capabilities.get("tools")
        self.tool_list.is_offered = tools is not None and tools is not False  # null is absent
        if agreed.era == "modern":
            meta = request_meta(agreed.version, self._options.client_info, self.capabilities)
            if self._options.wants_log:
                meta[META_LOG_LEVEL] = "debug"
            self.requests.meta = RequestMeta(meta)
            # server/utilities/subscriptions: changes are told only to clients that listen.
            self.watches.must_listen = isinstance(tools, dict) and tools.get("listChanged") is True
        if self.server is not None and self.server.url is not None:
            self._recover_over_http(agreed)
        self._transport.negotiated(agreed.version)
        if agreed.era == "legacy":
            # basic/lifecycle: "the client MUST send an `initialized` notification"
            self._transport.notify("notifications/initialized")

    @trio.lowlevel.disable_ki_protection  # functions of the program, such as that for headers, run here
    async def prepare(self) -> None:
        """Do what comes before the first call: set the log level, if the program listens, and list the tools."""
        await self._ask_for_logs()
        await self.tool_list.refresh()

    def _recover_over_http(self, agreed: Agreed) -> None:
        correct_cause = None
        if agreed.era == "modern":
            self.requests.headers = self.tool_list.headers = RequestHeaders(agreed.version)
            correct_cause = partial(correct, self.tool_list.refresh, agreed.version)
        renewal = SessionRenewal(self._reinitialize, self.start_soon)
        self.requests.recovery = Recovery(self.name, renewal, correct_cause)

    async def _reinitialize(self) -> None:
        """Legacy: make the handshake of a new session, and ask for what the old session had."""
        version = await initialize_again(
            self._transport, self.agreed.version, self._options.client_info, self.capabilities
        )
        self.agreed = attrs.evolve(self.agreed, version=version)
        self.start_soon(self._ask_for_logs_again)
        self.tool_list.changes.mark_maybe_stale()

    async def _ask_for_logs(self) -> None:
        """Legacy: have the server send its log messages, where the program listens."""
        if self.agreed.era == "legacy" and self._options.wants_log and "logging" in self.agreed.capabilities:
            try:
                await self.requests.send("logging/setLevel", b'"level":"debug"')
            except RequestError as error:  # no reason not to open: the server sends what it sends
                logger.warning('server "%s" refuses to set a log level: %s', self.name, error)

    async def _ask_for_logs_again(self) -> None:
        try:
            await self._ask_for_logs()
        except (MCPError, trio.ClosedResourceError) as error:
            logger.warning('server "%s": logging/setLevel failed: %s', self.name, error)

    async def _list_page(self, members: bytes) -> bytes:
        return await self.requests.send("tools/list", members)

    async def _listen(self, members: bytes) -> None:
        await self.requests.send("subscriptions/listen", members, long_lived=True)

    # --- life and end

    def start_soon(self, task: Callable[..., Awaitable[None]], *args: Any) -> bool:
        """Start a task that ends with the connection at the latest; False where that has ended already."""
        if self._gone.is_set():
            return False
        self._nursery.start_soon(task, *args)
        return True

    @trio.lowlevel.enable_ki_protection
    def close_soon(self, *, drain_cancelled: bool = False) -> None:
        """Begin to end; see `Transport.close`."""
        try:
            self._answers.stop()
        finally:
            self._transport.close(drain_cancelled=drain_cancelled)

    async def wait_gone(self) -> None:
        """Wait until nothing of the connection is left."""
        await self._gone.wait()

    @trio.lowlevel.enable_ki_protection
    async def _run(self) -> None:
        try:
            await self._transport.run()
        finally:
            self._gone.set()
            self.done.set()
            self.tool_list.changes.close()

    def _respond(self, id_: Id, answer: bytes | RequestError) -> None:
        self._transport.respond(id_, answer)

    def _has_ended(self, error: Exception | None) -> None:
        if isinstance(error, ServerStoppedError):
            self.error = error
            self.done.set()
        try:
            self._answers.stop()
        finally:
            self.tool_list.changes.close()
