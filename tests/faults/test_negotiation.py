"""Faults 21 to 24: servers that take the probe badly, and what the probe must not cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.peers import ERAS, open_lives, peer
from trio_mcp import Connection, Server, ServerStartError, open_connection
from trio_mcp.client.limits import ClientLimits

LEGACY, MODERN = "2025-11-25", "2026-07-28"


async def methods_seen(connection: Connection) -> list[str]:
    """The methods of the messages that the server has received, without the call that asks for them."""
    seen = json.loads((await connection.call_tool("seen")).content)
    return [message["method"] for message in seen][:-1]


# --- fault 21: a legacy server exits on the probe


async def test_a_server_that_exits_on_the_probe_is_started_once_more_and_remembered() -> None:
    with trio.fail_after(10):
        async with open_lives() as lives:
            server = peer(era="legacy", probe="exit", alive=lives.port)
            async with open_connection(server) as connection:
                assert connection.protocol_version == LEGACY
                assert await methods_seen(connection) == ["initialize", "notifications/initialized", "tools/list"]
                assert lives.starts["server"] == 2
                assert lives.ends["server"] == 1  # the first is gone before the second is used
            async with open_connection(server) as connection:
                assert await methods_seen(connection) == ["initialize", "notifications/initialized", "tools/list"]
            assert lives.starts["server"] == 3
            await lives.ended()


async def test_a_server_that_dies_on_the_probe_and_again_costs_two_starts_and_shows_both_tails() -> None:
    source = """
def message(message):
    write_all(2, message["method"].encode() + b"\\n")
    os._exit({"server/discover": 3, "initialize": 4}[message["method"]])
peer.message = message
"""
    with trio.fail_after(10):
        async with open_lives() as lives:
            with pytest.raises(ServerStartError) as caught:
                async with open_connection(peer(source=source, alive=lives.port)):
                    raise AssertionError("it opened")
            await lives.ended()
            assert lives.starts["server"] == 2
    assert caught.value.returncode == 4
    assert caught.value.stderr_tail == "initialize\n"
    assert "server/discover" in "\n".join(caught.value.__notes__)


async def test_a_pinned_modern_server_that_exits_on_the_probe_is_not_started_again() -> None:
    with trio.fail_after(10):
        async with open_lives() as lives:
            server = peer(era="legacy", probe="exit", protocol="modern", alive=lives.port)
            with pytest.raises(ServerStartError, match="exited with status 1"):
                async with open_connection(server):
                    raise AssertionError("it opened")
            await lives.ended()
            assert lives.starts["server"] == 1


# --- fault 22: silent on the probe, or slow to start


@pytest.mark.slow
async def test_servers_silent_on_the_probe_or_slow_to_start_are_understood(fast_clock: MockClock) -> None:
    """Side by side: legacy after the patience; modern where discover is answered 6 s of our time later.

    The servers' own clocks go as ever: a tenth of our delays.
    """

    async def open_and_look(server: Server, version: str, soonest: float) -> None:
        began = trio.current_time()
        async with open_connection(server) as connection:
            assert connection.protocol_version == version
            assert soonest <= trio.current_time() - began < soonest + 20  # two seconds of a busy machine
            assert (await connection.call_tool("echo")).content == "{}"
            assert connection.statistics().calls_in_flight == 0

    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:
            answers_only_initialize = peer("silent", era="legacy", probe="silent")
            nursery.start_soon(open_and_look, answers_only_initialize, LEGACY, ClientLimits().probe_patience)
            # It reads both messages after 6 s, and answers the probe first.
            nursery.start_soon(open_and_look, peer("starts", era="both", start_delay=0.6), MODERN, 6)
            # It refuses initialize meanwhile.
            nursery.start_soon(open_and_look, peer("thinks", era="modern", discover_delay=0.6), MODERN, 6)
            # Both answers after 6 s, the one to initialize last.
            late = peer("late", era="both", discover_delay=0.6, initialize_delay=0.4)
            nursery.start_soon(open_and_look, late, MODERN, 6)


async def test_modern_wins_where_both_answers_come_at_once() -> None:
    """The answer to the probe is the first of the two lines of one chunk."""
    source = """
both = []
def message(message):
    if message.get("method") in ("server/discover", "initialize"):
        both.append(message)
    else:
        type(peer).message(peer, message)
    if len(both) == 2:
        lines = []
        peer.send = lambda message: lines.append(json.dumps(message).encode() + b"\\n")
        peer.discover(both[0])
        peer.initialize(both[1])
        del peer.send
        both.clear()
        write_all(1, b"".join(lines))
peer.message = message
"""
    versions = []

    async def open_and_look() -> None:
        async with open_connection(peer(source=source), limits=ClientLimits(probe_patience=0.1)) as connection:
            versions.append(connection.protocol_version)

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(open_and_look)
    assert versions == [MODERN] * 20


# --- fault 23: fallback tied to one error code


@pytest.mark.parametrize("code", [-32600, -32601, -32602, -32603, -32000, 0, 404])
async def test_any_error_that_is_not_positively_modern_means_legacy(code: int) -> None:
    with trio.fail_after(2):
        async with open_lives() as lives:
            async with open_connection(peer(era="legacy", probe_code=code, alive=lives.port)) as connection:
                assert connection.protocol_version == LEGACY
                assert (await methods_seen(connection))[:2] == ["server/discover", "initialize"]
            assert lives.starts["server"] == 1


@pytest.mark.slow
@pytest.mark.table(
    "answer",
    [
        {"result": {}},
        {"result": {"capabilities": {}}},
        {"result": {"supportedVersions": "2099-01-01"}},
        {"result": []},
        {"result": None},
        {"result": "pong"},
        {"error": "went wrong"},
        {"error": {"message": "no code"}},
        {"error": {"code": -32602, "message": "Unsupported", "data": {"supported": [LEGACY]}}},
        {"error": {"code": -32022, "message": "without a list"}},
        {"id": None, "error": {"code": -32600, "message": "no id"}},
        {},
    ],
    ids=json.dumps,
)
async def test_any_answer_that_is_no_discover_result_means_legacy(answer: dict[str, Any]) -> None:
    source = f"""
answer = json.loads({json.dumps(answer)!r})
peer.too_early = lambda message: peer.send({{"id": message["id"], **answer}})
"""
    with trio.fail_after(2):
        async with open_connection(peer(era="legacy", source=source)) as connection:
            assert connection.protocol_version == LEGACY
            assert (await connection.call_tool("echo")).content == "{}"


async def test_a_modern_error_is_no_reason_to_fall_back() -> None:
    """-32021: a capability is missing. An initialize would only hide that."""
    source = "peer.discover = lambda message: peer.refuse(message['id'], -32021, 'needs sampling')"
    with trio.fail_after(5):
        async with open_lives() as lives:
            with pytest.raises(ServerStartError, match="needs sampling"):
                async with open_connection(peer(source=source, alive=lives.port)):
                    raise AssertionError("it opened")
            await lives.ended()
            assert lives.starts["server"] == 1


# --- fault 24: the probe starts the server twice in the normal case


@pytest.mark.parametrize("protocol", ["auto", "own"])
@pytest.mark.parametrize("era", [*ERAS, "both"])
async def test_in_the_normal_case_a_server_is_started_once(era: str, protocol: str, tmp_path: Path) -> None:
    """A start more would find the lock file of the first."""
    lock = tmp_path / "lock"
    source = f"""
os.close(os.open({str(lock)!r}, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
with open({str(lock)!r}, "a") as file:
    file.write("start\\n")
"""
    pinned = "auto" if protocol == "auto" else {"both": MODERN}.get(era, era)
    with trio.fail_after(5):
        async with open_connection(peer(era=era, protocol=pinned, source=source)) as connection:
            assert connection.protocol_version == (LEGACY if era == "legacy" else MODERN)
    assert lock.read_text() == "start\n"


async def test_a_remembered_legacy_server_is_spared_the_probe() -> None:
    server = peer(era="legacy")
    with trio.fail_after(5):
        async with open_connection(server) as connection:
            assert (await methods_seen(connection))[0] == "server/discover"
        async with open_connection(server) as connection:
            assert (await methods_seen(connection))[0] == "initialize"
