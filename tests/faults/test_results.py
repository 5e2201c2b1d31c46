"""Faults 29 to 32: odd results, numbers, failed tools, and calls without arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from tests.peers import ERAS, peer, raw
from trio_mcp import (
    Connection,
    InvalidArgumentsError,
    ProtocolError,
    RequestError,
    Text,
    ToolError,
    ToolResult,
    UnknownBlock,
    open_connection,
)


async def told(connection: Connection, result: str) -> ToolResult:
    """The result of a call that the server answers with this JSON."""
    data = '{"jsonrpc":"2.0","id":%ID%,"result":' + result + "}\n"
    return await connection.call_tool("say", raw(data, answer=False))


# --- fault 29: an unknown content block discards the result


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_block_is_kept_raw_beside_the_others(era: str) -> None:
    hologram = {"type": "hologram", "depth": 3, "data": "AAAA"}
    blocks = [{"type": "text", "text": "a"}, hologram, {"type": "text", "text": "b", "of": "tomorrow"}]
    with trio.fail_after(10):
        async with open_connection(peer(era=era)) as connection:
            result = await told(connection, json.dumps({"content": blocks, "of": "tomorrow"}))
    assert result.blocks[1] == UnknownBlock("hologram", hologram)
    assert result.content == "a\n[content: hologram]\nb"
    assert not result.is_error


async def test_a_block_that_does_not_decode_is_kept_raw_and_costs_no_other() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "text"},
        {"type": "text", "text": 17},
        {"type": "image", "data": "not base64!", "mimeType": "image/png"},
        {"type": "image", "mimeType": "image/png"},
        {"type": "resource"},
        {"type": "resource", "resource": {"text": "no uri"}},
        {"type": "resource_link", "name": "no uri"},
    ]
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            for block in blocks:
                result = await told(connection, json.dumps({"content": [block, {"type": "text", "text": "b"}]}))
                assert result.blocks == (UnknownBlock(block["type"], block), Text("b"))
                assert result.content.startswith(f"[content: {block['type']}")
                assert ": " in result.content.splitlines()[0].removeprefix("[content: "), "it says why"
                assert result.content.endswith("]\nb")


# --- fault 30: integers beyond 2^53; NaN


@pytest.mark.parametrize("era", ERAS)
async def test_integers_are_exact_both_ways(era: str) -> None:
    numbers = [2**53 + 1, -(2**53) - 1, 2**63, 2**64 + 1, 10**40 + 7]
    with trio.fail_after(10):
        async with open_connection(peer(era=era)) as connection:
            echoed = (await connection.call_tool("echo", {"numbers": numbers})).content
            assert json.loads(echoed) == {"numbers": numbers}
            text = json.dumps({"numbers": numbers})
            assert (await connection.call_tool("echo", text)).content == text
            structured = await told(connection, '{"content":[],"structuredContent":' + text + "}")
            assert structured.structured == {"numbers": numbers}
            assert await connection.request("tools/call", {"name": "echo", "arguments": {}, "n": numbers})
            received = json.loads((await connection.call_tool("seen")).content)
    assert received[-2]["params"]["n"] == numbers


async def test_numbers_in_a_schema_are_exact_and_verbatim() -> None:
    source = """
def answer(id_, result):
    schema = b'{"type":"object","properties":{"n":{"maximum":18446744073709551617,"default":1.10}}}'
    head = b'{"jsonrpc":"2.0","id":%d,"result":{"tools":[{"name":"echo","inputSchema":' % id_
    write_all(1, head + schema + b"}]}}\\n")
peer.answer = answer
"""
    with trio.fail_after(10):
        async with open_connection(peer(era="legacy", source=source)) as connection:
            [tool] = connection.tools
    assert b'"maximum":18446744073709551617,"default":1.10' in tool.input_schema_json
    assert tool.input_schema["properties"]["n"]["maximum"] == 2**64 + 1


async def test_nan_in_a_result_is_read_as_python_can() -> None:
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            result = await told(connection, '{"content":[],"structuredContent":{"n":[NaN,Infinity,-Infinity]}}')
            assert str(result.structured) == "{'n': [nan, inf, -inf]}"
            result = await told(
                connection, '{"content":[{"type":"text","text":"lone \\\\ud800"}]}'.replace("\\\\", "\\")
            )
            assert result.content == "lone \ud800"


@pytest.mark.slow
@pytest.mark.parametrize(
    "result",
    ['{"content":[' + "[" * 100_000 + "]" * 100_000 + "]}", '{"content":[1e999999999999x]}', '{"content":nul}'],
    ids=["too deep", "no number", "no word"],
)
async def test_what_cannot_be_decoded_costs_that_call_alone(result: str) -> None:
    with trio.fail_after(10):
        async with open_connection(peer()) as connection, trio.open_nursery() as nursery:
            nursery.start_soon(connection.call_tool, "wait", {"seconds": 0.2})
            with pytest.raises(ProtocolError):
                await told(connection, result)
            assert (await connection.call_tool("echo")).content == "{}"


async def test_nan_in_arguments_is_refused_before_anything_is_sent() -> None:
    numbers = (float("nan"), float("inf"), -float("inf"))
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            given: list[dict[str, Any] | str] = [{"a": [{"b": n}]} for n in numbers]
            for arguments in (*given, *(json.dumps({"a": n}) for n in numbers)):
                with pytest.raises(InvalidArgumentsError, match="is no JSON number"):
                    await connection.call_tool("echo", arguments)
            received = json.loads((await connection.call_tool("seen")).content)
    assert [message["params"]["name"] for message in received if message["method"] == "tools/call"] == ["seen"]


# --- fault 31: isError lost or raised as a crash


@pytest.mark.parametrize("era", ERAS)
async def test_a_failed_tool_is_data_to_call_and_a_tool_error_to_invoke(era: str) -> None:
    source = """
def echo(peer, id_, arguments, meta):
    content = text(arguments["text"])["content"] if arguments["text"] else []
    peer.answer(id_, {"content": content, "isError": True})
CALLS["echo"] = echo
"""
    with trio.fail_after(10):
        server = peer(era=era, source=source, listed=[{"name": "echo", "inputSchema": {"type": "object"}}])
        async with open_connection(server) as connection:
            [tool] = connection.tools
            result = await connection.call_tool("echo", {"text": "disk full"})
            assert result.is_error
            assert result.content == "disk full"
            assert await tool.call({"text": "disk full"}) == result
            with pytest.raises(ToolError) as caught:
                await tool.invoke({"text": "disk full"})
            assert str(caught.value) == "disk full"
            assert caught.value.result == result
            with pytest.raises(ToolError, match=r"^mcp: tool returned an error$"):
                await tool.invoke({"text": ""})
            assert connection.statistics().calls_failed == 0


@pytest.mark.parametrize("era", ERAS)
async def test_a_json_rpc_error_is_raised_with_code_message_and_data(era: str) -> None:
    error = {"code": -32602, "message": "bad\nthing", "data": {"field": "a"}}
    with trio.fail_after(10):
        async with open_connection(peer(era=era)) as connection:
            data = '{"jsonrpc":"2.0","id":%ID%,"error":' + json.dumps(error) + "}\n"
            with pytest.raises(RequestError) as caught:
                await connection.call_tool("say", raw(data, answer=False))
            with pytest.raises(RequestError, match="unknown tool"):
                await connection.call_tool("no such tool")
            with pytest.raises(RequestError, match="no such method"):
                await connection.request("no/such/method")
            # A null beside a result is no error, and a result beside an error is none.
            both = '{"jsonrpc":"2.0","id":%ID%,"result":{"content":[]},"error":ERROR}\n'
            result = await connection.call_tool("say", raw(both.replace("ERROR", "null"), answer=False))
            assert result == ToolResult()
            with pytest.raises(RequestError):
                await connection.call_tool("say", raw(both.replace("ERROR", json.dumps(error)), answer=False))
    assert (caught.value.code, caught.value.data) == (-32602, {"field": "a"})
    assert caught.value.message == "bad\nthing"


async def test_an_is_error_that_is_no_boolean_is_never_silently_a_success() -> None:
    """JSON null stands for absent; what can mean one thing only is read; the rest breaks the protocol."""
    result = '{"content":[],"isError":%}'
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            assert not (await told(connection, result.replace("%", "null"))).is_error
            for is_error in ('"true"', "1"):
                assert (await told(connection, result.replace("%", is_error))).is_error
            for is_error in ('""', "2", "[]"):
                with pytest.raises(ProtocolError, match="isError"):
                    await told(connection, result.replace("%", is_error))


# --- fault 32: null, absent and {} arguments


@pytest.mark.parametrize("era", ERAS)
async def test_an_object_always_goes_out(era: str) -> None:
    nothing: list[Any] = [None, {}, "", "  \n", "null", b"", b" null ", "{}", bytearray(b"{}"), memoryview(b"")]
    with trio.fail_after(10):
        async with open_connection(peer(era=era)) as connection:
            for arguments in nothing:
                assert (await connection.call_tool("echo", arguments)).content == "{}"
                tool = next(tool for tool in connection.tools if tool.remote_name == "echo")
                assert (await tool.call(arguments)).content == "{}"
            assert (await connection.call_tool("echo")).content == "{}"
            received = json.loads((await connection.call_tool("seen")).content)
    calls = [message["params"] for message in received if message["method"] == "tools/call"]
    assert len(calls) == 2 * len(nothing) + 2
    assert [call["arguments"] for call in calls] == [{}] * len(calls)


async def test_what_is_no_object_is_refused_by_name_and_nothing_is_sent() -> None:
    bad: list[Any] = ["[1]", "17", '"text"', "{", "{}{}", "{'a': 1}", [1], 17, b"\xff", {"a": {1}}]
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            for arguments in bad:
                with pytest.raises(InvalidArgumentsError, match=r'^arguments for "echo" are not a JSON object: '):
                    await connection.call_tool("echo", arguments)
            received = json.loads((await connection.call_tool("seen")).content)
    assert sum(message["method"] == "tools/call" for message in received) == 1


async def test_raw_arguments_pass_verbatim_but_for_line_ends_between_tokens() -> None:
    source = """
def take(chunk, take=peer.take):
    peer.last = chunk
    take(chunk)
def seen(peer, id_, arguments, meta):
    peer.answer(id_, text(peer.last.decode()))
peer.take, CALLS["seen"] = take, seen
"""
    with trio.fail_after(10):
        async with open_connection(peer(source=source)) as connection:
            given = '{ "a" :\t1.10,\r\n"a": 1e2,\n "b":"\\u00e9é\\n" }'
            line = (await connection.call_tool("seen", given)).content
    assert '"arguments":{ "a" :\t1.10,  "a": 1e2,  "b":"\\u00e9é\\n" }' in line
    assert line.endswith("\n")
    assert line.count("\n") == 1
