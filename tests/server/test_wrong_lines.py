"""Lines that are no requests: each is told what is wrong with it, and none ends the session."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import memory_stream_pair

from tests.depth import examples
from tests.exposing import Client, modern, raw, text_of
from trio_mcp import ToolServer, tool
from trio_mcp.server.streams import StreamService

PARSE_ERROR = {"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}}
INVALID = {"code": -32600, "message": "Invalid Request"}


async def echo(text: str) -> str:
    return text


async def lives(client: Client) -> bool:
    """Whether the session goes on, in both eras."""
    new = await client.modern("tools/call", name="echo", arguments={"text": "new"})
    await client.initialize()
    old = await client.request("tools/call", {"name": "echo", "arguments": {"text": "old"}})
    return (text_of(new), text_of(old)) == ("new", "old")


@pytest.mark.table(
    "line",
    [
        b"{",
        b"{not json}",
        b'{"jsonrpc":"2.0","id":1,"method":"pi',
        b"Content-Length: 20",
        b"'",
        b"\xff\xfe",
        b"\x00",
        b'{"jsonrpc":"2.0","id":7,"method":"ping"} {}',
        b'{"jsonrpc":"2.0","id":7,"method":"ping","params":' + b"[" * 20000 + b"]" * 20000 + b"}",
    ],
    ids=lambda line: repr(line[:20]),
)
async def test_bad_json_is_a_parse_error_without_an_id(line: bytes) -> None:
    async with raw(echo) as client:
        await client.send(line + b"\n")
        assert await client.take() == PARSE_ERROR
        assert await lives(client)


@pytest.mark.table(
    ("line", "id_"),
    [
        ("{}", None),
        ("[]", None),
        ("null", None),
        ("7", None),
        ('"ping"', None),
        ('{"jsonrpc":"2.0","id":5}', 5),
        ('{"jsonrpc":"2.0","id":"a"}', "a"),
        ('{"jsonrpc":"2.0","id":5,"method":7}', 5),
        ('{"jsonrpc":"2.0","method":["ping"]}', None),
        # base protocol: the id is "a string or integer"
        ('{"jsonrpc":"2.0","id":null,"method":"ping"}', None),
        ('{"jsonrpc":"2.0","id":true,"method":"ping"}', None),
        ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None),
        ('{"jsonrpc":"2.0","id":1.0,"method":"ping"}', None),
        ('{"jsonrpc":"2.0","id":{},"method":"ping"}', None),
        ('{"jsonrpc":"2.0","id":[1],"method":"ping"}', None),
        ('{"jsonrpc":"2.0","id":NaN,"method":"ping"}', None),
    ],
)
async def test_what_is_no_request_is_invalid_and_told_by_its_id_where_it_has_one(line: str, id_: Any) -> None:
    async with raw(echo) as client:
        await client.send(line.encode() + b"\n")
        expected = {"jsonrpc": "2.0", "error": INVALID}
        assert await client.take() == (expected if id_ is None else {**expected, "id": id_})
        assert await lives(client)


@pytest.mark.table(
    "params", ["[]", "7", '"x"', "[1]", "true", '{"_meta":7}', '{"_meta":[]}', '{"_meta":"x"}'], ids=str
)
@pytest.mark.table("method", ["initialize", "tools/list", "tools/call", "server/discover"])
async def test_params_that_are_no_object_are_invalid_params(method: str, params: str) -> None:
    async with raw(echo) as client:
        await client.send(f'{{"jsonrpc":"2.0","id":5,"method":"{method}","params":{params}}}\n'.encode())
        answer = await client.take()
        assert (answer["id"], answer["error"]["code"]) == (5, -32602)
        assert await lives(client)


@pytest.mark.table("line", ["", " ", "\t", "\r"])
async def test_a_blank_line_says_nothing(line: str) -> None:
    async with raw(echo) as client:
        await client.send(line.encode() + b"\n")
        assert await client.silent()


@pytest.mark.table(
    "message",
    [
        {"method": "notifications/unknown"},
        {"method": "ping"},
        {"method": "tools/list", "params": []},
        {"method": "notifications/cancelled"},
        {"method": "notifications/cancelled", "params": {}},
        {"method": "notifications/cancelled", "params": {"requestId": None}},
        {"method": "notifications/cancelled", "params": {"requestId": [1]}},
        {"method": "notifications/cancelled", "params": {"requestId": 99}},
        {"method": "notifications/cancelled", "params": 7},
        {"method": "notifications/initialized", "params": 7},
        {"method": "notifications/progress", "params": {"progressToken": 7, "progress": 1}},
        {"method": "notifications/progress"},
        {"id": 99, "result": {}},
        {"id": 99, "error": {"code": 1, "message": "x"}},
        {"id": 99, "error": "x"},
    ],
    ids=str,
)
async def test_what_needs_no_answer_gets_none(message: dict[str, Any]) -> None:
    async with raw(echo) as client:
        await client.send(message)
        assert await client.silent()
        assert await lives(client)


async def test_an_id_is_given_back_as_it_came() -> None:
    async with raw() as client:
        for id_ in (0, -1, 2**70, "", "7", 'q"\n', "\ud800", "é"):
            assert await client.ask("ping", id_=id_) == id_
            answer = await client.take()
            assert (answer["id"], type(answer["id"])) == (id_, type(id_))


async def test_names_and_methods_with_lone_surrogates_are_answered() -> None:
    async with raw() as client:
        assert (await client.modern("\ud800"))["error"]["message"] == "Method not found: \ud800"
        error = (await client.modern("tools/call", name="\ud800"))["error"]
        assert (error["code"], error["message"]) == (-32602, 'unknown tool "\ud800"')


async def test_a_request_is_read_whatever_its_line_end_and_its_encoding_marks() -> None:
    request = b'{"jsonrpc":"2.0","id":5,"method":"ping"}'
    async with raw() as client:
        for line in (request + b"\r\n", b"\xef\xbb\xbf" + request + b"\n", b"  " + request + b"  \n"):
            await client.send(line)
            assert (await client.take())["id"] == 5


# --- ids that are in use


async def test_an_id_that_is_still_running_is_invalid_and_the_first_goes_on() -> None:
    release = trio.Event()
    runs = []

    async def wait() -> str:
        runs.append(1)
        await release.wait()
        return "done"

    async with raw(wait) as client:
        await client.initialize()
        for _ in range(2):
            await client.ask("tools/call", {"name": "wait"}, id_="same")
        refused = await client.take()
        assert (refused["id"], refused["error"]["code"]) == ("same", -32600)
        release.set()
        answer = await client.take()
        assert (answer["id"], text_of(answer)) == ("same", "done")
        assert runs == [1]


async def test_an_id_may_come_again_once_it_has_been_answered_and_the_string_is_another() -> None:
    async with raw(echo) as client:
        await client.initialize()
        for id_ in (7, 7, "7"):
            await client.ask("tools/call", {"name": "echo", "arguments": {"text": "x"}}, id_=id_)
            assert (await client.take())["id"] == id_


# --- batches


BATCH = b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"method":"notifications/x"},{"id":2,"method":"ping"}]\n'


async def test_a_batch_is_answered_where_that_revision_was_agreed_on() -> None:
    async with raw(echo) as client:
        await client.initialize("2025-03-26")
        await client.send(BATCH)
        assert [(await client.take())["id"] for _ in range(2)] == [1, 2]
        assert await lives(client)


@pytest.mark.table("revision", [None, "2024-11-05", "2025-06-18", "2025-11-25"])
@pytest.mark.table("batch", [BATCH, b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n', b" [] \n"])
async def test_a_batch_is_invalid_in_every_other_revision(batch: bytes, revision: str | None) -> None:
    async with raw(echo) as client:
        if revision is not None:
            await client.initialize(revision)
        await client.send(batch)
        assert await client.take() == {"jsonrpc": "2.0", "error": INVALID}
        assert await lives(client)


# --- anything at all


def served(data: bytes) -> list[dict[str, Any]]:
    """What a server says to these bytes; at the end it must answer one more request."""

    async def serve(server: ToolServer, stream: trio.abc.Stream) -> None:
        await StreamService(server, stream, stream, grace=1).run()
        await stream.aclose()

    async def main() -> list[dict[str, Any]]:
        server = ToolServer("fuzz")
        server.add_tools(tool(echo))
        ours, theirs = memory_stream_pair()
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(serve, server, theirs)
                await ours.send_all(data + b'\n{"jsonrpc":"2.0","id":"last","method":"ping"}\n')
                await ours.send_stream.aclose()
                said = b"".join([chunk async for chunk in ours])
        return [json.loads(line) for line in said.splitlines()]

    return trio.run(main)


MEMBERS = st.sampled_from(
    ["jsonrpc", "id", "method", "params", "result", "error", "name", "arguments", "_meta", "cursor", "text"]
)
METHODS = st.sampled_from(
    [
        *("initialize", "ping", "tools/list", "tools/call", "server/discover", "logging/setLevel", "echo", "2.0"),
        *("subscriptions/listen", "notifications/cancelled", "notifications/initialized"),
        *("2025-11-25", "2025-03-26"),
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | METHODS | st.text(st.characters(codec=None))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS, inner, max_size=5), max_leaves=12
)
REQUESTS = st.fixed_dictionaries(
    {"id": st.integers() | st.text(), "method": METHODS, "params": VALUES | st.builds(modern, name=METHODS)}
)


@settings(max_examples=examples(150))
@given(st.lists(st.binary(max_size=60), max_size=6))
def test_any_bytes_leave_a_server_that_answers(chunks: list[bytes]) -> None:
    answers = served(b"\n".join(chunks))
    assert answers[-1] == {"jsonrpc": "2.0", "id": "last", "result": {}}
    assert all(("result" in answer) != ("error" in answer) for answer in answers if "method" not in answer)


@settings(max_examples=examples(150))
@given(st.lists(VALUES | REQUESTS, max_size=8))
def test_any_json_leaves_a_server_that_answers(values: list[Any]) -> None:
    answers = served("\n".join(json.dumps(value) for value in values).encode())
    assert {"jsonrpc": "2.0", "id": "last", "result": {}} in answers
    assert all(("result" in answer) != ("error" in answer) for answer in answers if "method" not in answer)
    assert all(answer["error"]["code"] != -32603 for answer in answers if "error" in answer)
