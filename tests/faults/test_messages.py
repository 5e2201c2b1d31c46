"""Faults 17 to 20: answers, notifications and questions that nobody asked for, and progress."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import trio

from tests.peers import ERAS, open_lives, peer, raw
from trio_mcp import Connection, ProtocolError, RequestError, open_connection

HELLO = '{"jsonrpc":"2.0","id":%ID%,"result":{"content":[{"type":"text","text":"hello"}]}}\n'


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def said(connection: Connection, data: str, **more: Any) -> str:
    return (await connection.call_tool("say", raw(data, **more))).content


# --- fault 17: a late, repeated or unknown answer


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_a_late_answer_is_counted_and_dropped(era: str) -> None:
    with trio.fail_after(10):
        async with open_lives() as lives, open_connection(peer(era=era, alive=lives.port)) as connection:
            with trio.move_on_after(0.1) as scope:
                await connection.call_tool("wait", {"seconds": 0.3})
            assert scope.cancelled_caught
            await lives.heard("notifications/cancelled")
            assert (await connection.call_tool("wait", {"seconds": 0.4})).content == "waited"
            assert connection.statistics().late_answers == 1


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_that_nobody_waits_for_is_counted_and_dropped(era: str) -> None:
    lines = {
        "repeated": HELLO + HELLO,
        "unknown": HELLO.replace("%ID%", "999999") + HELLO,
        "zero": HELLO.replace("%ID%", "0") + HELLO,
        "an unknown text": HELLO.replace("%ID%", '"never"') + HELLO,
        "a fraction": HELLO.replace("%ID%", "-1.5") + HELLO,
        "an error after": HELLO + '{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32603,"message":"too late"}}\n',
        "of nobody": HELLO + '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"of nobody"}}\n',
    }
    with trio.fail_after(10):
        async with open_connection(peer(era=era)) as connection:
            for count, (kind, data) in enumerate(lines.items(), start=1):
                assert await said(connection, data, answer=False) == "hello", kind
                assert (await connection.call_tool("echo")).content == "{}", kind
                assert connection.statistics().late_answers == count, kind
            assert connection.statistics().skipped_lines == 0


async def test_an_id_sent_back_in_another_form_is_taken() -> None:
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            for id_ in ('"%ID%"', "%ID%.0"):
                assert await said(connection, HELLO.replace("%ID%", id_), answer=False) == "hello"


async def test_an_error_without_an_id_is_that_of_the_only_call_in_flight() -> None:
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            for id_ in ("", '"id":null,'):
                error = '{"jsonrpc":"2.0",' + id_ + '"error":{"code":-32700,"message":"cannot read that"}}\n'
                with pytest.raises(RequestError, match="cannot read that"):
                    await said(connection, error, answer=False)


@pytest.mark.slow
async def test_a_malformed_answer_costs_its_own_call_alone() -> None:
    answers = {
        "neither result nor error": '{"jsonrpc":"2.0","id":%ID%}',
        "a result that is null": '{"jsonrpc":"2.0","id":%ID%,"result":null}',
        "a result that is text": '{"jsonrpc":"2.0","id":%ID%,"result":"hello"}',
        "content that is no list": '{"jsonrpc":"2.0","id":%ID%,"result":{"content":7}}',
        "an error that is text": '{"jsonrpc":"2.0","id":%ID%,"error":"went wrong"}',
        "an error without a code": '{"jsonrpc":"2.0","id":%ID%,"error":{"message":"went wrong"}}',
        "cut off": '{"jsonrpc":"2.0","id":%ID%,"result":{"content":[{"type":"te',
        "an unknown resultType": '{"jsonrpc":"2.0","id":%ID%,"result":{"resultType":"task","content":[]}}',
    }
    with trio.fail_after(20):
        async with open_connection(peer(era="modern")) as connection:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.call_tool, "wait", {"seconds": 0.5})  # another one, which goes on
                for data in answers.values():
                    with pytest.raises(ProtocolError):
                        await said(connection, data + "\n", answer=False)
            assert connection.statistics().calls_failed == len(answers)
            assert connection.statistics().calls_in_flight == 0


async def test_a_batch_of_answers_and_notifications_is_unpacked() -> None:
    with trio.fail_after(10):
        async with open_connection(peer(era="legacy", revision="2025-03-26")) as connection:
            assert await said(connection, f"[{HELLO.strip()}]\n", answer=False) == "hello"
            other = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
            assert await said(connection, f"[{other},{HELLO.strip()}]\n", answer=False) == "hello"


# --- fault 18: an unknown or malformed notification

ODD_NOTIFICATIONS = {
    "unknown": '{"jsonrpc":"2.0","method":"notifications/of/tomorrow","params":{"a":1}}',
    "without params": '{"jsonrpc":"2.0","method":"notifications/of/tomorrow"}',
    "params that are a list": '{"jsonrpc":"2.0","method":"notifications/message","params":[1]}',
    "params that are text": '{"jsonrpc":"2.0","method":"notifications/message","params":"hello"}',
    "params that are null": '{"jsonrpc":"2.0","method":"notifications/message","params":null}',
    "a message without params": '{"jsonrpc":"2.0","method":"notifications/message"}',
    "a message without a level": '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":1}}',
    "progress without params": '{"jsonrpc":"2.0","method":"notifications/progress"}',
    "progress without a token": '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}',
    "progress whose token is a list": (
        '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":[1],"progress":1}}'
    ),
    "an empty method": '{"jsonrpc":"2.0","method":""}',
}


@pytest.mark.parametrize("kind", ODD_NOTIFICATIONS)
async def test_an_odd_notification_is_dropped_with_one_warning(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            assert await said(connection, (ODD_NOTIFICATIONS[kind] + "\n") * 3) == "said"
            assert (await connection.call_tool("echo")).content == "{}"
    [warning] = warnings_in(caplog)
    assert warning.startswith('server "peer": ')


@pytest.mark.parametrize("era", ERAS)
async def test_notifications_of_features_not_used_here_are_no_news(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    methods = ("resources/list_changed", "prompts/list_changed", "resources/updated", "cancelled")
    with trio.fail_after(10):
        async with open_connection(peer(era=era)) as connection:
            lines = "".join(f'{{"jsonrpc":"2.0","method":"notifications/{method}"}}\n' for method in methods)
            assert await said(connection, lines) == "said"
    assert warnings_in(caplog) == []


async def test_log_messages_go_to_the_logger_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    message = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"LEVEL","data":"hot"}}\n'
    with trio.fail_after(10):
        async with open_connection(peer("oven")) as connection:
            assert await said(connection, message.replace("LEVEL", "warning")) == "said"
            assert await said(connection, message.replace("LEVEL", "emergency")) == "said"
            assert await said(connection, message.replace("LEVEL", "of tomorrow")) == "said"
    logged = [(record.levelname, record.getMessage()) for record in caplog.records if "oven" in record.name]
    assert logged == [("WARNING", "hot"), ("CRITICAL", "hot"), ("INFO", "hot")]


# --- fault 19: the server's own requests


async def answered(connection: Connection, method: str) -> dict[str, Any]:
    return json.loads((await connection.call_tool("question", {"method": method})).content)  # type: ignore[no-any-return]


async def test_a_legacy_ping_is_answered_with_an_empty_object() -> None:
    with trio.fail_after(10):
        async with open_connection(peer(era="legacy")) as connection:
            assert await answered(connection, "ping") == {"jsonrpc": "2.0", "id": "q0", "result": {}}


async def test_legacy_requests_for_what_is_not_offered_are_refused_at_once() -> None:
    methods = ("roots/list", "sampling/createMessage", "elicitation/create", "x/y", "")
    with trio.fail_after(10):
        async with open_connection(peer(era="legacy")) as connection:
            for count, method in enumerate(methods):
                answer = await answered(connection, method)
                assert answer["id"] == f"q{count}"
                assert answer["error"]["code"] == -32601


async def test_a_ping_before_the_handshake_is_answered() -> None:
    """The server initializes only once it has its answer."""
    source = """
initialize = peer.initialize
def ping_first(message):
    peer.ask("ping", {}, lambda answer: initialize(message) if answer["result"] == {} else None)
peer.initialize = ping_first
"""
    with trio.fail_after(10):
        async with open_connection(peer(era="legacy", source=source)) as connection:
            assert connection.protocol_version == "2025-11-25"


async def test_a_modern_server_may_not_ask_it_gets_no_answer_and_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with trio.fail_after(10):
        async with open_connection(peer(era="modern")) as connection:
            lines = '{"jsonrpc":"2.0","id":"q","method":"ping"}\n{"jsonrpc":"2.0","id":7,"method":"roots/list"}\n'
            assert await said(connection, lines) == "said"
            received = json.loads((await connection.call_tool("seen")).content)
    assert all("method" in message for message in received)
    assert len(warnings_in(caplog)) == 1


async def test_a_modern_call_that_needs_input_fails_alone_and_says_what_was_asked_for() -> None:
    data = (
        '{"jsonrpc":"2.0","id":%ID%,"result":{"resultType":"input_required","requestState":"s",'
        '"inputRequests":{"k":{"method":"elicitation/create","params":{}}}}}\n'
    )
    with trio.fail_after(10):
        async with open_connection(peer(era="modern")) as connection:
            with pytest.raises(ProtocolError) as caught:
                await said(connection, data, answer=False)
            assert str(caught.value) == "the server asks for elicitation/create, which is not offered"
            assert (await connection.call_tool("echo")).content == "{}"


# --- fault 20: progress

STEP = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%TOKEN%,"progress":1}}\n'


@pytest.mark.parametrize("era", ERAS)
async def test_all_progress_is_delivered_in_order_before_the_call_returns(era: str) -> None:
    got = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        await trio.lowlevel.checkpoint()
        got.append((progress, total, message))

    with trio.fail_after(20):
        async with open_connection(peer(era=era)) as connection:
            for steps in (1, 500):
                got.clear()
                result = await connection.call_tool("progress", {"steps": steps}, on_progress=on_progress)
                assert result.content == "done"
                assert got == [(step, steps, str(step)) for step in range(1, steps + 1)]


@pytest.mark.parametrize("era", ERAS)
async def test_progress_after_the_answer_or_for_nobody_is_dropped(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    got = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        got.append(progress)

    with trio.fail_after(10):
        async with open_connection(peer(era=era)) as connection:
            for token in ("0", '"0"', "999999", '"never"', "1.5", '""'):
                data = STEP.replace("%TOKEN%", token)
                arguments = raw(data)
                result = await connection.call_tool("say", arguments, on_progress=on_progress)
                assert result.content == "said"
            assert got == []
            arguments = raw(HELLO + STEP, answer=False)
            result = await connection.call_tool("say", arguments, on_progress=on_progress)
            assert result.content == "hello"
            assert (await connection.call_tool("echo")).content == "{}"
            assert got == []
            # Without on_progress no token goes out, and what comes all the same is dropped.
            assert (await connection.call_tool("progress", {"steps": 3})).content == "done"
    assert warnings_in(caplog) == []


async def test_a_token_sent_back_as_text_is_taken() -> None:
    got = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        got.append(progress)

    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            for token in ('"%TOKEN%"', "%TOKEN%.0"):
                arguments = raw(STEP.replace("%TOKEN%", token))
                await connection.call_tool("say", arguments, on_progress=on_progress)
    assert got == [1, 1]


async def test_progress_that_cannot_be_read_is_dropped_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    got = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        got.append((progress, message))

    bad = [
        STEP.replace('"progress":1', member) for member in ('"progress":"half"', '"total":2', '"progress":null')
    ]
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            result = await connection.call_tool("say", raw("".join([*bad, STEP])), on_progress=on_progress)
            assert result.content == "said"
    assert got == [(1, None)]
    assert len(warnings_in(caplog)) == 1


async def test_each_of_many_calls_gets_its_own_progress() -> None:
    async def follow(connection: Connection, steps: int) -> None:
        got = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            assert total == steps
            got.append(progress)

        await connection.call_tool("progress", {"steps": steps}, on_progress=on_progress)
        assert got == list(range(1, steps + 1))

    with trio.fail_after(20):
        async with open_connection(peer()) as connection, trio.open_nursery() as nursery:
            for steps in range(1, 51):
                nursery.start_soon(follow, connection, steps)
