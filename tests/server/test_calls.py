"""What a running tool says to its client, in both eras; what it knows; how it is cancelled."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.exposing import ERAS, Client, call, failure, modern, raw, text_of
from tests.strays import raise_stray_cancel
from trio_mcp import Agent, Context, ToolServer, add_agent, open_memory_connection, tool
from trio_mcp.protocol.revisions import Era
from trio_mcp.testing import open_functions
from trio_mcp.tools.context import LEVELS
from trio_mcp.tools.failures import STRAY_CANCEL

EVERY_ERA = pytest.mark.parametrize("era", ERAS)


async def begin(client: Client, era: Era, name: str, *, meta: dict[str, Any] | None = None, **more: Any) -> Any:
    """Begin a call in either era; its id."""
    if era == "modern":
        return await client.ask("tools/call", modern(name=name, meta=meta or {}, **more))
    return await client.ask("tools/call", {"name": name, **more, **({"_meta": meta} if meta else {})})


@tool
async def steps(context: Context) -> str:
    """Report four times, twice without having come further."""
    await context.progress(1)
    await context.progress(1, 4)
    await context.progress(0.5)
    await context.progress(2.5, 4, "more than half")
    return "done"


@tool
async def chat(context: Context) -> str:
    """Say something on each level."""
    for level in LEVELS:
        await context.log(level, {"of": level})
    return "done"


# --- progress


@EVERY_ERA
@pytest.mark.parametrize("token", [0, 7, "seven", ""], ids=repr)
async def test_progress_goes_out_with_its_token_before_the_answer_and_only_when_it_has_grown(
    token: Any, era: Era
) -> None:
    async with raw(steps) as client:
        await client.initialize()
        id_ = await begin(client, era, "steps", meta={"progressToken": token})
        reports = [await client.take() for _ in range(2)]
        assert [report["method"] for report in reports] == ["notifications/progress"] * 2
        assert [report["params"] for report in reports] == [
            {"progressToken": token, "progress": 1},
            {"progressToken": token, "progress": 2.5, "total": 4, "message": "more than half"},
        ]
        answer = await client.take()
        assert (answer["id"], text_of(answer)) == (id_, "done")


@EVERY_ERA
@pytest.mark.parametrize("meta", [{}, {"progressToken": None}, {"progressToken": True}, {"progressToken": 1.5}])
async def test_without_a_token_nothing_goes_out(meta: dict[str, Any], era: Era) -> None:
    async with raw(steps) as client:
        await client.initialize()
        id_ = await begin(client, era, "steps", meta=meta)
        assert (await client.take())["id"] == id_


@EVERY_ERA
async def test_progress_of_many_calls_reaches_each_its_own(era: Era) -> None:
    @tool
    async def count(to: int, context: Context) -> int:
        for number in range(to):
            await context.progress(number + 1, to)
        return to

    server = ToolServer("counting")
    server.add_tools(count)
    heard: dict[int, list[float]] = {}

    async def one(connection: Any, to: int) -> None:
        heard[to] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            assert total == to
            heard[to].append(progress)

        await connection.call_tool("count", {"to": to}, on_progress=on_progress)

    with trio.fail_after(10):
        async with open_memory_connection(server, protocol=era) as connection:
            async with trio.open_nursery() as nursery:
                for to in range(1, 30):
                    nursery.start_soon(one, connection, to)
    assert heard == {to: list(range(1, to + 1)) for to in range(1, 30)}


# --- log messages


async def levels_heard(client: Client, era: Era, **options: Any) -> list[str]:
    """The levels of the log messages of one call of `chat`."""
    id_ = await begin(client, era, "chat", **options)
    levels = []
    while "id" not in (message := await client.take()):
        assert message["method"] == "notifications/message"
        assert message["params"] == {
            "level": message["params"]["level"],
            "data": {"of": message["params"]["level"]},
        }
        levels.append(message["params"]["level"])
    assert message["id"] == id_
    return levels


async def test_a_modern_call_logs_nothing_unless_it_asks_and_then_from_its_level_on() -> None:
    async with raw(chat) as client:
        assert await levels_heard(client, "modern") == []
        for index, level in enumerate(LEVELS):
            assert await levels_heard(client, "modern", meta={"logLevel": level}) == list(LEVELS[index:])
        assert await levels_heard(client, "modern") == []


@pytest.mark.table("level", [None, "loud", 7, ["debug"]])
async def test_a_modern_level_that_is_none_asks_for_nothing(level: Any) -> None:
    async with raw(chat) as client:
        assert await levels_heard(client, "modern", meta={"logLevel": level}) == []


async def test_a_legacy_session_logs_from_info_on_until_a_level_is_set() -> None:
    async with raw(chat) as client:
        await client.initialize()
        assert await levels_heard(client, "legacy") == list(LEVELS[1:])
        for index, level in enumerate(LEVELS):
            assert (await client.request("logging/setLevel", {"level": level}))["result"] == {}
            assert await levels_heard(client, "legacy") == list(LEVELS[index:])


@EVERY_ERA
async def test_on_log_hears_every_level_in_the_order_of_the_wire(era: Era) -> None:
    server = ToolServer("chatting")
    server.add_tools(chat)
    heard: list[tuple[str, str | None, Any]] = []
    with trio.fail_after(5):
        async with open_memory_connection(
            server, protocol=era, on_log=lambda *item: heard.append(item)
        ) as connection:
            for _ in range(3):
                await connection.call_tool("chat")
    assert heard == [(level, None, {"of": level}) for level in LEVELS] * 3


@EVERY_ERA
async def test_an_exception_in_on_log_is_logged_and_the_next_message_goes_on(
    era: Era, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def on_log(level: str, source: str | None, data: Any) -> None:
        heard.append(level)
        if level == "notice":
            raise ValueError("mine")

    server = ToolServer("chatting")
    server.add_tools(chat)
    async with open_memory_connection(server, protocol=era, on_log=on_log) as connection:
        await connection.call_tool("chat")
    assert heard == list(LEVELS)
    assert [record.message for record in caplog.records] == ["on_log raised"]


async def test_without_on_log_a_modern_server_is_asked_for_nothing_and_a_legacy_one_writes_to_a_logger(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "trio_mcp.server")
    server = ToolServer("chatting")
    server.add_tools(chat)
    async with open_memory_connection(server, protocol="modern", name="new") as connection:
        await connection.call_tool("chat")
    assert caplog.records == []
    async with open_memory_connection(server, protocol="legacy", name="old") as connection:
        await connection.call_tool("chat")
    assert {record.name for record in caplog.records} == {"trio_mcp.server.old"}
    assert [record.levelname for record in caplog.records] == (
        ["INFO", "INFO", "WARNING", "ERROR", "CRITICAL", "CRITICAL", "CRITICAL"]
    )


@EVERY_ERA
async def test_a_log_message_that_json_cannot_say_fails_the_call_that_sends_it(era: Era) -> None:
    @tool
    async def odd(context: Context) -> None:
        await context.log("error", object())

    async with raw(odd) as client:
        await client.initialize()
        await begin(client, era, "odd", meta={"logLevel": "debug"} if era == "modern" else None)
        answer = await client.take()
        assert answer["result"]["isError"] is True


@EVERY_ERA
async def test_a_tool_that_ends_the_program_has_failed_and_ends_nothing(era: Era) -> None:
    async def leave() -> None:
        sys.exit("no such option")

    async def leave_from_a_task() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave)
            await trio.sleep_forever()

    def leave_from_a_thread() -> None:
        sys.exit("no such option")

    for function in (leave, leave_from_a_task, leave_from_a_thread):
        assert await failure(function, era=era) == "SystemExit: no such option"


async def test_an_interrupt_in_a_tool_ends_the_server_as_ever() -> None:
    async def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(BaseException) as caught:
        await call(interrupted)
    assert "KeyboardInterrupt" in repr(caught.value)


# --- what a tool knows


@EVERY_ERA
async def test_a_tool_knows_its_client_and_the_meta_of_its_call(era: Era) -> None:
    @tool
    async def who(context: Context) -> list[Any]:
        return [context.client_info, context.meta.get("com.example/x"), context.principal]

    server = ToolServer("server")
    server.add_tools(who)
    info = {"name": "me", "version": "3", "title": "Me"}
    async with open_memory_connection(server, protocol=era, client_info=info) as connection:
        result = await connection.call_tool("who", meta={"com.example/x": [1]})
        assert json.loads(result.content) == [info, [1], None]


# --- cancel


class Waiting:
    """A tool that waits, and remembers how it ended."""

    def __init__(self, at_end: Callable[[], None] = lambda: None) -> None:
        self.entered = trio.Event()
        self.ended: list[str] = []
        self._at_end = at_end

    @property
    def tool(self) -> Any:
        async def wait() -> str:
            self.entered.set()
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                self.ended.append("cancelled")
                raise
            finally:
                self._at_end()
            return "never"

        return tool(wait)


@EVERY_ERA
async def test_a_cancel_notice_cancels_the_handler_and_nothing_more_is_said(era: Era) -> None:
    waiting = Waiting()
    async with raw(waiting.tool) as client:
        await client.initialize()
        id_ = await begin(client, era, "wait")
        await waiting.entered.wait()
        await client.tell("notifications/cancelled", {"requestId": id_, "reason": "enough"})
        assert await client.silent()
        assert waiting.ended == ["cancelled"]


@EVERY_ERA
async def test_a_cancelled_call_of_a_connection_cancels_the_handler(era: Era) -> None:
    waiting = Waiting()
    server = ToolServer("server")
    server.add_tools(waiting.tool)
    with trio.fail_after(5):
        async with open_memory_connection(server, protocol=era) as connection:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(connection.call_tool, "wait")
                    await waiting.entered.wait()
                    scope.cancel()
            await wait_all_tasks_blocked()
            assert waiting.ended == ["cancelled"]


async def test_a_cancel_right_behind_its_request_is_not_lost() -> None:
    waiting = Waiting()
    async with raw(waiting.tool) as client:
        await client.initialize()
        await client.send(
            {"id": 77, "method": "tools/call", "params": {"name": "wait"}},
            {"method": "notifications/cancelled", "params": {"requestId": 77}},
        )
        assert await client.silent()
        assert waiting.ended in ([], ["cancelled"])
        assert len(client.service.running) == 0


async def test_a_cancel_goes_to_the_request_of_that_id_alone() -> None:
    one, other = Waiting(), Waiting()
    async with raw(tool(name="one")(one.tool.function), tool(name="other")(other.tool.function)) as client:
        await client.initialize()
        await client.ask("tools/call", {"name": "one"}, id_=7)
        await client.ask("tools/call", {"name": "other"}, id_="7")
        await one.entered.wait()
        await other.entered.wait()
        await client.tell("notifications/cancelled", {"requestId": "7"})
        assert await client.silent()
        assert (one.ended, other.ended) == ([], ["cancelled"])


async def test_a_tool_that_ends_in_spite_of_a_cancel_is_not_answered() -> None:
    async def stubborn() -> str:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("instead")  # takes the place of the cancel

    async with raw(stubborn) as client:
        await client.initialize()
        id_ = await client.ask("tools/call", {"name": "stubborn"})
        await wait_all_tasks_blocked()
        await client.tell("notifications/cancelled", {"requestId": id_})
        assert await client.silent()


async def test_what_fails_beside_a_cancel_is_logged_and_the_session_lives(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In a nursery the cancel and the failure come in one group; alone the failure would end the server."""

    async def fail_late() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("late")

    async def group() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_late)
            await trio.sleep_forever()

    async with raw(group) as client:
        for era in ERAS:
            await client.initialize()
            id_ = await begin(client, era, "group")
            await wait_all_tasks_blocked()
            await client.tell("notifications/cancelled", {"requestId": id_})
            assert await client.silent()
    assert len(caplog.records) == 2


# --- many


@EVERY_ERA
async def test_a_thousand_calls_in_flight_are_each_answered(era: Era) -> None:
    release, inside = trio.Event(), []

    @tool
    async def wait(number: int) -> int:
        inside.append(number)
        if len(inside) == 1000:
            release.set()  # all are in
        await release.wait()
        return number

    server = ToolServer("server")
    server.add_tools(wait)
    answers: dict[int, str] = {}

    async def one(connection: Any, number: int) -> None:
        answers[number] = (await connection.call_tool("wait", {"number": number})).content

    with trio.fail_after(20):
        async with open_memory_connection(server, protocol=era) as connection:
            async with trio.open_nursery() as nursery:
                for number in range(1000):
                    nursery.start_soon(one, connection, number)
    assert answers == {number: str(number) for number in range(1000)}


# --- a cancel that belongs to nobody


@EVERY_ERA
@pytest.mark.parametrize("with_more", [False, True])
async def test_a_cancel_of_somebody_elses_scope_fails_the_call_and_leaves_the_server_alone(
    era: Era, with_more: bool
) -> None:
    """A nursery takes it for its own cancel: the server would end for all, without a word."""

    @tool
    async def shared() -> None:
        try:
            await raise_stray_cancel()
        except trio.Cancelled as error:
            if with_more:
                raise BaseExceptionGroup("both", [error, ValueError("no pears")]) from None
            raise

    with trio.fail_after(5):
        async with open_functions(shared, steps, protocol=era) as connection:
            failed = await connection.call_tool("shared")
            assert failed.is_error
            assert failed.content == ("ValueError: no pears" if with_more else STRAY_CANCEL)
            assert (await connection.call_tool("steps")).content == "done"


@EVERY_ERA
async def test_a_wrapper_that_raises_a_cancel_of_somebody_elses_scope_fails_the_call(era: Era) -> None:
    server = ToolServer("s")
    add_agent(server, Agent("agent", raise_stray_cancel, tools=[steps], wrap=[raise_stray_cancel]), "Fails.")
    with trio.fail_after(5):
        async with open_memory_connection(server, protocol=era) as connection:
            for name, arguments in (("agent", {"prompt": "p"}), ("steps", {}), ("steps", {})):
                failed = await connection.call_tool(name, arguments)
                assert "trio.Cancelled of another cancel scope" in failed.content
