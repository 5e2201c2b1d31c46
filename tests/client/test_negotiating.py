"""Opening, second by second: the probe, the handshake, the patience between them, the bound over all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.fakes import LEGACY, MODERN, FakeHost, FakeProcess, after, exiting, serving
from trio_mcp import RequestError, Server, ServerStartError, open_connection
from trio_mcp.client.limits import ClientLimits
from trio_mcp.protocol.revisions import META_CLIENT_INFO, META_VERSION

ENV = {"PATH": "/bin"}
SERVER = Server("s", command="/bin/server", env=ENV)
DISCOVER, INITIALIZE = MODERN["server/discover"], LEGACY["initialize"]

MODERN_OPENING = ["server/discover", "tools/list"]
LEGACY_OPENING = ["initialize", "notifications/initialized", "tools/list"]


def server(**fields: Any) -> Server:
    return Server("s", command="/bin/server", env=ENV, **fields)


async def opened(it: Server = SERVER, **options: Any) -> tuple[str, float]:
    """The revision agreed on, and at which second."""
    with trio.fail_after(10_000):
        async with open_connection(it, **options) as connection:
            at = trio.current_time()
            assert [tool.remote_name for tool in connection.tools] == ["echo"]
            return connection.protocol_version, at


async def start_error(it: Server = SERVER) -> ServerStartError:
    with trio.fail_after(10_000), pytest.raises(ServerStartError) as caught:
        async with open_connection(it):
            pass
    return caught.value


def notes(error: BaseException) -> str:
    return "\n".join(error.__notes__)


# --- the two eras


async def test_a_modern_server_is_asked_once_and_listed(host: FakeHost, autojump_clock: MockClock) -> None:
    host.scripts = [serving(MODERN)]
    assert await opened() == ("2026-07-28", 0)
    assert host.processes[0].methods == MODERN_OPENING


async def test_a_legacy_server_that_refuses_the_probe_is_initialized_at_once(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving(LEGACY)]
    assert await opened() == ("2025-11-25", 0)
    assert host.processes[0].methods == ["server/discover", *LEGACY_OPENING]
    assert len(host.processes) == 1, "the same process: no second start in the normal case"


@pytest.mark.parametrize("reply", [RequestError(-32600, "x"), RequestError(-32602, "x"), RequestError(0, ""), {}])
async def test_the_fallback_is_tied_to_no_error_code(
    host: FakeHost, autojump_clock: MockClock, reply: Any
) -> None:
    host.scripts = [serving({**LEGACY, "server/discover": reply})]
    assert await opened() == ("2025-11-25", 0)


async def test_what_the_server_says_of_itself_is_on_the_connection(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving({**LEGACY, "initialize": {**INITIALIZE, "instructions": "be kind"}})]  # type: ignore[dict-item]
    async with open_connection(SERVER) as connection:
        assert connection.server is SERVER
        assert connection.name == "s"
        assert connection.server_info == {"name": "fake", "version": "1"}
        assert connection.capabilities == {"tools": {"listChanged": True}}
        assert connection.instructions == "be kind"


async def test_what_the_server_does_not_say_is_empty(host: FakeHost, autojump_clock: MockClock) -> None:
    host.scripts = [serving({"server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {}}})]
    async with open_connection(SERVER) as connection:
        assert (connection.server_info, connection.capabilities) == ({}, {})
        assert connection.instructions is None
        assert connection.tools == ()
    assert host.processes[0].methods == ["server/discover"], "without the capability nothing is listed"


@pytest.mark.parametrize("info", [None, {"name": "me", "version": "7", "title": "Me"}])
async def test_the_client_says_who_it_is(host: FakeHost, autojump_clock: MockClock, info: Any) -> None:
    host.scripts = [serving(LEGACY)]
    await opened(client_info=info)
    (process,) = host.processes
    told = process.params("initialize")[0]["clientInfo"]
    assert told == info if info else told["name"] == "trio_mcp"
    assert process.params("server/discover")[0]["_meta"][META_CLIENT_INFO] == told


# --- patience


async def test_a_server_silent_on_the_probe_is_initialized_after_the_patience(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving({**LEGACY, "server/discover": None})]
    assert await opened() == ("2025-11-25", 3)
    assert ClientLimits().probe_patience == 3
    assert host.processes[0].times[1] == 3


async def test_a_server_that_answers_the_probe_within_the_patience_never_sees_initialize(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving({**MODERN, "server/discover": after(2.99, DISCOVER)})]
    assert await opened() == ("2026-07-28", 2.99)
    assert host.processes[0].methods == MODERN_OPENING


async def test_a_server_that_is_slow_to_start_is_modern_all_the_same(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving({**MODERN, "server/discover": after(6, DISCOVER), "initialize": None})]
    assert await opened() == ("2026-07-28", 6)


async def test_a_late_discover_wins_over_an_initialize_that_is_still_open(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    both = {"server/discover": after(4, DISCOVER), "initialize": after(2, INITIALIZE)}
    host.scripts = [serving({**MODERN, **both})]
    async with open_connection(SERVER) as connection:
        assert (connection.protocol_version, trio.current_time()) == ("2026-07-28", 4)
        await trio.sleep(2)
        assert connection.statistics().late_answers == 1


async def test_a_discover_that_comes_after_the_handshake_changes_nothing(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving({**LEGACY, "server/discover": after(6, DISCOVER), "initialize": after(1, INITIALIZE)})]
    async with open_connection(SERVER) as connection:
        assert (connection.protocol_version, trio.current_time()) == ("2025-11-25", 4)
        await trio.sleep(5)
        assert connection.statistics().late_answers == 1
        assert (await connection.call_tool("echo", {"a": 1})).content == '{"a": 1}'
    assert "_meta" not in host.processes[0].params("tools/call")[0]


async def test_a_refused_initialize_while_the_probe_is_open_is_no_verdict(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    late = {"server/discover": after(5, DISCOVER), "initialize": RequestError(-32601, "no")}
    host.scripts = [serving({**MODERN, **late})]
    assert await opened() == ("2026-07-28", 5)


async def test_a_legacy_server_that_is_slow_to_start_answers_both_and_costs_no_more(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    refusal = RequestError(-32601, "Method not found")
    host.scripts = [
        serving({**LEGACY, "server/discover": after(7, refusal), "initialize": after(5, INITIALIZE)}),
    ]
    assert await opened() == ("2025-11-25", 8)


async def test_neither_probe_nor_handshake_is_ever_cancelled_on_the_wire(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving({"server/discover": None, "initialize": None})]
    with trio.move_on_after(10):
        await opened()
    assert host.processes[0].methods == ["server/discover", "initialize"]


# --- what is remembered


async def test_a_legacy_server_is_probed_once_while_the_process_lives(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving({**LEGACY, "server/discover": None})]
    assert (await opened())[1] == 3
    assert (await opened())[1] == 3, "at once: 3 seconds had passed before"
    assert host.processes[1].methods == LEGACY_OPENING


@pytest.mark.parametrize("other", [{"args": ("--other",)}, {"cwd": "/tmp"}])
async def test_another_command_line_is_another_server(
    host: FakeHost, autojump_clock: MockClock, other: dict[str, Any]
) -> None:
    host.scripts = [serving(LEGACY)]
    await opened()
    await opened(server(**other))
    assert host.processes[1].methods[0] == "server/discover"


async def test_a_server_that_has_become_modern_is_found_out(host: FakeHost, autojump_clock: MockClock) -> None:
    host.scripts = [serving(LEGACY), serving(MODERN)]
    await opened()
    assert (await opened())[0] == "2026-07-28"
    assert host.processes[1].methods == ["initialize", *MODERN_OPENING]
    await opened()
    assert host.processes[2].methods == MODERN_OPENING


async def test_what_was_remembered_is_forgotten_after_a_failure(host: FakeHost, autojump_clock: MockClock) -> None:
    dead = serving({"initialize": exiting(1), "server/discover": exiting(1)})
    host.scripts = [serving(LEGACY), dead, serving(LEGACY)]
    await opened()
    await start_error()
    await opened()
    assert host.processes[-1].methods[0] == "server/discover"


# --- pinned


def firsts(processes: Iterable[FakeProcess]) -> list[Any]:
    return [
        (message["method"], message["params"].get("protocolVersion") or message["params"]["_meta"][META_VERSION])
        for message in (process.heard[0] for process in processes)
    ]


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
async def test_a_pinned_legacy_revision_alone_is_offered(
    host: FakeHost, autojump_clock: MockClock, version: str
) -> None:
    host.scripts = [serving({**LEGACY, "initialize": {**INITIALIZE, "protocolVersion": version}})]  # type: ignore[dict-item]
    assert await opened(server(protocol=version)) == (version, 0)
    assert firsts(host.processes) == [("initialize", version)]


async def test_a_pinned_revision_that_is_answered_with_another_is_a_start_error(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving(LEGACY)]
    error = await start_error(server(protocol="2025-06-18"))
    assert "the server speaks 2025-11-25, this client 2025-06-18" in str(error)


async def test_legacy_skips_the_probe(host: FakeHost, autojump_clock: MockClock) -> None:
    host.scripts = [serving({**MODERN, **LEGACY})]
    assert await opened(server(protocol="legacy")) == ("2025-11-25", 0)
    assert firsts(host.processes) == [("initialize", "2025-11-25")]


@pytest.mark.parametrize("protocol", ["modern", "2026-07-28"])
async def test_modern_still_discovers_and_never_falls_back(
    host: FakeHost, autojump_clock: MockClock, protocol: str
) -> None:
    host.scripts = [serving(MODERN), serving(LEGACY)]
    assert (await opened(server(protocol=protocol)))[0] == "2026-07-28"
    assert "no modern protocol revision" in str(await start_error(server(protocol=protocol)))
    assert firsts(host.processes) == [("server/discover", "2026-07-28")] * 2


async def test_modern_waits_for_a_silent_server_until_start_timeout(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving({"server/discover": None, "initialize": INITIALIZE})]
    await start_error(server(protocol="modern", start_timeout=20))
    assert trio.current_time() == 20
    assert host.processes[0].methods == ["server/discover"]
