"""`open_connections`: many servers, one scope; a bad one costs what `on_error` says."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.fakes import DEAF_TO_EOF, LEGACY, MODERN, FakeHost, FakeProcess, Script, after, exiting, serving
from trio_mcp import Connection, InvalidServerError, Server, ServerStartError, open_connections

GOOD = serving(MODERN)
CRASHING = serving({"server/discover": exiting(1, b"broken\n"), "initialize": exiting(1, b"broken\n")})
SILENT = serving({"server/discover": None, "initialize": None})


class ByName:
    """Gives each server its script by its command's last part, in whatever order they start."""

    def __init__(self, host: FakeHost, **scripts: Script) -> None:
        self._host, self._scripts = host, scripts
        self.processes: dict[str, list[FakeProcess]] = {name: [] for name in scripts}

    async def start_process(self, command: str, *_: object) -> FakeProcess:
        name = command.rpartition("/")[2]
        one = FakeHost(self._host._nursery, self._scripts[name])
        one.make = self._host.make
        process = await one.start_process()
        self.processes[name].append(process)
        return process


@pytest.fixture
def named(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> Any:
    def give(**scripts: Script) -> ByName:
        by_name = ByName(host, **scripts)
        monkeypatch.setattr("trio_mcp.transports.stdio.transport.start_process", by_name.start_process)
        return by_name

    return give


def servers(*names: str, **fields: Any) -> list[Server]:
    return [Server(name, command=f"/bin/{name}", env={"PATH": "/bin"}, **fields) for name in names]


async def test_all_are_open_in_the_order_of_the_servers(named: Any, autojump_clock: MockClock) -> None:
    slow = serving({**MODERN, "server/discover": after(2, MODERN["server/discover"])})
    named(a=slow, b=GOOD, c=GOOD)
    with trio.fail_after(100):
        async with open_connections(servers("a", "b", "c")) as connections:
            assert trio.current_time() == 2
            assert list(connections) == ["a", "b", "c"]
            assert connections.failed == {}
            assert [tool.name for tool in connections.tools] == ["mcp__a__echo", "mcp__b__echo", "mcp__c__echo"]
            assert connections["b"].name == "b"
            assert len(connections) == 3
            assert "z" not in connections
            assert repr(connections) == "<Connections open: ['a', 'b', 'c'], failed: []>"


async def test_they_open_side_by_side_each_with_its_own_start_timeout(
    named: Any, autojump_clock: MockClock
) -> None:
    slow = serving({**MODERN, "server/discover": after(8, MODERN["server/discover"]), "initialize": None})
    named(**dict.fromkeys("abcde", slow))
    with trio.fail_after(100):
        async with open_connections(servers(*"abcde", start_timeout=10)) as connections:
            assert trio.current_time() == 8
            assert len(connections) == 5


async def test_they_close_side_by_side(named: Any, host: FakeHost, autojump_clock: MockClock) -> None:
    host.make = lambda: FakeProcess(DEAF_TO_EOF)
    by_name = named(**{name: serving(MODERN, deaf_to_eof=True) for name in "abcde"})
    with trio.fail_after(100):
        async with open_connections(servers(*"abcde", stop_timeout=5)):
            pass
    assert trio.current_time() == 5
    assert all(made[0].handle.names[-1] == "release" for made in by_name.processes.values())


async def test_no_servers_are_no_trouble() -> None:
    with trio.fail_after(5):
        async with open_connections([]) as connections:
            assert (dict(connections), connections.tools) == ({}, ())


async def test_any_iterable_of_servers_will_do(named: Any) -> None:
    named(a=GOOD)
    with trio.fail_after(5):
        async with open_connections(iter(servers("a"))) as connections:
            assert list(connections) == ["a"]


# --- on_error


async def test_raise_lets_the_first_failure_leave_bare_and_closes_the_others(
    named: Any, autojump_clock: MockClock
) -> None:
    by_name = named(a=GOOD, b=SILENT, c=CRASHING)
    with trio.fail_after(100), pytest.raises(ServerStartError) as caught:
        async with open_connections(servers("a", "b", "c")):
            raise AssertionError("opened")
    assert caught.value.server == "c"
    assert trio.current_time() == 0, "those that are still opening are not waited for"
    for processes in by_name.processes.values():
        assert all(process.handle.names[-1] == "release" for process in processes)


async def test_warn_lets_a_bad_server_cost_itself_alone(
    named: Any, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    named(a=GOOD, b=SILENT, c=CRASHING, d=GOOD)
    with trio.fail_after(100), caplog.at_level(logging.WARNING, "trio_mcp.client"):
        async with open_connections(servers(*"abcd", start_timeout=10), on_error="warn") as connections:
            assert trio.current_time() == 10
            assert list(connections) == ["a", "d"]
            assert set(connections.failed) == {"b", "c"}
            assert isinstance(connections.failed["c"], ServerStartError)
            assert (await connections["d"].call_tool("echo")).content == "{}"
    assert sorted(record.getMessage() for record in caplog.records) == sorted(
        str(error) for error in connections.failed.values()
    )
    assert {record.name for record in caplog.records} == {"trio_mcp.client"}


async def test_warn_with_every_server_bad_opens_an_empty_mapping(named: Any) -> None:
    named(a=CRASHING, b=CRASHING)
    with trio.fail_after(5):
        async with open_connections(servers("a", "b"), on_error="warn") as connections:
            assert dict(connections) == {}
            assert list(connections.failed) in (["a", "b"], ["b", "a"])


async def test_warn_takes_also_an_endpoint_that_is_not_there(named: Any) -> None:
    named(a=GOOD)
    both = [*servers("a"), Server("h", url="http://localhost:1/mcp")]
    with trio.fail_after(5):
        async with open_connections(both, on_error="warn") as connections:
            assert list(connections) == ["a"]
            assert isinstance(connections.failed["h"], ServerStartError)


# --- the scope


async def test_an_error_of_the_body_leaves_bare(named: Any) -> None:
    named(a=GOOD, b=GOOD)
    error = ValueError("mine")
    with trio.fail_after(5), pytest.raises(ValueError) as caught:
        async with open_connections(servers("a", "b")):
            raise error
    assert caught.value is error


async def test_a_group_of_the_body_leaves_as_it_is(named: Any) -> None:
    named(a=GOOD)
    group = ExceptionGroup("mine", [ValueError()])
    with trio.fail_after(5), pytest.raises(ExceptionGroup) as caught:
        async with open_connections(servers("a")):
            raise group
    assert caught.value is group


async def test_a_lost_server_neither_cancels_the_body_nor_the_others(named: Any) -> None:
    by_name = named(a=GOOD, b=GOOD)
    with trio.fail_after(5):
        async with open_connections(servers("a", "b")) as connections:
            by_name.processes["a"][0].exit(1)
            await connections["a"].wait_done()
            await wait_all_tasks_blocked()
            assert (await connections["b"].call_tool("echo")).content == "{}"
            assert list(connections) == ["a", "b"]


async def test_one_can_be_closed_by_itself(named: Any) -> None:
    by_name = named(a=GOOD, b=GOOD)
    with trio.fail_after(5):
        async with open_connections(servers("a", "b")) as connections:
            await connections["a"].aclose()
            assert by_name.processes["a"][0].handle.names[-1] == "release"
            assert (await connections["b"].call_tool("echo")).content == "{}"


async def test_a_call_that_an_outer_cancel_ends_still_tells_its_server(named: Any) -> None:
    hanging = serving({**MODERN, "tools/call": None})
    by_name = named(a=hanging, b=hanging)
    with trio.fail_after(5), trio.CancelScope() as scope:
        async with open_connections(servers("a", "b")) as connections, trio.open_nursery() as nursery:
            for connection in connections.values():
                nursery.start_soon(connection.call_tool, "echo")
            await wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
    for processes in by_name.processes.values():
        assert len(processes[0].params("notifications/cancelled")) == 1


async def test_a_shielded_cleanup_under_an_outer_cancel_can_still_call(named: Any) -> None:
    named(a=GOOD, b=GOOD)
    said: list[str] = []

    async def tidy_up(connection: Connection) -> None:
        with trio.CancelScope(shield=True):
            await wait_all_tasks_blocked()
            said.append((await connection.call_tool("echo")).content)

    with trio.fail_after(5), trio.CancelScope() as scope:
        async with open_connections(servers("a", "b")) as connections:
            try:
                scope.cancel()
                await trio.sleep_forever()
            finally:
                await tidy_up(connections["a"])
                await tidy_up(connections["b"])
    assert said == ["{}", "{}"]


async def test_a_cancelled_opening_leaves_nothing(named: Any, autojump_clock: MockClock) -> None:
    by_name = named(a=GOOD, b=SILENT, c=serving({**LEGACY, "tools/list": None}))
    with trio.fail_after(100):
        with trio.move_on_after(5) as scope:
            async with open_connections(servers("a", "b", "c")):
                raise AssertionError("opened")
        assert scope.cancelled_caught
        assert trio.current_time() == 5
    for processes in by_name.processes.values():
        assert all(process.handle.names[-1] == "release" for process in processes)


# --- wrong arguments


async def test_two_servers_of_one_name_are_refused_before_anything_is_started(named: Any) -> None:
    by_name = named(a=GOOD)
    with pytest.raises(InvalidServerError, match=r"^name: two servers are called 'a'$"):
        async with open_connections([*servers("a"), *servers("a")]):
            raise AssertionError("opened")
    assert by_name.processes["a"] == []


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ([servers("a")], {"on_error": "ignore"}, 'on_error: expected "raise" or "warn", got \'ignore\''),
        ([servers("a")], {"on_error": None}, 'on_error: expected "raise" or "warn", got None'),
        ([["a"]], {}, "server: expected a Server, got str"),
        ([{"a": servers("a")[0]}], {}, "server: expected a Server, got str"),
        ([servers("a")], {"client_info": 3}, "client_info: expected a mapping, got int"),
        ([servers("a")], {"on_stderr": 3}, "on_stderr: expected a function, got int"),
        ([servers("a")[0]], {}, "servers: expected .*, got Server"),
        ([None], {}, "servers: expected .*, got NoneType"),
    ],
)
async def test_a_wrong_argument_is_named_before_anything_is_started(
    named: Any, arguments: list[Any], options: dict[str, Any], text: str
) -> None:
    by_name = named(a=GOOD)
    with pytest.raises(InvalidServerError, match=f"^{text}$"):
        async with open_connections(*arguments, **options):
            raise AssertionError("opened")
    assert by_name.processes["a"] == []
