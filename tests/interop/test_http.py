"""The same servers over Streamable HTTP: every tool, in each mode and era, questions, changes, many calls."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from tests.interop import node_servers, python_servers
from tests.interop.scenario import PATIENCE, Known, Scenario, check_listing
from trio_mcp import ElicitRequest, ElicitResult, RequestError, Server, default_environment, open_connection
from trio_mcp.protocol.revisions import ProtocolChoice

pytestmark = pytest.mark.interop

V1, V2, EVERYTHING = python_servers.SDK_V1, python_servers.SDK_V2, node_servers.EVERYTHING
MODES = [
    pytest.param(V1, (), "auto", "2025-11-25", id="sdk-v1"),
    pytest.param(V1, ("stateless",), "auto", "2025-11-25", id="sdk-v1-stateless"),
    pytest.param(V1, ("json",), "auto", "2025-11-25", id="sdk-v1-json"),
    pytest.param(V1, (), "2025-06-18", "2025-06-18", id="sdk-v1-2025-06-18"),
    pytest.param(V2, (), "auto", "2026-07-28", id="sdk-v2"),
    pytest.param(V2, ("json",), "modern", "2026-07-28", id="sdk-v2-json"),
    pytest.param(V2, (), "legacy", "2025-11-25", id="sdk-v2-legacy"),
    pytest.param(V2, ("stateless",), "legacy", "2025-11-25", id="sdk-v2-legacy-stateless"),
    pytest.param(EVERYTHING, (), "auto", "2025-11-25", id="everything"),
]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@asynccontextmanager
async def running(
    known: Known, scenario: Scenario, modes: tuple[str, ...], mark: Mapping[str, str]
) -> AsyncIterator[str]:
    """The server, listening; its URL."""
    port = _free_port()
    arguments = ("streamableHttp",) if known is EVERYTHING else (str(port), *modes)
    process = await trio.lowlevel.open_process(
        [*scenario.command, *arguments],
        env={**default_environment(), **scenario.environment, **mark, "PORT": str(port)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with trio.fail_after(60):
            while True:
                try:
                    stream = await trio.open_tcp_stream("127.0.0.1", port)
                except OSError:
                    assert process.returncode is None
                    await trio.sleep(0.05)  # nobody tells when a port is open
                else:
                    await stream.aclose()
                    break
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        with trio.CancelScope(shield=True):  # it has been killed
            await process.wait()


@pytest.mark.parametrize(("known", "modes", "protocol", "revision"), MODES)
async def test_every_tool_is_listed_and_answers(
    known: Known,
    scenario: Scenario,
    modes: tuple[str, ...],
    protocol: ProtocolChoice,
    revision: str,
    nothing_left: dict[str, str],
) -> None:
    with trio.fail_after(PATIENCE):
        async with (
            running(known, scenario, modes, nothing_left) as url,
            open_connection(Server("outside", url=url, protocol=protocol)) as connection,
        ):
            assert connection.protocol_version == revision
            assert connection.server_info["name"]
            check_listing(connection, scenario)
            for call in scenario.calls:
                call.judge(await connection.call_tool(call.tool, call.arguments))
            assert connection.error is None
            assert connection.statistics().skipped_lines == 0


@pytest.mark.parametrize(
    ("known", "modes", "protocol"),
    [(V1, (), "auto"), (V2, (), "modern"), (V2, (), "legacy")],
    ids=["sdk-v1", "sdk-v2-modern", "sdk-v2-legacy"],
)
async def test_progress_questions_and_many_calls(
    known: Known,
    scenario: Scenario,
    modes: tuple[str, ...],
    protocol: ProtocolChoice,
    nothing_left: dict[str, str],
) -> None:
    asked = []
    steps: list[float] = []

    async def answer(request: ElicitRequest) -> ElicitResult:
        asked.append(request.message)
        return ElicitResult.accept({"name": "Ada"})

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    with trio.fail_after(PATIENCE):
        async with (
            running(known, scenario, modes, nothing_left) as url,
            open_connection(Server("outside", url=url, protocol=protocol), on_elicit=answer) as connection,
        ):
            if protocol == "modern":  # this SDK's `elicit` knows only the way of the legacy era
                with pytest.raises(RequestError, match="no back-channel"):
                    await connection.call_tool("ask")
            else:
                assert (await connection.call_tool("ask")).content == "accept"
                assert asked == ["What is your name?"]
            await connection.call_tool("steps", {"count": 3}, on_progress=on_progress)
            assert steps == [1, 2, 3]
            with trio.move_on_after(0.3) as scope:
                await connection.call_tool("slow", {"seconds": 60})
            assert scope.cancelled_caught
            async with trio.open_nursery() as callers:
                for number in range(50):
                    callers.start_soon(partial(connection.call_tool, "add", {"a": number, "b": 1}))
            assert connection.statistics().calls_failed == 1 + (protocol == "modern")


@pytest.mark.parametrize("known", [V2], ids=["sdk-v2"])
async def test_a_change_of_the_list_is_noticed(
    known: Known, scenario: Scenario, nothing_left: dict[str, str]
) -> None:
    """Only by listening: this SDK tells legacy clients nothing over HTTP."""
    with trio.fail_after(PATIENCE):
        async with (
            running(known, scenario, (), nothing_left) as url,
            open_connection(Server("outside", url=url)) as connection,
            connection.watch_tools() as changes,
        ):
            await connection.call_tool("grow", {"name": "new"})
            assert "new" in {tool.remote_name for tool in await anext(changes)}
