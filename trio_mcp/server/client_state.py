"""What a server remembers of one client from one request to the next. Knows no method and no transport."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from .registry import ToolServer
from .request_state import RequestState


class ClientState:
    """One client of a `ToolServer`.

    Requests of the modern era leave nothing behind in it: all clients of that era may share one.

    Attributes:
        server: what the client is served.
        announce: sends a notification that belongs to no request; legacy clients hear of changes by it.
        request_state: signs what a modern client carries between the rounds of a call.
        version: the revision that `initialize` agreed on; None before, and for modern clients.
        client_info: what a legacy client says it is.
        capabilities: what a legacy client offers.
        log_level: the least level of log messages that a legacy client wants.
        closing: set when the client will send nothing more: subscriptions end, with an answer.
    """

    def __init__(
        self,
        server: ToolServer,
        announce: Callable[[str, bytes], None],
        request_state: RequestState,
    ) -> None:
        self.server = server
        self.announce = announce
        self.request_state = request_state
        self.version: str | None = None
        self.client_info: dict[str, Any] | None = None
        self.capabilities: dict[str, Any] = {}
        self.log_level = "info"
        self.closing: trio.Event = trio.Event()

    def __repr__(self) -> str:
        return f"<ClientState at {self.server!r}, {self.version or 'no initialize'}>"

    def close(self) -> None:
        """Announce nothing more, and end the client's subscriptions."""
        self.server.changes.unlisten(self)
        self.closing.set()
