"""Turns of calls, for tests: tools that wait inside until they are let out, and the calls of them.

A `Hall` has two tools on a server, `read` (parallel-safe) and `write` (sequential), each called with `who` comes:
`hall.log` tells who came and went, in order, and nobody leaves before `hall.let_out(who)`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import trio
from attrs import define, evolve, field

from trio_mcp import Policy, Tool, Toolbox, ToolCall, ToolOutcome, tool
from trio_mcp.protocol.revisions import Era
from trio_mcp.testing import open_functions


@define(eq=False)
class Hall:
    """Who is inside, and who has been."""

    log: list[str] = field(factory=list)
    doors: dict[str, trio.Event] = field(factory=lambda: defaultdict(trio.Event))

    def let_out(self, *names: str) -> None:
        """Open the door for these, now or when they come."""
        for name in names:
            self.doors[name].set()

    async def _visit(self, who: str) -> str:
        self.log.append(f"{who} came")
        end = "was cancelled"
        try:
            await self.doors[who].wait()
            end = "went"
        finally:
            self.log.append(f"{who} {end}")
        return f"{who} was here"

    @property
    def tools(self) -> tuple[Tool, Tool]:
        """`read` and `write`, as local tools."""

        @tool(read_only=True)
        async def read(who: str) -> str:
            return await self._visit(who)

        @tool
        async def write(who: str) -> str:
            return await self._visit(who)

        return read, write


@asynccontextmanager
async def open_toolbox(
    *tools: Any, policy: Policy | None = None, era: Era = "modern"
) -> AsyncIterator[tuple[Toolbox, Any]]:
    """A toolbox of the tools of a server that has these, under the names that the server uses; its connection."""
    async with open_functions(*tools, protocol=era) as connection:
        found = [renamed(one, policy) for one in connection.tools]
        yield Toolbox(found), connection


def renamed(one: Tool, policy: Policy | None = None) -> Tool:
    """A server's tool under the server's own name for it: short, as in the table of texts."""
    return evolve(one, name=one.remote_name, policy=policy or one.policy)


def calls(*wanted: str | tuple[str, Any]) -> list[ToolCall]:
    """Calls with the ids "1", "2" and so on: "read alice", or a tool's name and arguments."""
    made = []
    for number, call in enumerate(wanted, 1):
        if isinstance(call, str):
            name, _, who = call.partition(" ")
            call = name, {"who": who} if who else None
        made.append(ToolCall(str(number), *call))
    return made


async def run_one(toolbox: Toolbox | Tool, name: str, arguments: Any = None, **options: Any) -> ToolOutcome:
    """The outcome of one call, within 10 seconds."""
    if isinstance(toolbox, Tool):
        toolbox = Toolbox([toolbox])
    with trio.fail_after(10):
        (outcome,) = await toolbox.run([ToolCall("1", name, arguments)], **options)
    return outcome


def texts(outcomes: Iterable[ToolOutcome]) -> list[str]:
    """What a model reads of each."""
    return [outcome.content for outcome in outcomes]
