"""`call_tool(returns=...)`, `ToolResult.raw`, and looking a tool up by name."""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict

import attrs
import msgspec
import pytest
import trio

from trio_mcp import (
    Context,
    ProtocolError,
    ToolError,
    ToolResult,
    ToolServer,
    TypedToolResult,
    UnknownToolError,
    open_memory_connection,
    tool,
)


@attrs.frozen
class Weather:
    town: str
    degrees: list[float]


@dataclasses.dataclass
class PlainWeather:
    town: str
    degrees: list[float]


class WeatherDict(TypedDict):
    town: str
    degrees: list[float]


class WeatherStruct(msgspec.Struct):
    town: str
    degrees: list[float]


ROME = {"town": "Rome", "degrees": [21.5, 30]}


@tool
async def weather(context: Context) -> Any:
    """How it is in Rome."""
    return ToolResult("fine", structured_json=msgspec.json.encode(ROME))


@tool
async def odd(kind: str) -> Any:
    """Results that do not fit."""
    if kind == "failed":
        return ToolResult("no such town", is_error=True, structured_json=b"{}")
    if kind == "text":
        return ToolResult("fine")
    return ToolResult("fine", structured_json=kind.encode())


def server() -> ToolServer:
    made = ToolServer("weather")
    made.add_tools(weather, odd)
    return made


@pytest.mark.parametrize("cls", [Weather, PlainWeather, WeatherStruct])
async def test_structured_output_is_an_instance_of_the_class(cls: type[Any]) -> None:
    with trio.fail_after(5):
        async with open_memory_connection(server()) as connection:
            result = await connection.call_tool("weather", returns=cls)
    assert isinstance(result, ToolResult)
    assert result.value == cls(town="Rome", degrees=[21.5, 30])
    assert (result.content, result.structured) == ("fine", ROME)


async def test_typed_dicts_lists_and_pydantic_models_are_decoded_too() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Model(pydantic.BaseModel):  # type: ignore[name-defined,misc] # not there for mypy
        town: str
        degrees: list[float]

    with trio.fail_after(5):
        async with open_memory_connection(server()) as connection:
            assert (await connection.call_tool("weather", returns=WeatherDict)).value == ROME
            assert (await connection.call_tool("weather", returns=Model)).value == Model(**ROME)
            models = await connection.call_tool(
                "odd", {"kind": '[{"town": "Oslo", "degrees": []}]'}, returns=list[Model]
            )
            assert models.value == [Model(town="Oslo", degrees=[])]
            with pytest.raises(ProtocolError, match=r"^structuredContent\.degrees\[0\]: Input should be"):
                await connection.call_tool("odd", {"kind": '{"town": "a", "degrees": ["x"]}'}, returns=Model)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ('{"town": 7, "degrees": []}', "structuredContent.town: expected str, got int"),
        ('{"town": "a", "degrees": [1, "x"]}', "structuredContent.degrees[1]: expected float, got str"),
        ('{"degrees": []}', "structuredContent.town: missing, but required"),
        ("[]", "structuredContent: expected object, got array"),
        ("null", "structuredContent: expected object, got null"),
        ("text", "structuredContent: missing, but a value was asked for (returns=)"),
    ],
)
async def test_a_misfit_is_an_error_of_the_protocol_that_names_the_path(kind: str, reason: str) -> None:
    with trio.fail_after(5):
        async with open_memory_connection(server()) as connection:
            with pytest.raises(ProtocolError) as caught:
                await connection.call_tool("odd", {"kind": kind}, returns=Weather)
            assert caught.value.reason == reason
            assert connection.statistics().calls_failed == 1


async def test_a_failed_tool_has_no_value() -> None:
    with trio.fail_after(5):
        async with open_memory_connection(server()) as connection:
            result = await connection.call_tool("odd", {"kind": "failed"}, returns=Weather)
    assert result.is_error
    with pytest.raises(ToolError, match="no such town") as caught:
        _ = result.value
    assert caught.value.result is result


async def test_a_class_that_cannot_be_decoded_is_an_error_before_anything_is_sent() -> None:
    class Opaque:
        def __init__(self, *_: Any) -> None:
            pass

    with trio.fail_after(5):
        async with open_memory_connection(server()) as connection:
            with pytest.raises(TypeError, match="returns: "):
                await connection.call_tool("weather", returns=Opaque)
            assert connection.statistics().calls_done == 0


def test_a_typed_result_equals_another_one() -> None:
    assert TypedToolResult("a") == TypedToolResult("a")
    assert ToolResult("a", raw=b"1") == ToolResult("a")


async def test_the_result_is_kept_as_sent_however_long_it_is() -> None:
    with trio.fail_after(5):
        async with open_memory_connection(server()) as connection:
            result = await connection.call_tool("weather")
            assert result.raw is not None
            assert msgspec.json.decode(result.raw)["structuredContent"] == ROME
            large = await connection.call_tool("odd", {"kind": '"' + "x" * 100_000 + '"'})
            assert large.raw is not None
            assert len(large.raw) > 100_000
    assert ToolResult("made here").raw is None


# --- looking a tool up


async def test_a_tool_is_found_by_either_name_or_the_nearest_are_named() -> None:
    with trio.fail_after(5):
        async with open_memory_connection(server(), name="w") as connection:
            assert connection.tool("weather").name == "mcp__w__weather"
            assert connection.tool("mcp__w__odd").remote_name == "odd"
            with pytest.raises(UnknownToolError) as caught:
                connection.tool("wether")
            assert caught.value.nearest == ("weather",)
            assert str(caught.value) == 'unknown tool "wether"; did you mean "weather"?'
            with pytest.raises(UnknownToolError) as caught:
                connection.tool("zzz")
            assert (caught.value.nearest, str(caught.value)) == ((), 'unknown tool "zzz"')
