"""`served`: a stdio transport over a process that is none, for tests of its timing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from tests.fakes import POLITE, FakeProcess, Manners
from tests.far_end import Heard, Talk
from trio_mcp.errors import ServerStoppedError
from trio_mcp.models.server import Server
from trio_mcp.transports.limits import LineLimits
from trio_mcp.transports.stdio.transport import StdioTransport

#: Seconds that the server has to exit by itself.
STOP_TIMEOUT = 5.0
SERVER = Server("s", command="/bin/server", args=("--token", "s3cret-s3cret"), stop_timeout=STOP_TIMEOUT)


@attrs.define
class Served(Talk):
    """A stdio transport that runs, and the process that is none."""

    process: FakeProcess
    lines: list[str]
    gone: trio.Event = attrs.Factory(trio.Event)

    async def error(self) -> ServerStoppedError:
        """What a new call, and so every call, fails with."""
        outcome = await self.start().outcome()
        assert isinstance(outcome, ServerStoppedError)
        return outcome


@pytest.fixture
def served() -> Any:
    @asynccontextmanager
    async def serve(
        leader: Manners = POLITE, *children: Manners, lines: LineLimits | None = None
    ) -> AsyncIterator[Served]:
        process = FakeProcess(leader, children)

        async def start_process(*_: object) -> FakeProcess:
            await trio.lowlevel.checkpoint()
            return process

        heard, said = Heard(), list[str]()
        with trio.fail_after(100):
            transport = await StdioTransport.start(
                SERVER, heard.handlers, said.append, lines=lines, start_process=start_process
            )
            async with trio.open_nursery() as nursery:
                served = Served(transport, process.peer, heard, nursery, process, said)

                async def run() -> None:
                    await transport.run()
                    served.gone.set()

                nursery.start_soon(run)
                try:
                    yield served
                finally:
                    transport.close()

    return serve
