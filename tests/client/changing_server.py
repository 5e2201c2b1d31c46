"""Fake servers of both eras whose list of tools a test changes."""

from __future__ import annotations

import trio

from tests.fakes import LEGACY, MODERN, FakeHost, FakeProcess, Reply
from tests.far_end import Message
from trio_mcp import RequestError, Tool

CHANGED = {"method": "notifications/tools/list_changed"}
ACKNOWLEDGED = {"method": "notifications/subscriptions/acknowledged", "params": {}}


class Listing:
    """A tools/list whose tools a test changes."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.count = 0
        self.error: RequestError | None = None
        self.gate: trio.Event | None = None

    async def __call__(self, process: FakeProcess, message: Message) -> None:
        self.count += 1
        process.tasks.start_soon(self._answer, process, message)

    async def _answer(self, process: FakeProcess, message: Message) -> None:
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in self.names]
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            await process.peer.refuse(message, self.error.code, self.error.message)
        else:
            await process.peer.answer(message, {"tools": tools})


async def acknowledge(process: FakeProcess, _: Message) -> None:
    """A subscription that the server keeps."""
    await process.peer.send(ACKNOWLEDGED)


def legacy(listing: Listing) -> dict[str, Reply]:
    """A legacy server with this listing."""
    return {**LEGACY, "tools/list": listing}


def modern(listing: Listing, listen: Reply = acknowledge) -> dict[str, Reply]:
    """A modern server with this listing, and what it does with those that listen."""
    return {**MODERN, "tools/list": listing, "subscriptions/listen": listen}


def names(tools: tuple[Tool, ...]) -> list[str]:
    """The tools by the server's own names."""
    return [tool.remote_name for tool in tools]


async def change(host: FakeHost, listing: Listing, *to: str) -> None:
    """Change the list, and tell of it."""
    listing.names = list(to)
    await host.processes[-1].peer.send(CHANGED)
