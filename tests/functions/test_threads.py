"""Plain functions run in worker threads of their own limiter; nothing waits for a thread that was cancelled."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.exposing import ERAS, raw, said, text_of
from trio_mcp import Tool, ToolServer, open_memory_connection, tool
from trio_mcp.functions.local_tool import ALL_THREADS, THREADS

BOUND = 10.0


class Gate:
    """A plain function that blocks its thread until the gate is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.entered = threading.Semaphore(0)
        self.inside = 0
        self._lock = threading.Lock()

    def wait(self) -> str:
        """Block."""
        with self._lock:
            self.inside += 1
        self.entered.release()
        self.opened.wait(BOUND)
        return "through"

    async def until_inside(self, number: int = 1) -> None:
        """Wait until so many more calls are inside."""
        for _ in range(number):
            assert await trio.to_thread.run_sync(lambda: self.entered.acquire(timeout=BOUND))


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()  # whatever happened: no thread stays


async def test_a_plain_function_runs_in_another_thread_and_an_async_one_in_this() -> None:
    def plain() -> bool:
        return threading.current_thread() is threading.main_thread()

    async def asynchronous() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert (await said(plain), await said(asynchronous)) == ("false", "true")


async def test_a_plain_wrapper_around_an_async_function_is_awaited_on_the_trio_thread() -> None:
    async def inner(number: int) -> str:
        await trio.lowlevel.checkpoint()
        return f"{number} {threading.current_thread() is threading.main_thread()}"

    def outer(number: int) -> Any:
        return inner(number)

    assert await said(outer, {"number": 3}) == "3 True"


async def test_context_variables_of_the_caller_are_seen() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    @tool
    def read() -> str:
        return variable.get()

    variable.set("mine")
    assert (await read.call(None)).content == "mine"


async def test_a_blocking_function_holds_up_neither_ping_nor_other_calls(gate: Gate) -> None:
    async def quick() -> str:
        return "quick"

    async with raw(gate.wait, quick) as client:
        await client.initialize()
        slow = await client.ask("tools/call", {"name": "wait"})
        await gate.until_inside()
        assert (await client.request("ping"))["result"] == {}
        assert text_of(await client.request("tools/call", {"name": "quick"})) == "quick"
        gate.opened.set()
        answer = await client.take()
        assert (answer["id"], text_of(answer)) == (slow, "through")


async def test_a_cancel_does_not_wait_for_the_thread(gate: Gate) -> None:
    made = tool(gate.wait)
    with trio.fail_after(BOUND / 2), trio.move_on_after(BOUND) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.call, None)
            await gate.until_inside()
            scope.cancel()
    assert scope.cancelled_caught
    assert not gate.opened.is_set()


async def test_a_cancel_notice_ends_the_call_and_nothing_is_answered(gate: Gate) -> None:
    async with raw(gate.wait) as client:
        await client.initialize()
        id_ = await client.ask("tools/call", {"name": "wait"})
        await gate.until_inside()
        await client.tell("notifications/cancelled", {"requestId": id_})
        assert await client.silent()
        gate.opened.set()
        assert await client.silent()


async def test_the_end_does_not_wait_for_the_thread(gate: Gate) -> None:
    server = ToolServer("blocking")
    server.add_tools(tool(gate.wait))
    with trio.fail_after(BOUND / 2):
        async with open_memory_connection(server) as connection, trio.open_nursery() as nursery:
            nursery.start_soon(connection.call_tool, "wait")
            await gate.until_inside()
            nursery.cancel_scope.cancel()
    assert not gate.opened.is_set()


async def test_forty_functions_run_at_once_and_leave_trios_own_threads_alone(gate: Gate) -> None:
    """Trio's limiter starts processes: a server full of blocking tools must still be able to start one."""
    made = tool(gate.wait)
    default = trio.to_thread.current_default_thread_limiter()
    with trio.fail_after(BOUND):
        async with trio.open_nursery() as nursery:
            for _ in range(THREADS + 5):
                nursery.start_soon(made.call, None)
            await gate.until_inside(THREADS)
            await wait_all_tasks_blocked()
            assert (THREADS, gate.inside) == (40, 40)
            assert default.borrowed_tokens == 0
            gate.opened.set()
    assert gate.inside == THREADS + 5


@pytest.mark.parametrize("era", ERAS)
async def test_functions_whose_calls_were_cancelled_keep_no_other_from_running(gate: Gate, era: Any) -> None:
    def other() -> str:
        return "at once"

    server = ToolServer("busy")
    server.add_tools(tool(gate.wait), tool(other))
    with trio.fail_after(BOUND / 2):
        async with open_memory_connection(server, protocol=era) as connection:
            async with trio.open_nursery() as nursery:
                for _ in range(THREADS):
                    nursery.start_soon(connection.call_tool, "wait")
                await gate.until_inside(THREADS)
                nursery.cancel_scope.cancel()
            assert (await connection.call_tool("other")).content == "at once"
    assert not gate.opened.is_set()


@pytest.mark.slow
async def test_clients_that_cancel_start_no_threads_without_end(gate: Gate) -> None:
    made = tool(gate.wait)
    with trio.fail_after(3 * BOUND):
        for _ in range(ALL_THREADS // THREADS):
            async with trio.open_nursery() as nursery:
                for _ in range(THREADS):
                    nursery.start_soon(made.call, None)
                await gate.until_inside(THREADS)
                nursery.cancel_scope.cancel()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.call, None)
            await wait_all_tasks_blocked()
            assert gate.inside == ALL_THREADS
            gate.opened.set()
    assert gate.inside == ALL_THREADS + 1


async def test_all_tools_share_the_limiter(gate: Gate) -> None:
    tools: list[Tool] = [tool(name=f"wait{number}")(gate.wait) for number in range(THREADS + 1)]
    with trio.fail_after(BOUND):
        async with trio.open_nursery() as nursery:
            for made in tools:
                nursery.start_soon(made.call, None)
            await gate.until_inside(THREADS)
            await wait_all_tasks_blocked()
            assert gate.inside == THREADS
            gate.opened.set()


def test_each_run_of_trio_has_a_limiter_of_its_own() -> None:
    @tool
    def one() -> int:
        return 1

    for _ in range(2):
        assert trio.run(one.call, None).structured == 1
