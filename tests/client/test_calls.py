"""`call_tool`, `request` and `Tool`: what goes out, what comes back, what is raised."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import trio
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from tests.fakes import LEGACY, MODERN, FakeHost, FakeProcess, Reply, exiting, serving, text
from tests.far_end import Message
from trio_mcp import (
    InvalidArgumentsError,
    ProtocolError,
    RequestError,
    Server,
    ServerStoppedError,
    ToolError,
    UnknownToolError,
    open_connection,
)
from trio_mcp.protocol.revisions import META_CAPABILITIES, META_CLIENT_INFO, META_PREFIX, META_VERSION

SERVER = Server("s", command="/bin/server", env={"PATH": "/bin"})
ERAS = pytest.mark.parametrize("era", [LEGACY, MODERN], ids=["legacy", "modern"])


def calls(host: FakeHost) -> list[dict[str, Any]]:
    return host.processes[-1].params("tools/call")


async def raw_answer(process: FakeProcess, message: Message, member: bytes) -> None:
    await process.peer.send(b'{"jsonrpc":"2.0","id":%d,%b}\n' % (message["id"], member))


def answering(member: bytes) -> Reply:
    async def reply(process: FakeProcess, message: Message) -> None:
        await raw_answer(process, message, member)

    return reply


# --- arguments

SENT: list[tuple[Any, dict[str, Any]]] = [
    (None, {}),
    ({}, {}),
    ("", {}),
    (" \n", {}),
    ("null", {}),
    (b"null", {}),
    ({"a": [1, 2.5, None, True, {"é": "\u2028"}]}, {"a": [1, 2.5, None, True, {"é": "\u2028"}]}),
    ('{"a": 1}', {"a": 1}),
    (b'{"a": 1}', {"a": 1}),
    (bytearray(b'{"a":\r\n1}'), {"a": 1}),
    (memoryview(b'{"a": 123456789012345678901234567890}'), {"a": 123456789012345678901234567890}),
]


@ERAS
@pytest.mark.parametrize(
    ("arguments", "expected"),
    SENT,
    ids=[f"{type(arguments).__name__}-{place}" for place, (arguments, _) in enumerate(SENT)],
)
async def test_an_object_goes_out_whatever_the_arguments_are_given_as(
    host: FakeHost, era: Mapping[str, Reply], arguments: Any, expected: dict[str, Any]
) -> None:
    host.scripts = [serving(era)]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            result = await connection.call_tool("echo", arguments)
            assert json.loads(result.content) == expected
            assert (await connection.tools[0].call(arguments)).content == result.content
    assert [(call["name"], call["arguments"]) for call in calls(host)] == [("echo", expected)] * 2


BAD_ARGUMENTS = ["[]", "1", '"text"', "{", '{"a":NaN}', b"\xff", [], 7, {"a": float("inf")}, {1: 2}, {"a": {1}}]


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS, ids=repr)
async def test_what_is_no_json_object_is_refused_before_anything_is_sent(host: FakeHost, arguments: Any) -> None:
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            with pytest.raises(InvalidArgumentsError, match='arguments for "echo" are not a JSON object: '):
                await connection.call_tool("echo", arguments)
            with pytest.raises(InvalidArgumentsError, match='arguments for "mcp__s__echo" are not'):
                await connection.tools[0].call(arguments)
            assert connection.statistics().calls_in_flight == 0
    assert calls(host) == []


async def test_a_name_with_odd_characters_reaches_the_server_as_it_is(host: FakeHost) -> None:
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            await connection.call_tool('a "b"\n\\é\u2028')
    assert calls(host)[0]["name"] == 'a "b"\n\\é\u2028'


# --- meta


async def test_a_legacy_call_has_no_meta_unless_there_is_something_to_say(host: FakeHost) -> None:
    host.scripts = [serving(LEGACY)]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            await connection.call_tool("echo")
            await connection.call_tool("echo", meta={"com.example/trace": "7", META_PREFIX + "x": 1})
            await connection.call_tool("echo", meta={})
    assert [call.get("_meta") for call in calls(host)] == [
        None,
        {"com.example/trace": "7", META_PREFIX + "x": 1},
        None,
    ]


async def test_a_modern_call_carries_version_client_and_capabilities(host: FakeHost) -> None:
    info = {"name": "me", "version": "7"}
    with trio.fail_after(5):
        async with open_connection(SERVER, client_info=info) as connection:
            await connection.call_tool("echo", meta={"com.example/trace": "7"})
    assert calls(host)[0]["_meta"] == {
        META_VERSION: "2026-07-28",
        META_CLIENT_INFO: info,
        META_CAPABILITIES: {},
        "com.example/trace": "7",
    }


async def test_the_callers_meta_cannot_speak_for_the_connection(host: FakeHost) -> None:
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            await connection.call_tool("echo", meta={META_VERSION: "1999-01-01", "progressToken": "mine"})
    meta = calls(host)[0]["_meta"]
    assert meta[META_VERSION] == "2026-07-28"
    assert meta["progressToken"] == "mine", "without on_progress it is the caller's own"


async def test_with_on_progress_the_token_is_the_connections(host: FakeHost) -> None:
    async def on_progress(*_: object) -> None: ...

    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            for _ in range(2):
                await connection.call_tool("echo", on_progress=on_progress, meta={"progressToken": "mine"})
    tokens = [call["_meta"]["progressToken"] for call in calls(host)]
    assert len(set(tokens)) == 2
    assert "mine" not in tokens


# --- results


async def test_a_tool_that_failed_is_data_and_invoke_raises_it(host: FakeHost) -> None:
    host.scripts = [serving({**MODERN, "tools/call": {**text("it failed"), "isError": True}})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            result = await connection.call_tool("echo")
            assert (result.is_error, result.content) == (True, "it failed")
            with pytest.raises(ToolError, match=r"^it failed$"):
                await connection.tools[0].invoke({})


async def test_invoke_gives_the_text(host: FakeHost) -> None:
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            assert await connection.tools[0].invoke({"a": 1}) == '{"a": 1}'


async def test_a_json_rpc_error_is_raised_and_costs_that_call_alone(host: FakeHost) -> None:
    host.scripts = [serving({**MODERN, "tools/call": RequestError(-32602, "unknown tool", {"a": 1})})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            with pytest.raises(RequestError, match=r"^unknown tool \(code -32602\)$") as caught:
                await connection.call_tool("nothing")
            assert caught.value.data == {"a": 1}
            await connection.refresh_tools()


NO_RESULTS = [
    b'"result":null',
    b'"result":7',
    b'"result":{"content":7}',
    b'"result":{"content":[],"resultType":"odd"}',
    b'"x":1',
    b'"error":null',
    b'"result":{"content":[}',
]


@pytest.mark.parametrize("member", NO_RESULTS, ids=repr)
async def test_what_is_no_result_is_a_protocol_error_and_costs_that_call_alone(
    host: FakeHost, member: bytes
) -> None:
    host.scripts = [serving({**MODERN, "tools/call": answering(member)})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            before = connection.statistics()
            with pytest.raises(ProtocolError):
                await connection.call_tool("echo")
            counted = connection.statistics()
            assert counted.calls_failed == before.calls_failed + 1, "a failed call is one that raised"
            assert counted.calls_done == before.calls_done
            await connection.refresh_tools()


async def test_a_server_that_asks_back_fails_the_call_with_what_it_asks_for(host: FakeHost) -> None:
    question = {"q": {"method": "elicitation/create", "params": {}}}
    ask = {"resultType": "input_required", "inputRequests": question, "requestState": "s"}
    host.scripts = [serving({**MODERN, "tools/call": ask, "prompts/get": ask})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            for failing in (connection.call_tool("echo"), connection.request("prompts/get")):
                with pytest.raises(ProtocolError, match=r"^the server asks for elicitation/create, which is not"):
                    await failing


async def test_a_call_that_the_server_dies_under_names_the_exit(host: FakeHost) -> None:
    host.scripts = [serving({**MODERN, "tools/call": exiting(9, b"no memory\n")})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            with pytest.raises(ServerStoppedError, match=r'^server "s" stopped: exited with status 9') as caught:
                await connection.call_tool("echo")
            assert caught.value.stderr_tail == "no memory\n"
            with pytest.raises(ServerStoppedError):
                await connection.tools[0].call({})


async def test_many_calls_at_once_each_get_their_own_result(host: FakeHost) -> None:
    results: dict[int, str] = {}

    with trio.fail_after(20):
        async with open_connection(SERVER) as connection:

            async def call(number: int) -> None:
                results[number] = (await connection.call_tool("echo", {"n": number})).content

            async with trio.open_nursery() as nursery:
                for number in range(1000):
                    nursery.start_soon(call, number)
    assert results == {number: f'{{"n": {number}}}' for number in range(1000)}


async def test_a_timeout_around_a_call_tells_the_server_and_leaves_nothing(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving({**MODERN, "tools/call": None})]
    with trio.fail_after(100):
        async with open_connection(SERVER) as connection:
            with pytest.raises(trio.TooSlowError), trio.fail_after(10):
                await connection.call_tool("echo")
            await wait_all_tasks_blocked()
            assert connection.statistics().calls_in_flight == 0
            (call,) = [it for it in host.processes[0].heard if it["method"] == "tools/call"]
            assert host.processes[0].params("notifications/cancelled")[0]["requestId"] == call["id"]


async def test_every_call_is_a_checkpoint(host: FakeHost) -> None:
    host.scripts = [serving({**MODERN, "x/y": {}})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            with assert_checkpoints():
                await connection.call_tool("echo")
            with assert_checkpoints():
                await connection.tools[0].invoke({})
            with assert_checkpoints():
                await connection.request("x/y")


# --- progress


def progressing(*steps: Any) -> Reply:
    async def reply(process: FakeProcess, message: Message) -> None:
        token = message["params"]["_meta"]["progressToken"]
        for step in steps:
            await process.peer.send(
                {"method": "notifications/progress", "params": {"progressToken": token, **step}},
            )
        await process.peer.answer(message, text("done"))

    return reply


@ERAS
async def test_progress_is_given_as_numbers_and_text(host: FakeHost, era: Mapping[str, Reply]) -> None:
    steps = [{"progress": 1}, {"progress": 2.5, "total": 10, "message": "half"}, {"progress": 3, "total": None}]
    host.scripts = [serving({**era, "tools/call": progressing(*steps)})]
    seen: list[tuple[Any, ...]] = []

    async def on_progress(*step: Any) -> None:
        seen.append(step)

    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            result = await connection.tools[0].call({}, on_progress=on_progress)
    assert seen == [(1, None, None), (2.5, 10, "half"), (3, None, None)]
    assert result.content == "done"


async def test_progress_that_cannot_be_read_is_dropped_with_one_warning(
    host: FakeHost, caplog: pytest.LogCaptureFixture
) -> None:
    steps = [{}, {"progress": "x"}, {"progress": None}, {"progress": 1, "total": "x"}, {"progress": 5}]
    host.scripts = [serving({**MODERN, "tools/call": progressing(*steps)})]
    seen: list[float] = []

    async def on_progress(progress: float, *_: object) -> None:
        seen.append(progress)

    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            await connection.call_tool("echo", on_progress=on_progress)
    assert seen == [5]
    assert len(caplog.records) == 1


# --- long texts

LONG = "x" * 200_000


async def echo(process: FakeProcess, message: Message) -> None:
    arguments = json.dumps(message["params"]["arguments"]["text"]).encode()
    await raw_answer(process, message, b'"result":{"content":[{"type":"text","text":%b}],"n":1.10}' % arguments)


@ERAS
async def test_a_long_text_goes_there_and_back_whole(host: FakeHost, era: Mapping[str, Reply]) -> None:
    host.scripts = [serving({**era, "tools/call": echo})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            result = await connection.call_tool("t", {"text": LONG})
            assert result.content == LONG
            assert type(result.raw) is bytes
            assert result.raw == b'{"content":[{"type":"text","text":"%b"}],"n":1.10}' % LONG.encode()


async def test_a_long_result_of_any_method_is_decoded_or_refused_as_a_short_one(host: FakeHost) -> None:
    quoted = json.dumps(LONG).encode()
    host.scripts = [
        serving(
            {
                **LEGACY,
                "good": answering(b'"result":{"text":%b}' % quoted),
                "odd": answering(b'"result":{"text":%b,"n":NaN}' % quoted),
                "wrong": answering(b'"result":%b' % quoted),
                "tools/call": answering(b'"result":{"isError":%b}' % quoted),
            }
        )
    ]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            assert await connection.request("good") == {"text": LONG}
            assert (await connection.request("odd"))["text"] == LONG
            with pytest.raises(ProtocolError, match="no object") as caught:
                await connection.request("wrong")
            assert caught.value.payload == '"' + "x" * 199
            with pytest.raises(ProtocolError, match=r"result\.isError: expected a boolean"):
                await connection.call_tool("t")


# --- request


async def test_a_request_gives_the_decoded_result(host: FakeHost) -> None:
    host.scripts = [serving({**MODERN, "resources/list": {"resources": [1]}, "php": answering(b'"result":[]')})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            assert await connection.request("resources/list", {"cursor": "2"}) == {"resources": [1]}
            assert await connection.request("php") == {}
    sent = host.processes[0].params("resources/list")[0]
    assert sent.pop("_meta")[META_VERSION] == "2026-07-28"
    assert sent == {"cursor": "2"}


async def test_a_requests_own_meta_goes_beside_the_revisions(host: FakeHost) -> None:
    host.scripts = [serving({**MODERN, "x": {}})]
    params = {"a": 1, "_meta": {"com.example/trace": "7"}}
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            await connection.request("x", params)
    sent = host.processes[0].params("x")[0]
    assert sent["_meta"]["com.example/trace"] == "7"
    assert sent["_meta"][META_VERSION] == "2026-07-28"
    assert params == {"a": 1, "_meta": {"com.example/trace": "7"}}


@pytest.mark.parametrize("member", [b'"result":7', b'"result":null', b'"result":[1]', b'"result":"x"'])
async def test_a_result_that_is_no_object_is_a_protocol_error(host: FakeHost, member: bytes) -> None:
    host.scripts = [serving({**MODERN, "x": answering(member)})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            with pytest.raises(ProtocolError, match="x was answered with something that is no object"):
                await connection.request("x")


# --- the filter


async def test_a_name_that_the_filter_hides_is_unknown_and_nothing_is_sent(host: FakeHost) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("a", "b")]
    host.scripts = [serving({**MODERN, "tools/list": {"tools": tools}})]
    server = Server("s", command="/bin/server", env={"PATH": "/bin"}, tools=["a", "c"])
    with trio.fail_after(5):
        async with open_connection(server) as connection:
            assert [tool.remote_name for tool in connection.tools] == ["a"]
            assert connection.warnings == ('tool "c" is not offered by the server',)
            with assert_checkpoints(), pytest.raises(UnknownToolError, match=r'^unknown tool "b"$'):
                await connection.call_tool("b")
            assert (await connection.call_tool("a")).content == "{}"
    assert len(calls(host)) == 1
