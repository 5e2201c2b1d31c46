"""`mask_errors`: strangers read of an exception nothing but that there was one, unless it was meant for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio

from tests.exposing import ERAS
from trio_mcp import Agent, Connection, ToolError, ToolResult, ToolServer, add_agent, open_memory_connection, tool

SECRET = "postgres://admin:hunter2@10.0.0.1"
MASKED = "the tool failed"


async def plain_failure() -> None:
    raise ValueError(SECRET)


def failure_in_a_thread() -> None:
    raise KeyError(SECRET)


async def group() -> None:
    raise ExceptionGroup("two", [ValueError(SECRET), OSError(SECRET)])


async def panic() -> None:
    raise GeneratorExit(SECRET)


async def program_end() -> None:
    raise SystemExit(SECRET)


async def wrong_return() -> int:
    return SECRET  # type: ignore[return-value]


@attrs.define
class Picky:
    name: str = attrs.field()

    @name.validator
    def _check(self, field: Any, value: str) -> None:
        raise RuntimeError(SECRET)


async def validator(picky: Picky) -> None:
    raise AssertionError


FAILING: list[Callable[..., Any]] = [
    *(plain_failure, failure_in_a_thread, group, panic, program_end, wrong_return)
]


async def texts(server: ToolServer, era: Any, **calls: Any) -> list[str]:
    with trio.fail_after(10):
        async with open_memory_connection(server, protocol=era) as connection:
            results = [await connection.call_tool(name, arguments) for name, arguments in calls.items()]
    assert all(result.is_error for result in results)
    return [result.content for result in results]


@pytest.mark.parametrize("era", ERAS)
async def test_of_what_a_tool_raises_clients_read_one_fixed_text_and_the_log_the_rest(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = ToolServer("s", mask_errors=True)
    server.add_tools(*(tool(function) for function in FAILING))
    names = {function.__name__: None for function in FAILING}
    assert await texts(server, era, **names) == [MASKED] * len(FAILING)
    told = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == len(FAILING)
    assert all(record.exc_info for record in told)
    assert caplog.text.count(SECRET) >= len(FAILING)


async def test_what_the_validator_of_a_users_class_raises_is_masked() -> None:
    server = ToolServer("s", mask_errors=True)
    server.add_tools(tool(validator))
    assert await texts(server, "modern", validator={"picky": {"name": "x"}}) == [MASKED]


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_meant_for_the_model_is_read_all_the_same(era: str) -> None:
    async def chosen() -> None:
        raise ToolError("there are no pears")

    async def in_a_group() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(chosen)

    async def own() -> ToolResult:
        return ToolResult("sold out", is_error=True)

    async def typed(count: int) -> None:
        raise AssertionError

    server = ToolServer("s", mask_errors=True)
    server.add_tools(tool(chosen), tool(in_a_group), tool(own), tool(typed))
    found = await texts(server, era, chosen=None, in_a_group=None, own=None, typed={"count": "x"})
    assert found[:3] == ["there are no pears", "there are no pears", "sold out"]
    assert found[3].startswith('arguments for "typed": ')


async def test_it_is_off_unless_it_is_asked_for() -> None:
    server = ToolServer("s")
    server.add_tools(tool(plain_failure))
    assert await texts(server, "modern", plain_failure=None) == [f"ValueError: {SECRET}"]
    with pytest.raises(TypeError, match="mask_errors: expected bool, got str"):
        ToolServer("s", mask_errors="yes")  # type: ignore[arg-type]


async def test_an_agent_and_the_wrappers_of_its_tools_are_masked_too() -> None:
    async def run(prompt: str) -> str:
        raise RuntimeError(SECRET)

    async def wrap(call: Any, proceed: Any) -> ToolResult:
        raise RuntimeError(SECRET)

    server = ToolServer("s", mask_errors=True)
    add_agent(server, Agent("parrot", run, tools=[tool(plain_failure)], wrap=[wrap]), "Repeats.")
    assert await texts(server, "modern", parrot={"prompt": "x"}, plain_failure=None) == [MASKED] * 2


async def test_a_connection_that_is_lost_is_masked_and_what_its_server_says_passes_through() -> None:
    async def fail() -> None:
        raise ToolError("no such city")

    upstream, server = ToolServer("up"), ToolServer("s", mask_errors=True)
    upstream.add_tools(tool(fail))
    connection: Connection
    async with open_memory_connection(upstream) as connection:
        server.add_tools(*connection.tools)
        (name,) = [one.name for one in server.tools]
        assert await texts(server, "modern", **{name: None}) == ["no such city"]
    assert await texts(server, "modern", **{name: None}) == [MASKED]
