"""A connection's own life: closing, what the server says by itself, stderr, counts."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from tests.fakes import DEAF_TO_TERM, LEGACY, MODERN, FakeHost, FakeProcess, serving
from trio_mcp import Connection, Server, ServerStoppedError, open_connection
from trio_mcp.client.incoming.callbacks import WAITING
from trio_mcp.transports.limits import ProcessLimits

TERM_GRACE = ProcessLimits().term_grace

SERVER = Server("s", command="/bin/server", env={"PATH": "/bin", "API_KEY": "s3cret-s3cret"}, stop_timeout=5)


# --- what it shows


async def test_a_connection_shows_what_programs_use_and_nothing_that_only_the_package_does(host: FakeHost) -> None:
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            shown = {name for name in dir(connection) if not name.startswith("_")}
    assert shown == {
        *("server", "name", "server_info", "capabilities", "protocol_version", "instructions"),
        *("tools", "warnings", "refresh_tools", "watch_tools", "list_specs"),
        *("call_tool", "tool", "request"),
        *("done", "wait_done", "error", "aclose", "stderr_tail", "statistics"),
    }


# --- closing


async def test_aclose_is_a_checkpoint_each_time_and_idempotent(host: FakeHost) -> None:
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            for _ in range(3):
                with assert_checkpoints():
                    await connection.aclose()
                assert connection.done.is_set()
                assert connection.error is None
            with assert_checkpoints():
                await connection.wait_done()
    assert host.processes[0].handle.names.count("release") == 1


async def test_aclose_waits_until_everything_is_gone(host: FakeHost, autojump_clock: MockClock) -> None:
    host.make = lambda: FakeProcess(DEAF_TO_TERM)
    host.scripts = [serving(MODERN, deaf_to_eof=True)]
    with trio.fail_after(100):
        async with open_connection(SERVER) as connection:
            await connection.aclose()
            assert trio.current_time() == 5 + TERM_GRACE
            assert host.processes[0].handle.names[-1] == "release"


async def test_aclose_from_several_tasks_at_once_returns_in_all_of_them(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.make = lambda: FakeProcess(DEAF_TO_TERM)
    host.scripts = [serving(MODERN, deaf_to_eof=True)]
    with trio.fail_after(100):
        async with open_connection(SERVER) as connection:
            async with trio.open_nursery() as nursery:
                for delay in range(5):
                    nursery.start_soon(_close_after, connection, delay)
            assert trio.current_time() == 5 + TERM_GRACE


async def _close_after(connection: Connection, delay: float) -> None:
    await trio.sleep(delay)
    await connection.aclose()
    assert connection.done.is_set()


async def test_a_cancelled_aclose_stops_waiting_not_closing(host: FakeHost, autojump_clock: MockClock) -> None:
    host.make = lambda: FakeProcess(DEAF_TO_TERM)
    host.scripts = [serving(MODERN, deaf_to_eof=True)]
    with trio.fail_after(100):
        async with open_connection(SERVER) as connection:
            with trio.CancelScope() as scope:
                scope.cancel()
                await connection.aclose()
            assert scope.cancelled_caught
            assert trio.current_time() == 0
            with pytest.raises(trio.ClosedResourceError):
                await connection.call_tool("echo")
            await connection.wait_done()
            assert trio.current_time() == 5 + TERM_GRACE


async def test_calls_in_flight_fail_at_once_when_the_connection_is_closed(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.make = lambda: FakeProcess(DEAF_TO_TERM)
    host.scripts = [serving({**MODERN, "tools/call": None}, deaf_to_eof=True)]
    failed_at: list[float] = []

    async def call(connection: Connection) -> None:
        with pytest.raises(trio.ClosedResourceError, match='the connection to "s" was closed'):
            await connection.call_tool("echo")
        failed_at.append(trio.current_time())

    with trio.fail_after(100):
        async with open_connection(SERVER) as connection, trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(call, connection)
            await wait_all_tasks_blocked()
            await connection.aclose()
    assert failed_at == [0, 0, 0]


async def test_a_loss_sets_done_at_once_not_after_the_ladder(host: FakeHost, autojump_clock: MockClock) -> None:
    host.make = lambda: FakeProcess(DEAF_TO_TERM, [DEAF_TO_TERM])
    with trio.fail_after(100):
        async with open_connection(SERVER) as connection:
            host.processes[0].exit(1)
            await connection.wait_done()
            assert trio.current_time() == 0
            assert isinstance(connection.error, ServerStoppedError)
            await connection.aclose()
            assert trio.current_time() == 0.5
            assert connection.error.returncode == 1, "a close after the loss does not hide it"


# --- what the server says by itself


async def ask(host: FakeHost, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Let the server say this; what the client answers."""
    (process,) = host.processes
    before = len(process.heard)
    await process.peer.send(*messages)
    await wait_all_tasks_blocked()
    return process.heard[before:]


async def test_a_legacy_servers_ping_is_answered_and_the_rest_refused(host: FakeHost) -> None:
    host.scripts = [serving(LEGACY)]
    with trio.fail_after(5):
        async with open_connection(SERVER):
            answers = await ask(
                host,
                {"id": "p", "method": "ping"},
                {"id": 1, "method": "roots/list"},
                {"id": 2, "method": "sampling/createMessage", "params": {}},
                {"id": 3, "method": "elicitation/create", "params": {}},
            )
    assert answers[0] == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert [(it["id"], it["error"]["code"]) for it in answers[1:]] == [(1, -32601), (2, -32601), (3, -32601)]


async def test_a_modern_server_may_not_ask_and_is_not_answered(
    host: FakeHost, caplog: pytest.LogCaptureFixture
) -> None:
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            assert await ask(host, *[{"id": number, "method": "roots/list"} for number in range(5)]) == []
            assert (await connection.call_tool("echo")).content == "{}"
    assert len(caplog.records) == 1


async def test_a_question_during_the_handshake_is_answered(host: FakeHost) -> None:
    async def ping_first(process: FakeProcess) -> None:
        await process.peer.send({"id": "early", "method": "ping"})
        await serving(LEGACY)(process)

    host.scripts = [ping_first]
    with trio.fail_after(5):
        async with open_connection(SERVER):
            assert {"jsonrpc": "2.0", "id": "early", "result": {}} in host.processes[0].heard


@pytest.mark.parametrize("era", [LEGACY, MODERN], ids=["legacy", "modern"])
async def test_unknown_and_malformed_notifications_are_one_warning_each_kind(
    host: FakeHost, caplog: pytest.LogCaptureFixture, era: Any
) -> None:
    host.scripts = [serving(era)]
    odd: list[dict[str, Any]] = [
        {"method": "notifications/unheard/of"},
        {"method": "notifications/unheard/of", "params": 7},
        {"method": "notifications/message"},
        {"method": "notifications/message", "params": {"level": 7, "data": 1}},
        {"method": "notifications/progress", "params": []},
        {"method": "notifications/tools/list_changed", "params": "x"},
        {"method": "notifications/cancelled", "params": None},
        {"method": "notifications/resources/updated", "params": {"uri": "x"}},
    ]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            assert await ask(host, *odd) == []
            assert (await connection.call_tool("echo")).content == "{}"
    assert len(caplog.records) == 3  # unknown, a log message, progress


async def test_log_messages_go_to_the_servers_logger_redacted_in_order(
    host: FakeHost, caplog: pytest.LogCaptureFixture
) -> None:
    said = [("debug", "one"), ("notice", "two"), ("emergency", {"a": "s3cret-s3cret"}), ("odd", "four")]
    with trio.fail_after(5), caplog.at_level(logging.DEBUG, "trio_mcp.server.s"):
        async with open_connection(SERVER):
            await host.processes[0].peer.send(
                *[
                    {"method": "notifications/message", "params": {"level": level, "logger": "l", "data": data}}
                    for level, data in said
                ]
            )
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("DEBUG", "l: one"),
        ("INFO", "l: two"),
        ("CRITICAL", "l: {'a': '***'}"),
        ("INFO", "l: four"),
    ]
    assert {record.name for record in caplog.records} == {"trio_mcp.server.s"}


# --- stderr


async def test_on_stderr_gets_each_line_in_order_and_what_waits_at_close(host: FakeHost) -> None:
    lines: list[str] = []
    with trio.fail_after(5):
        async with open_connection(SERVER, on_stderr=lines.append) as connection:
            errors = host.processes[0].errors
            await errors.send_all(b"one\r\ntwo\n\nth")
            await wait_all_tasks_blocked()
            assert lines == ["one", "two", ""]
            await errors.send_all(b"ree\n" + b"".join(b"%d\n" % number for number in range(900)) + b"\xff end")
            assert connection.stderr_tail.startswith("one")
    assert lines == ["one", "two", "", "three", *map(str, range(900)), "\ufffd end"]


async def test_an_exception_in_on_stderr_is_logged_and_the_next_line_goes_on(
    host: FakeHost, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[str] = []

    def fail_on_two(line: str) -> None:
        if line == "two":
            raise KeyError(line)
        lines.append(line)

    with trio.fail_after(5):
        async with open_connection(SERVER, on_stderr=fail_on_two):
            await host.processes[0].errors.send_all(b"one\ntwo\nthree\n")
    assert lines == ["one", "three"]
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("trio_mcp.client", "on_stderr raised")
    assert record.exc_info


async def test_beyond_a_thousand_waiting_lines_the_oldest_are_dropped(host: FakeHost) -> None:
    assert WAITING == 1000
    lines: list[str] = []
    with trio.fail_after(5):
        async with open_connection(SERVER, on_stderr=lines.append):
            await host.processes[0].errors.send_all(b"".join(b"%d\n" % number for number in range(5000)))
    assert lines[-1000:] == [str(number) for number in range(4000, 5000)]
    assert len(lines) < 5000


async def test_stderr_of_a_server_that_dies_is_delivered_before_the_scope_is_left(host: FakeHost) -> None:
    lines: list[str] = []
    with trio.fail_after(5):
        async with open_connection(SERVER, on_stderr=lines.append) as connection:
            await host.processes[0].errors.send_all(b"last words\n")
            host.processes[0].exit(1)
            await connection.wait_done()
            assert connection.stderr_tail == "last words\n"
    assert lines == ["last words"]


async def test_stderr_is_delivered_to_the_end_under_an_outer_cancel(host: FakeHost) -> None:
    lines: list[str] = []

    async def say_at_the_end(process: FakeProcess) -> None:
        await serving(MODERN, deaf_to_eof=True)(process)
        await process.errors.send_all(b"tidied up\n")
        process.exit(0)

    host.scripts = [say_at_the_end]
    with trio.fail_after(5), trio.CancelScope() as scope:
        async with open_connection(SERVER, on_stderr=lines.append):
            scope.cancel()
            await trio.sleep_forever()
    assert lines == ["tidied up"]


async def test_the_tail_is_the_last_64_kib(host: FakeHost) -> None:
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            for _ in range(10):
                await host.processes[0].errors.send_all(b"x" * 50_000)
            await host.processes[0].errors.send_all(b"end")
            await wait_all_tasks_blocked()
            assert len(connection.stderr_tail) == 64 * 1024
            assert connection.stderr_tail.endswith("xend")


# --- counts


async def test_statistics_count_calls_bytes_late_answers_and_skipped_lines(host: FakeHost) -> None:
    host.scripts = [serving({**MODERN, "hang": None, "x/y": {}})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            before = connection.statistics()
            assert before.calls_in_flight == 0
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.request, "hang")
                await wait_all_tasks_blocked()
                assert connection.statistics().calls_in_flight == 1
                nursery.cancel_scope.cancel()
            await connection.call_tool("echo")
            await connection.request("x/y")
            (process,) = host.processes
            hanging = next(message for message in process.heard if message["method"] == "hang")
            await process.peer.answer(hanging, {})
            await process.peer.send(b"junk\n")
            await wait_all_tasks_blocked()
            after = connection.statistics()
    assert after.calls_in_flight == 0
    assert after.calls_done == before.calls_done + 2
    assert after.calls_failed == before.calls_failed + 1
    assert after.bytes_in > before.bytes_in
    assert after.bytes_out > before.bytes_out
    assert (after.late_answers, after.skipped_lines) == (1, 1)
    with pytest.raises(AttributeError):
        after.calls_done = 0  # type: ignore[misc]


async def test_what_was_not_sent_is_no_call(host: FakeHost) -> None:
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            before = connection.statistics()
            with pytest.raises(ValueError):
                await connection.call_tool("echo", "[]")
            assert connection.statistics() == before
