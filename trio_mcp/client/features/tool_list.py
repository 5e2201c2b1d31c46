"""The tools of one connection as they are listed now, and what is known of changes since (server/tools).

Listing goes through a callable: this file knows neither the client nor how a request is made.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from ...errors import SkippedToolError
from ...models.tool import ToolSpec
from ...redaction import Redactor
from ...tools.tool import Tool, ToolCaller
from ..feature import Feature
from ..limits import ClientLimits
from ..outgoing.headers import RequestHeaders
from .tool_entries import Entries, choose_tools, judge_entries, list_entries

logger: logging.Logger = logging.getLogger("trio_mcp.client")


class Changes:
    """What one connection has noticed of list changes. Plain counters: notices are many, listings few."""

    def __init__(self) -> None:
        self.noticed: int = 0  # changes so far, certain and possible ones
        self.last_confirmed_change: int = 0  # the last of them that was a certain one
        self.listed = 0  # the last of them that the current list takes into account
        self.closed: bool = False
        self.acknowledged: trio.Event = trio.Event()  # the server tells of changes now, or never will
        self.moved: trio.lowlevel.ParkingLot = trio.lowlevel.ParkingLot()

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
        """The server tells of changes from now on. Whether the list changed since it was read, nobody can say."""
        self.acknowledged.set()
        self.mark_maybe_stale()

    def close(self) -> None:
        """No change will be noticed any more."""
        self.closed = True
        self.acknowledged.set()
        self.moved.unpark_all()


class ToolList:
    """The tools of one connection.

    `wanted` keeps only these names of the server's, None keeps all; `list_page` asks for one page, by the encoded
    members of its params.
    """

    def __init__(
        self,
        server_name: str,
        wanted: frozenset[str] | None,
        list_page: Callable[[bytes], Awaitable[bytes]],
        redactor: Redactor,
        limits: ClientLimits,
    ) -> None:
        self.wanted = wanted
        self.tools: tuple[Tool, ...] = ()
        self.warnings: tuple[str, ...] = ()
        self.changes: Changes = Changes()
        #: What the tools call through.
        self.caller: ToolCaller
        #: Whether the server offers tools at all.
        self.is_offered = False
        #: What has to know which arguments a tool wants to see in headers; only modern, over HTTP.
        self.headers: RequestHeaders | None = None
        self._server_name = server_name
        self._list_page = list_page
        self._redactor = redactor
        self._limits = limits
        self._listing = trio.Lock()

    @property
    def feature(self) -> Feature:
        """The notifications that tell of changes."""
        return Feature(
            notifications={
                "notifications/tools/list_changed": lambda _: self.changes.notice(),
                "notifications/subscriptions/acknowledged": lambda _: self.changes.acknowledge(),
            }
        )

    async def refresh(self) -> None:
        """List the tools again, every page; see `Connection.refresh_tools`."""
        if not self.is_offered:
            self.warnings = self._not_declared()
            await trio.lowlevel.checkpoint()
            return
        async with self._listing:
            await self._refresh()

    async def catch_up(self) -> None:
        """List again unless somebody else has done so since the last change."""
        async with self._listing:
            if self.changes.is_behind and self.is_offered:
                await self._refresh()

    async def list_specs(self) -> tuple[ToolSpec | SkippedToolError, ...]:
        """List the tools and keep nothing; see `Connection.list_specs`."""
        if not self.is_offered:
            for warning in self._not_declared():
                logger.warning('server "%s": %s', self._server_name, warning)
            await trio.lowlevel.checkpoint()
            return ()
        listed = await self._list()
        for warning in listed.warnings:
            logger.warning('server "%s": %s', self._server_name, warning)
        return await self._judge(listed)

    def _not_declared(self) -> tuple[str, ...]:
        """Warnings about a server that declares no tools: its list is never asked for, though it may have one."""
        if self.wanted is not None and not self.wanted:
            return ()
        missing = [f'tool "{name}" is not offered by the server' for name in sorted(self.wanted or ())]
        return ("the server declares no tools in its capabilities, so that none were listed", *missing)

    async def _refresh(self) -> None:
        noticed = self.changes.noticed
        listed = await self._list()
        judged = await self._judge(listed)
        tools, warnings = choose_tools(judged, self.caller, self._server_name, self.wanted, self._redactor)
        self.tools, self.warnings = tools, listed.warnings + warnings
        self.changes.listed = noticed

    async def _list(self) -> Entries:
        return await list_entries(
            self._list_page, self._redactor, max_pages=self._limits.max_pages, max_entries=self._limits.max_entries
        )

    async def _judge(self, listed: Entries) -> tuple[ToolSpec | SkippedToolError, ...]:
        return await judge_entries(listed.entries, self.wanted, self.headers, self._redactor)
