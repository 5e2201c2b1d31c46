"""The embedded demo server: what each of its tools does, in both eras."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.exposing import ERAS
from trio_mcp import (
    ElicitRequest,
    ElicitResult,
    RequestError,
    Server,
    default_environment,
    demo,
    open_connection,
    open_memory_connection,
)
from trio_mcp.protocol.revisions import Era

EVERY_ERA = pytest.mark.parametrize("era", ERAS)


@EVERY_ERA
async def test_it_has_six_tools_each_with_a_description_and_described_parameters(era: Era) -> None:
    async with open_memory_connection(demo.server, protocol=era) as connection:
        assert [tool.remote_name for tool in connection.tools] == [
            "echo",
            "add",
            "slow",
            "flaky",
            "picture",
            "ask",
        ]
        for tool in connection.tools:
            assert tool.spec.description
            assert all("description" in field for field in tool.input_schema["properties"].values())
        assert connection.server_info["name"] == "trio-mcp-demo"
        assert connection.instructions


@EVERY_ERA
async def test_echo_and_add(era: Era) -> None:
    async with open_memory_connection(demo.server, protocol=era) as connection:
        assert (await connection.call_tool("echo", {"text": "é"})).content == "é"
        for arguments, sum_ in (({"a": 1, "b": 2}, 3), ({"a": 1.5, "b": 2}, 3.5)):
            result = await connection.call_tool("add", arguments)
            assert result.structured == {"sum": sum_}
            assert isinstance(result.structured["sum"], type(sum_))


@EVERY_ERA
@pytest.mark.parametrize(("seconds", "took"), [(5, 5), (-1, 0), (1000, 60)])
async def test_slow_takes_its_time_and_tells_how_far_it_is(
    seconds: float, took: float, era: Era, autojump_clock: MockClock
) -> None:
    reports: list[tuple[Any, ...]] = []

    async def on_progress(*report: Any) -> None:
        reports.append(report)

    async with open_memory_connection(demo.server, protocol=era) as connection:
        began = trio.current_time()
        result = await connection.call_tool("slow", {"seconds": seconds}, on_progress=on_progress)
        assert result.content == f"took {took} s"
        assert trio.current_time() - began == pytest.approx(took)
    assert reports == [(step, 10, f"step {step} of 10") for step in range(1, 11)]


async def test_flaky_fails_every_other_time() -> None:
    async with open_memory_connection(demo.server) as connection:
        results = [await connection.call_tool("flaky") for _ in range(4)]
    failures = [result.is_error for result in results]
    assert failures in ([True, False, True, False], [False, True, False, True])  # others may have called it before
    assert results[failures.index(True)].content.startswith("flaky failed")


@EVERY_ERA
async def test_picture_is_a_png(era: Era) -> None:
    async with open_memory_connection(demo.server, protocol=era) as connection:
        (image,) = (await connection.call_tool("picture")).images
    assert (image.mime_type, image.data[:8], image.data[-8:-4]) == ("image/png", b"\x89PNG\r\n\x1a\n", b"IEND")


@EVERY_ERA
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ElicitResult.accept({"colour": "red"}), "red, any shade"),
        (ElicitResult.accept({"colour": "red", "shade": "dark"}), "red, dark shade"),
        (ElicitResult.decline(), "no answer (decline)"),
        (ElicitResult.cancel(), "no answer (cancel)"),
    ],
    ids=str,
)
async def test_ask_asks(answer: ElicitResult, text: str, era: Era) -> None:
    async def on_elicit(request: ElicitRequest) -> ElicitResult:
        assert request.message == "What is your favourite colour?"
        return answer

    async with open_memory_connection(demo.server, protocol=era, on_elicit=on_elicit) as connection:
        assert (await connection.call_tool("ask")).content == text


async def test_ask_says_what_the_client_lacks() -> None:
    async with open_memory_connection(demo.server, protocol="legacy") as connection:
        result = await connection.call_tool("ask")
        assert (result.is_error, result.content) == (True, "the client does not offer elicitation")
    async with open_memory_connection(demo.server, protocol="modern") as connection:
        with pytest.raises(RequestError) as caught:
            await connection.call_tool("ask")
        assert caught.value.code == -32021


@EVERY_ERA
async def test_it_is_served_over_stdio_by_its_module(era: Era, nothing_left: dict[str, str]) -> None:
    root = demo.__file__.removesuffix("/trio_mcp/demo.py")
    env = {**default_environment(), **nothing_left, "PYTHONPATH": root}
    server = Server("demo", command=sys.executable, args=("-m", "trio_mcp.demo"), env=env, protocol=era)
    with trio.fail_after(30):
        async with open_connection(server) as connection:
            assert len(connection.tools) == 6
            assert (await connection.call_tool("echo", {"text": "hi"})).content == "hi"
