"""Who wants to know when a server's list of tools changes, and what has been noticed.

Legacy servers tell unasked. Modern ones tell who listens (`subscriptions/listen`): one request, shared by all
watchers of a connection, for as long as there are any.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from ...errors import AuthError, MCPError, ProtocolError, RequestError, ServerStoppedError, renewed

if TYPE_CHECKING:
    from ...tools.tool import Tool
    from ..client import Client

logger = logging.getLogger("trio_mcp.client")

#: Seconds before a listen request that the server ended is made again: doubled each time, up to the second.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
#: Seconds that a server gets to acknowledge that it tells of changes, before the watcher goes on without.
ACKNOWLEDGE_PATIENCE = 2.0

_LISTEN = json.dumps({"notifications": {"toolsListChanged": True}})[1:-1].encode()


class Changes:
    """What one connection has noticed of list changes. Plain counters: notices are many, relistings few."""

    def __init__(self) -> None:
        self.noticed = 0  # changes, and doubts, so far
        self.last_confirmed_change = 0  # the last of them that was a change
        self.listed = 0  # the last of them that the current list takes into account
        self.closed = False
        self.watchers = 0
        self.listening: trio.CancelScope | None = None
        self.settled = trio.Event()  # the server has acknowledged the listening, or will not
        self.moved = trio.lowlevel.ParkingLot()

    @property
    def is_behind(self) -> bool:
        """Whether the current list may be out of date."""
        return self.listed < self.noticed

    def notice(self) -> None:
        """The list has changed."""
        self.mark_maybe_stale()
        self.last_confirmed_change = self.noticed

    def mark_maybe_stale(self) -> None:
        """The list may have changed."""
        self.noticed += 1
        self.moved.unpark_all()

    def acknowledge(self) -> None:
        """The server tells of changes from now on. What changed since the listing, nobody can say."""
        self.settled.set()
        self.mark_maybe_stale()

    def close(self) -> None:
        """Nothing more will come."""
        self.closed = True
        self.settled.set()
        self.moved.unpark_all()


class ToolWatch:
    """An async iterator of the tuples of `Tool` that a connection has after each change of its list."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changes = client.changes
        self._seen = client.changes.listed
        self._given = client.tools

    def __aiter__(self) -> ToolWatch:
        return self

    async def __anext__(self) -> tuple[Tool, ...]:
        """Wait for the next change; the new tools.

        Raises:
            RequestError, ProtocolError, ServerStoppedError, AuthError: listing failed, and the old list stays; the
                next change can be waited for. Or the connection was lost, and each try raises that.
            StopAsyncIteration: it was closed.
        """
        await trio.lowlevel.checkpoint()
        while True:
            if self._client.error is not None:
                raise renewed(self._client.error)
            if self._changes.closed:
                raise StopAsyncIteration
            if self._seen == self._changes.noticed:
                await self._changes.moved.park()
                continue
            certain, noticed = self._changes.last_confirmed_change > self._seen, self._changes.noticed
            try:
                await self._client.catch_up()
            except trio.ClosedResourceError:
                raise StopAsyncIteration from None
            except MCPError:
                self._seen = noticed  # told once; a cancel, though, loses no change
                raise
            self._seen = noticed
            tools = self._client.tools
            if certain or [tool.spec for tool in tools] != [tool.spec for tool in self._given]:
                self._given = tools
                return tools


@asynccontextmanager
async def watching(client: Client) -> AsyncIterator[ToolWatch]:
    """The context of one watcher; the first one of a modern connection starts to listen, the last one ends it."""
    changes = client.changes
    changes.watchers += 1
    if changes.watchers == 1 and client.must_listen and not changes.closed:
        changes.listening = trio.CancelScope()
        changes.settled = trio.Event()
        client.start_soon(_listen, client, changes.listening)
    try:
        if changes.listening is not None:
            with trio.move_on_after(ACKNOWLEDGE_PATIENCE):
                await changes.settled.wait()
        yield ToolWatch(client)
    finally:
        changes.watchers -= 1
        if changes.watchers == 0 and changes.listening is not None:
            changes.listening.cancel()
            changes.listening = None


@trio.lowlevel.enable_ki_protection
async def _listen(client: Client, scope: trio.CancelScope) -> None:
    changes, pause = client.changes, FIRST_PAUSE
    with scope:
        while True:
            began = trio.current_time()
            try:
                # utilities/subscriptions: the answer comes when the server ends the subscription.
                await client.listen(_LISTEN)
            except (RequestError, ProtocolError, AuthError):  # it offers no subscriptions: it never tells
                changes.settled.set()
                return
            except ServerStoppedError as error:
                # Over HTTP a stream may break, and a later one work; what came between is in doubt.
                is_refusal = error.status is not None and 400 <= error.status < 500
                if changes.closed or is_refusal:
                    changes.settled.set()
                    return
            except trio.ClosedResourceError:
                return
            except Exception:  # the function that makes the headers of an HTTP server
                logger.exception('server "%s": changes of its tools are not noticed', client.name)
                changes.settled.set()
                return
            if trio.current_time() - began > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
