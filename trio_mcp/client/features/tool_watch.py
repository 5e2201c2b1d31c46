"""Follows changes of a server's list of tools, for as long as somebody watches (utilities/subscriptions).

Legacy servers tell of changes unasked. Modern ones tell clients that listen (`subscriptions/listen`): one request,
shared by all watchers of a connection. This file reaches the connection through callables only.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from ...errors import AuthError, MCPError, ProtocolError, RequestError, ServerStoppedError, renewed
from ...tools.tool import Tool
from ..limits import ClientLimits
from .tool_list import ToolList

logger: logging.Logger = logging.getLogger("trio_mcp.client")

_LISTEN = json.dumps({"notifications": {"toolsListChanged": True}})[1:-1].encode()

#: The error that a connection was lost by, while there is one.
LostBy = Callable[[], ServerStoppedError | None]


class ToolWatch:
    """An async iterator of the tuples of `Tool` that a connection has after each change of its list."""

    def __init__(self, tool_list: ToolList, lost_by: LostBy) -> None:
        self._list = tool_list
        self._changes = tool_list.changes
        self._lost_by = lost_by
        self._seen = tool_list.changes.listed
        self._given = tool_list.tools

    def __aiter__(self) -> ToolWatch:
        return self

    async def __anext__(self) -> tuple[Tool, ...]:
        """Wait for the next change; the new tools.

        Raises:
            RequestError, ProtocolError, ServerStoppedError, AuthError: listing failed, and the old list stays; the
                next change can be waited for. Or the connection was lost, and each try raises that.
            StopAsyncIteration: the connection was closed.
        """
        await trio.lowlevel.checkpoint()
        while True:
            error = self._lost_by()
            if error is not None:
                raise renewed(error)
            if self._changes.closed:
                raise StopAsyncIteration
            if self._seen == self._changes.noticed:
                await self._changes.moved.park()
                continue
            certain, noticed = self._changes.last_confirmed_change > self._seen, self._changes.noticed
            try:
                await self._list.catch_up()
            except trio.ClosedResourceError:
                raise StopAsyncIteration from None
            except MCPError:
                self._seen = noticed  # told once; a cancel, though, loses no change
                raise
            self._seen = noticed
            tools = self._list.tools
            if certain or [tool.spec for tool in tools] != [tool.spec for tool in self._given]:
                self._given = tools
                return tools


class ToolWatches:
    """The watchers of one connection, and the request that listens for them.

    `listen` sends `subscriptions/listen` with these encoded members and returns when the server ends it;
    `start_soon` starts a task that ends with the connection at the latest. `must_listen` says that the server
    tells of changes only to clients that listen.
    """

    def __init__(
        self,
        server_name: str,
        tool_list: ToolList,
        listen: Callable[[bytes], Awaitable[object]],
        start_soon: Callable[[Callable[[trio.CancelScope], Awaitable[None]], trio.CancelScope], object],
        lost_by: LostBy,
        limits: ClientLimits,
    ) -> None:
        self.must_listen = False
        self._server_name = server_name
        self._list = tool_list
        self._listen = listen
        self._start_soon = start_soon
        self._lost_by = lost_by
        self._limits = limits
        self._watchers = 0
        self._listening: trio.CancelScope | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[ToolWatch]:
        """One watcher. The first of a modern connection starts to listen, the end of the last one stops it."""
        await trio.lowlevel.checkpoint_if_cancelled()
        changes = self._list.changes
        self._watchers += 1
        if self._watchers == 1 and self.must_listen and not changes.closed:
            self._listening = trio.CancelScope()
            changes.acknowledged = trio.Event()
            self._start_soon(self._keep_listening, self._listening)
        try:
            if self._listening is None:
                await trio.lowlevel.checkpoint()
            else:
                with trio.move_on_after(self._limits.acknowledge_patience):
                    await changes.acknowledged.wait()
            yield ToolWatch(self._list, self._lost_by)
        finally:
            self._watchers -= 1
            if self._watchers == 0 and self._listening is not None:
                self._listening.cancel()
                self._listening = None

    @trio.lowlevel.enable_ki_protection
    async def _keep_listening(self, scope: trio.CancelScope) -> None:
        changes = self._list.changes
        first, longest = self._limits.first_listen_pause, self._limits.longest_listen_pause
        pause = first
        with scope:
            while True:
                began = trio.current_time()
                try:
                    # utilities/subscriptions: the answer comes when the server ends the subscription.
                    await self._listen(_LISTEN)
                except (RequestError, ProtocolError, AuthError):  # no subscriptions here: it never tells
                    changes.acknowledged.set()
                    return
                except ServerStoppedError as error:
                    # Over HTTP a stream may break, and a later one work; the list may have changed meanwhile.
                    is_refusal = error.status is not None and 400 <= error.status < 500
                    if changes.closed or is_refusal:
                        changes.acknowledged.set()
                        return
                except trio.ClosedResourceError:
                    return
                except Exception:  # the function that makes the headers of an HTTP server
                    logger.exception('server "%s": changes of its tools are not noticed', self._server_name)
                    changes.acknowledged.set()
                    return
                if trio.current_time() - began > longest:
                    pause = first
                await trio.sleep(pause)
                pause = min(2 * pause, longest)
