"""What user code raises that is no `Exception` ends its own call: no server, no other call, no turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.exposing import ERAS, modern, raw, text_of
from tests.serving import echo, serving
from trio_mcp import (
    Agent,
    Context,
    Policy,
    Toolbox,
    ToolCall,
    ToolResult,
    ToolServer,
    Unauthorized,
    add_agent,
    open_memory_connection,
    tool,
)
from trio_mcp.tools.failures import STRAY_CANCEL


class PanicException(BaseException):
    """As extension modules in Rust raise it (pyo3)."""


class Mute(Exception):  # noqa: N818 - it is what it is
    """An exception that cannot be told."""

    def __str__(self) -> str:
        raise PanicException("in __str__")


class MutePanic(BaseException):
    """Neither an `Exception`, nor one that can be told."""

    def __str__(self) -> str:
        raise PanicException("in __str__")


async def nested_loop() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    await trio.lowlevel.checkpoint()
    asyncio.run(cancelled())


def raising(kind: type[BaseException]) -> Callable[[], Awaitable[None]]:
    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise kind

    return fail


def in_thread() -> None:
    raise PanicException("out of bounds")


async def in_a_group() -> None:
    await trio.lowlevel.checkpoint()
    raise BaseExceptionGroup("two", [PanicException(), asyncio.CancelledError()])


async def in_a_group_with_a_cancel() -> None:
    """The cancel is an inner one, and passes the scope that it is meant for within a group."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(raising(PanicException))
        try:
            await trio.sleep_forever()
        finally:
            raise PanicException("while tidying up")


async def of_another_task() -> None:
    """A cancel that was caught in one task, and raised again in another that nobody cancelled."""
    kept: list[trio.Cancelled] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            kept.append(error)
    raise kept[0]


FAILING: dict[str, tuple[Callable[[], Any], str]] = {
    "a nested event loop": (nested_loop, "CancelledError"),
    "an extension module": (raising(PanicException), "PanicException"),
    "a thread": (in_thread, "PanicException: out of bounds"),
    "a generator's end": (raising(GeneratorExit), "GeneratorExit"),
    "no text": (raising(Mute), "Mute"),
    "no text, no Exception": (raising(MutePanic), "MutePanic"),
    "a group": (in_a_group, "BaseExceptionGroup: two (2 sub-exceptions)"),
    "a group with a cancel": (in_a_group_with_a_cancel, "BaseExceptionGroup: Exceptions from Trio nursery"),
    "a cancel of another task": (of_another_task, STRAY_CANCEL),
}


@pytest.mark.table("where", sorted(FAILING))
@pytest.mark.parametrize("era", ERAS)
async def test_over_a_stream_it_is_a_failed_result_and_other_calls_go_on(era: str, where: str) -> None:
    function, text = FAILING[where]
    failing, opened = tool(name="failing")(function), trio.Event()

    async def wait() -> str:
        await opened.wait()
        return "through"

    async with raw(failing, tool(wait)) as client:
        if era == "legacy":
            await client.initialize()
        params = [{"name": "wait"}, {"name": "failing"}]
        if era == "modern":
            params = [modern(**one) for one in params]
        waiting = await client.ask("tools/call", params[0])
        answer = await client.request("tools/call", params[1])
        assert answer["result"]["isError"] is True
        assert text_of(answer).startswith(text)
        opened.set()
        answer = await client.take()
        assert (answer["id"], text_of(answer)) == (waiting, "through")


@pytest.mark.table("where", sorted(FAILING))
@pytest.mark.parametrize("era", ERAS)
async def test_over_http_it_is_a_failed_result_and_other_clients_calls_go_on(era: str, where: str) -> None:
    function, text = FAILING[where]
    failing, opened = tool(name="failing")(function), trio.Event()

    async def wait() -> str:
        await opened.wait()
        return "through"

    async with serving(failing, wait) as served:
        waiting, line = await served.connect(), await served.connect()
        if era == "legacy":
            await line.initialize()
            await waiting.initialize()
            await waiting.begin_legacy("tools/call", {"name": "wait"})
            answer = await line.legacy("tools/call", {"name": "failing"}, 2)
        else:
            await waiting.begin_modern("tools/call", name="wait")
            answer = await line.modern("tools/call", 2, name="failing")
        assert answer.result["isError"] is True
        assert answer.result["content"][0]["text"].startswith(text)
        opened.set()
        assert (await waiting.rest(await waiting.head())).result["content"][0]["text"] == "through"


@pytest.mark.table("where", sorted(FAILING))
@pytest.mark.table("place", ["tool", "wrapper", "approve", "on_outcome"])
async def test_in_a_turn_it_is_the_outcome_of_that_call(where: str, place: str) -> None:
    function, text = FAILING[where]

    async def fail(*_: Any) -> Any:
        found = function()
        return await found if isinstance(found, Awaitable) else found

    async def told(outcome: Any) -> None:
        if place == "on_outcome" and outcome.name == "failing":
            await fail()

    async def fine() -> str:
        await wait_all_tasks_blocked()
        return "fine"

    policy = Policy(wrap=[fail] if place == "wrapper" else (), require_approval=place == "approve")
    failing = tool(name="failing", read_only=True, policy=policy)(function if place == "tool" else fine)
    toolbox = Toolbox([failing, tool(read_only=True)(fine)])
    calls = [ToolCall("1", "failing", {}), ToolCall("2", "fine", {})]
    with trio.fail_after(10):
        first, second = await toolbox.run(calls, approve=fail, on_outcome=told)
    assert (second.content, second.is_error) == ("fine", False)
    if place == "on_outcome":
        assert first.content == "fine"
    else:
        assert first.is_error
        assert first.content.removeprefix("mcp: ").startswith(text)
        assert first.error is not None


async def test_a_cancel_of_the_call_is_no_failure_whatever_is_raised_beside_it() -> None:
    entered = trio.Event()

    async def messy() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                entered.set()
                await trio.sleep_forever()
            finally:
                raise PanicException

    async with raw(messy) as client:
        await client.initialize()
        id_ = await client.ask("tools/call", {"name": "messy"})
        await entered.wait()
        await client.tell("notifications/cancelled", {"requestId": id_})
        await wait_all_tasks_blocked()
        await client.ask("ping", id_="after")
        answers = [await client.take()]
        while answers[-1]["id"] != "after":
            answers.append(await client.take())
        assert all("result" not in one or one["id"] == "after" for one in answers)


async def test_what_an_agents_wrapper_raises_is_a_failed_result() -> None:
    async def panic(call: ToolCall, proceed: Any) -> ToolResult:
        await trio.lowlevel.checkpoint()
        raise PanicException("in the wrapper")

    async def run(prompt: str) -> str:
        await trio.lowlevel.checkpoint()
        raise asyncio.CancelledError

    server = ToolServer("zoo")
    add_agent(server, Agent("parrot", run, tools=[tool(echo)], wrap=[panic]), "Repeats.")
    async with open_memory_connection(server) as connection:
        assert (await connection.call_tool("echo")).content == "PanicException: in the wrapper"
        assert (await connection.call_tool("parrot", {"prompt": "x"})).content == "CancelledError"


@pytest.mark.table("kind", [asyncio.CancelledError, PanicException, GeneratorExit, SystemExit, Mute, MutePanic])
async def test_what_authorize_raises_is_a_500_of_that_request_alone(kind: type[BaseException]) -> None:
    async def admit(headers: Mapping[str, str]) -> None:
        await trio.lowlevel.checkpoint()
        if "x-bad" in headers:
            raise kind

    async with serving(echo, authorize=admit) as served:
        line = await served.connect()
        failed = await line.ask("POST", json.dumps({}).encode(), x_bad="1")
        assert (failed.status, failed.body) == (500, b"internal error")
        assert (await line.modern("tools/list")).status == 200


async def test_a_refusal_that_cannot_be_told_is_a_refusal() -> None:
    class Unspeakable(Unauthorized):
        def __str__(self) -> str:
            raise PanicException

    async def admit(headers: Mapping[str, str]) -> None:
        await trio.lowlevel.checkpoint()
        raise Unspeakable

    async with serving(echo, authorize=admit) as served:
        assert (await (await served.connect()).ask("POST", b"{}")).status == 401


async def test_a_failure_beside_a_question_to_the_client_still_asks_it() -> None:
    @tool
    async def ask(context: Context) -> str:
        try:
            await context.ask("elicitation/create", {"message": "?", "requestedSchema": {"type": "object"}})
        finally:
            raise PanicException("while unwound")

    async with raw(ask) as client:
        answer = await client.modern("tools/call", name="ask", meta={"clientCapabilities": {"elicitation": {}}})
        assert answer["result"]["resultType"] == "input_required"
