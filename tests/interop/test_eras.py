"""Which revision is spoken: the newest that both know, the pinned one, and nothing is learnt from a pin."""

from __future__ import annotations

import pytest
import trio

from tests.interop import node_servers, python_servers
from tests.interop.scenario import PATIENCE, Scenario
from trio_mcp import ServerStartError, open_connection

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
@pytest.mark.parametrize(
    "known",
    [
        pytest.param(python_servers.SDK_V1, id="sdk-v1"),
        pytest.param(python_servers.SDK_V2, id="sdk-v2"),
        pytest.param(node_servers.EVERYTHING, id="everything"),
    ],
)
async def test_a_pinned_revision_is_the_one_that_is_spoken(
    scenario: Scenario, revision: str, nothing_left: dict[str, str]
) -> None:
    call = scenario.calls[0]
    with trio.fail_after(PATIENCE):
        async with open_connection(scenario.server(nothing_left, protocol=revision)) as connection:
            assert connection.protocol_version == revision
            result = await connection.call_tool(call.tool, call.arguments)
    assert call.says[0] in result.content


@pytest.mark.parametrize("known", [python_servers.SDK_V2], ids=["sdk-v2"])
async def test_a_pinned_era_teaches_nothing_to_a_later_connection(
    scenario: Scenario, nothing_left: dict[str, str]
) -> None:
    spoken = []
    with trio.fail_after(PATIENCE):
        for protocol in ("legacy", "auto", "legacy", "auto"):
            async with open_connection(scenario.server(nothing_left, protocol=protocol)) as connection:
                spoken.append(connection.protocol_version)
    assert spoken == ["2025-11-25", "2026-07-28", "2025-11-25", "2026-07-28"]


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(python_servers.SDK_V1, id="sdk-v1"),
        pytest.param(python_servers.SQLITE, id="sqlite"),
        pytest.param(node_servers.MEMORY, id="memory"),
    ],
)
async def test_a_legacy_server_does_not_come_up_as_a_modern_one(
    scenario: Scenario, nothing_left: dict[str, str]
) -> None:
    with trio.fail_after(PATIENCE), pytest.raises(ServerStartError):
        async with open_connection(scenario.server(nothing_left, protocol="modern")):
            pass
