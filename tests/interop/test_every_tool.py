"""Every tool of every server is listed and called in each era that the server speaks; nothing is left."""

from __future__ import annotations

import json

import pytest
import trio

from tests.interop import node_servers, python_servers
from tests.interop.scenario import PATIENCE, Scenario, check_listing
from trio_mcp import open_connection

pytestmark = pytest.mark.interop

KNOWN = {
    "time": python_servers.TIME,
    "git": python_servers.GIT,
    "sqlite": python_servers.SQLITE,
    "sdk-v1": python_servers.SDK_V1,
    "sdk-v2": python_servers.SDK_V2,
    "everything": node_servers.EVERYTHING,
    "filesystem": node_servers.FILESYSTEM,
    "memory": node_servers.MEMORY,
}


@pytest.mark.parametrize(
    ("known", "protocol", "revision"),
    [
        pytest.param(known, protocol, revision, id=f"{name}-{protocol}")
        for name, known in KNOWN.items()
        for protocol, revision in known.speaks.items()
    ],
)
async def test_every_tool_is_listed_and_answers(
    scenario: Scenario, protocol: str, revision: str, nothing_left: dict[str, str]
) -> None:
    with trio.fail_after(PATIENCE):
        async with open_connection(scenario.server(nothing_left, protocol=protocol)) as connection:
            assert connection.protocol_version == revision
            assert connection.server_info["name"]
            assert "tools" in connection.capabilities
            check_listing(connection, scenario)
            for call in scenario.calls:
                call.judge(await connection.call_tool(call.tool, call.arguments))
            assert scenario.stderr in connection.stderr_tail
            assert connection.error is None
        assert connection.done.is_set()
        assert connection.error is None


@pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN)
async def test_tools_take_a_models_own_json(scenario: Scenario, nothing_left: dict[str, str]) -> None:
    """Raw argument text with line breaks, CR among them, between its tokens arrives whole at each server."""
    with trio.fail_after(PATIENCE):
        async with open_connection(scenario.server(nothing_left)) as connection:
            tools = {tool.remote_name: tool for tool in connection.tools}
            for call in scenario.calls:
                text = json.dumps(call.arguments, indent=1).replace("\n", "\r\n")
                call.judge(await tools[call.tool].call(text))


@pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN)
async def test_a_filter_hides_all_but_one_tool(scenario: Scenario, nothing_left: dict[str, str]) -> None:
    first = scenario.calls[0]
    with trio.fail_after(PATIENCE):
        server = scenario.server(nothing_left, tools=[first.tool, "not-there"])
        async with open_connection(server) as connection:
            assert [tool.remote_name for tool in connection.tools] == [first.tool]
            assert any("not-there" in warning for warning in connection.warnings)
            first.judge(await connection.call_tool(first.tool, first.arguments))


@pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN)
async def test_a_polite_server_is_not_kept_waiting(scenario: Scenario, nothing_left: dict[str, str]) -> None:
    """Each of them exits by itself when its input ends: closing takes no longer than that."""
    with trio.fail_after(PATIENCE):
        async with open_connection(scenario.server(nothing_left, stop_timeout=60)):
            left = trio.current_time()
        assert trio.current_time() - left < 10
