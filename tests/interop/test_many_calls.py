"""Hundreds of calls at once on one connection: each gets its answer, and cancelled ones disturb nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.interop import node_servers, python_servers
from tests.interop.scenario import PATIENCE, Scenario
from trio_mcp import open_connection, open_connections

pytestmark = pytest.mark.interop

MANY = 500


@pytest.mark.parametrize(
    ("known", "protocol", "tool", "argument"),
    [
        pytest.param(python_servers.SDK_V1, "auto", "echo", "text", id="sdk-v1"),
        pytest.param(python_servers.SDK_V2, "modern", "echo", "text", id="sdk-v2-modern"),
        pytest.param(python_servers.SDK_V2, "legacy", "echo", "text", id="sdk-v2-legacy"),
        pytest.param(node_servers.EVERYTHING, "auto", "echo", "message", id="everything"),
    ],
)
async def test_hundreds_of_calls_at_once_each_get_their_own_answer(
    scenario: Scenario, protocol: str, tool: str, argument: str, nothing_left: dict[str, str]
) -> None:
    answers: dict[int, str] = {}
    with trio.fail_after(PATIENCE):
        async with open_connection(scenario.server(nothing_left, protocol=protocol)) as connection:

            async def ask(number: int) -> None:
                result = await connection.call_tool(tool, {argument: f"number {number}."})
                answers[number] = result.content

            async with trio.open_nursery() as nursery:
                for number in range(MANY):
                    nursery.start_soon(ask, number)
    assert len(answers) == MANY
    assert [n for n, text in answers.items() if not text.endswith(f"number {n}.")] == []


@pytest.mark.parametrize(
    ("known", "protocol"),
    [
        pytest.param(python_servers.SDK_V1, "auto", id="sdk-v1"),
        pytest.param(python_servers.SDK_V2, "modern", id="sdk-v2-modern"),
        pytest.param(python_servers.SDK_V2, "legacy", id="sdk-v2-legacy"),
    ],
)
async def test_hundreds_of_cancelled_calls_disturb_nobody(
    scenario: Scenario, protocol: str, nothing_left: dict[str, str]
) -> None:
    with trio.fail_after(PATIENCE):
        async with open_connection(scenario.server(nothing_left, protocol=protocol)) as connection:

            async def sleep_there() -> None:
                await connection.call_tool("slow", {"seconds": 600})

            async with trio.open_nursery() as nursery:
                for _ in range(MANY):
                    nursery.start_soon(sleep_there)
                # The answer to a later call shows that the server has read the ones before.
                assert (await connection.call_tool("echo", {"text": "here"})).content == "here"
                nursery.cancel_scope.cancel()
            assert (await connection.call_tool("echo", {"text": "still here"})).content == "still here"
            assert connection.error is None


@pytest.fixture
def several(tmp_path: Path) -> list[Scenario]:
    """Three servers that all have a tool named echo."""
    three = (python_servers.SDK_V1, python_servers.SDK_V2, node_servers.EVERYTHING)
    return [known.scenario(tmp_path) for known in three]


async def test_several_servers_at_once_keep_their_tools_apart(
    several: list[Scenario], nothing_left: dict[str, str]
) -> None:
    servers = [scenario.server(nothing_left, name=f"s{number}") for number, scenario in enumerate(several)]
    with trio.fail_after(PATIENCE):
        async with open_connections(servers) as connections:
            assert list(connections) == ["s0", "s1", "s2"]
            names = [tool.name for tool in connections.tools]
            assert len(names) == len(set(names))
            assert {"mcp__s0__echo", "mcp__s1__echo", "mcp__s2__echo"} <= set(names)
            assert connections.failed == {}
            assert (await connections["s2"].call_tool("echo", {"message": "hi"})).content == "Echo: hi"
