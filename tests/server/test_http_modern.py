"""The modern era over HTTP: what is refused and in which order, what is answered as JSON and what as events."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.exposing import META
from tests.serving import VERSION, echo, serving
from trio_mcp import Context, ElicitRequest, ElicitResult, Server, ToolServer, open_connection, raw_tool, tool
from trio_mcp.protocol.revisions import META_CAPABILITIES, META_PREFIX, META_VERSION

WITH_HEADERS = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "deep": {"type": "object", "properties": {"flag": {"type": "boolean", "x-mcp-header": "Flag"}}},
    },
}
routed = raw_tool("routed", "has headers", WITH_HEADERS, lambda arguments: arguments.decode())


def message(method: str = "tools/list", meta: Any = META, id_: Any = 5, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": {**params, "_meta": meta}}


def headers(method: str = "tools/list", version: str = VERSION, **more: str) -> dict[str, str]:
    return {"mcp_protocol_version": version, "mcp_method": method, **more}


OLDER = {**META, META_VERSION: "v999"}

REFUSALS: dict[str, tuple[dict[str, Any], dict[str, Any], int, int]] = {
    "no version header": (message(), {"mcp_method": "tools/list"}, 400, -32020),
    "no version in the metadata": (message(meta={META_CAPABILITIES: {}}), headers(), 400, -32602),
    "no metadata": ({"jsonrpc": "2.0", "id": 5, "method": "tools/list"}, headers(), 400, -32602),
    "no capabilities": (message(meta={META_VERSION: VERSION}), headers(), 400, -32602),
    "metadata missing before versions differ": (message(meta={META_VERSION: "v1"}), headers(), 400, -32602),
    "versions differ": (message(meta=OLDER), headers(), 400, -32020),
    "versions differ the other way": (message(), headers(version="2025-11-25"), 400, -32020),
    "a version that is not served": (message(meta=OLDER), headers(version="v999"), 400, -32022),
    "that version before the method": (message("nope", OLDER), headers("else", "v999"), 400, -32022),
    "no method header": (message(), {"mcp_protocol_version": VERSION}, 400, -32020),
    "another method": (message(), headers("tools/call"), 400, -32020),
    "another case of the method": (message(), headers("Tools/List"), 400, -32020),
    "an unknown method": (message("nope"), headers("nope"), 404, -32601),
    "initialize": (message("initialize"), headers("initialize"), 404, -32601),
    "ping": (message("ping"), headers("ping"), 404, -32601),
    "logging/setLevel": (message("logging/setLevel"), headers("logging/setLevel"), 404, -32601),
    "no name header": (message("tools/call", name="echo"), headers("tools/call"), 400, -32020),
    "another name": (message("tools/call", name="echo"), headers("tools/call", mcp_name="ech"), 400, -32020),
    "a name in wrong Base64": (
        message("tools/call", name="echo"),
        headers("tools/call", mcp_name="=?base64?ZWNobw?="),
        400,
        -32020,
    ),
    "params that are no object": (
        {"jsonrpc": "2.0", "id": 5, "method": "x", "params": [1]},
        headers(),
        400,
        -32602,
    ),
    "an unknown tool": (message("tools/call", name="no"), headers("tools/call", mcp_name="no"), 200, -32602),
    "a wrong cursor": (message(cursor="x"), headers(), 200, -32602),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_what_is_wrong_is_refused_in_the_order_of_the_specification(case: str) -> None:
    body, fields, status, code = REFUSALS[case]
    async with serving(echo) as served:
        line = await served.connect()
        reply = await line.post(body, **fields)
        assert (reply.status, reply.code) == (status, code)
        assert reply.json["id"] == 5
        again = await line.modern("tools/list")
        assert again.status == 200


async def test_a_version_that_is_not_served_is_answered_with_those_that_are() -> None:
    async with serving(echo) as served:
        line = await served.connect()
        reply = await line.post(message(meta=OLDER), **headers(version="v999"))
        assert reply.json["error"]["data"]["requested"] == "v999"
        discovered = await line.modern("server/discover")
        assert reply.json["error"]["data"]["supported"] == discovered.result["supportedVersions"]


@pytest.mark.parametrize(
    ("arguments", "fields", "status"),
    [
        ({"region": "eu"}, {"mcp_param_region": "eu"}, 200),
        ({"region": "eu"}, {"mcp-param-REGION": "eu"}, 200),
        ({"region": "eu"}, {}, 400),
        ({"region": "eu"}, {"mcp_param_region": "us"}, 400),
        ({"region": "grün"}, {"mcp_param_region": "=?base64?Z3LDvG4=?="}, 200),
        ({"region": "grün"}, {"mcp_param_region": "grün"}, 400),
        ({"region": "Hello"}, {"mcp_param_region": "=?base64?SGVsbG8=?="}, 200),
        ({"region": "Hello"}, {"mcp_param_region": "=?base64?SGVsbG8?="}, 400),
        ({"region": "Hello"}, {"mcp_param_region": "=?base64?SGV%bG8=?="}, 400),
        ({"region": "=?Base64?SGVsbG8=?="}, {"mcp_param_region": "=?Base64?SGVsbG8=?="}, 200),
        ({"region": ""}, {"mcp_param_region": ""}, 200),
        ({"region": None}, {}, 200),
        ({"region": None}, {"mcp_param_region": "eu"}, 400),
        ({}, {}, 200),
        ({}, {"mcp_param_unknown": "x"}, 200),
        ({"count": 42}, {"mcp_param_count": "42"}, 200),
        ({"count": 42.0}, {"mcp_param_count": "42"}, 200),
        ({"count": 42}, {"mcp_param_count": "042"}, 200),
        ({"count": 42}, {"mcp_param_count": "43"}, 400),
        ({"count": 42}, {"mcp_param_count": "9" * 9000}, 400),
        ({"count": 42}, {"mcp_param_count": "many"}, 400),
        ({"deep": {"flag": True}}, {"mcp_param_flag": "true"}, 200),
        ({"deep": {"flag": True}}, {"mcp_param_flag": "1"}, 400),
        ({"deep": {"flag": ["x"]}}, {"mcp_param_flag": "x"}, 400),
    ],
)
async def test_arguments_that_headers_repeat_are_the_same(
    arguments: Any, fields: dict[str, str], status: int
) -> None:
    async with serving(routed) as served:
        line = await served.connect()
        reply = await line.modern("tools/call", name="routed", arguments=arguments, headers=fields)
        assert reply.status == status
        if status == 400:
            assert reply.code == -32020


async def test_a_name_may_come_encoded() -> None:
    async with serving(echo) as served:
        line = await served.connect()
        reply = await line.modern("tools/call", name="echo", headers={"mcp_name": "=?base64?ZWNobw==?="})
        assert reply.result["content"] == [{"type": "text", "text": "nothing"}]


async def test_what_is_not_a_request_has_no_answer() -> None:
    async with serving(echo) as served:
        line = await served.connect()
        note = {"jsonrpc": "2.0", "method": "notifications/whatever"}
        taken = await line.post(note, mcp_protocol_version=VERSION)
        assert (taken.status, taken.body) == (202, b"")
        answer = await line.post({"jsonrpc": "2.0", "id": 1, "result": {}}, mcp_protocol_version=VERSION)
        assert (answer.status, answer.code) == (400, -32600)


async def test_sessions_are_neither_minted_nor_heeded() -> None:
    async with serving(echo) as served:
        line = await served.connect(session="somebody's")
        reply = await line.modern(
            "tools/call", name="echo", arguments={"text": "hi"}, headers={"last_event_id": "7"}
        )
        assert reply.status == 200
        assert "mcp-session-id" not in reply.headers
        for method in ("GET", "DELETE"):
            refused = await line.ask(method, mcp_protocol_version=VERSION)
            assert (refused.status, refused.headers["allow"]) == (405, "POST")


async def test_a_quiet_tool_is_answered_with_json_and_one_that_reports_with_events() -> None:
    async def count(context: Context) -> str:
        await context.progress(1, 2)
        await context.progress(2, 2)
        return "counted"

    async with serving(echo, count) as served:
        line = await served.connect()
        reply = await line.modern("tools/call", name="count", arguments={}, meta={"progressToken": "t"})
        assert reply.headers["content-type"] == "text/event-stream"
        assert reply.headers["x-accel-buffering"] == "no"
        assert reply.headers["cache-control"] == "no-cache"
        assert [event["params"]["progress"] for event in reply.events[:-1]] == [1, 2]
        assert reply.events[-1]["result"]["content"][0]["text"] == "counted"
        for name, meta in (("echo", {"progressToken": "t"}), ("count", {})):
            quiet = await line.modern("tools/call", name=name, arguments={}, meta=meta)
            assert quiet.json["result"]["resultType"] == "complete"


async def test_who_takes_no_events_is_answered_with_json_all_the_same() -> None:
    async def count(context: Context) -> str:
        await context.progress(1)
        return "counted"

    async with serving(count) as served:
        line = await served.connect()
        fields = {"accept": "application/json"}
        meta = {"progressToken": 1}
        reply = await line.modern("tools/call", name="count", arguments={}, meta=meta, headers=fields)
        assert reply.result["content"][0]["text"] == "counted"
        refused = await line.modern("subscriptions/listen", "mine", notifications={}, headers=fields)
        assert (refused.status, refused.code, refused.json["id"]) == (406, -32600, "mine")


async def test_log_messages_go_to_requests_that_asked_for_them() -> None:
    async def talk(context: Context) -> str:
        await context.log("info", "a")
        await context.log("error", "b")
        return "said"

    async with serving(talk) as served:
        line = await served.connect()
        quiet = await line.modern("tools/call", name="talk", arguments={})
        assert quiet.json["result"]["content"][0]["text"] == "said"
        loud = await line.modern("tools/call", name="talk", arguments={}, meta={"logLevel": "warning"})
        assert [event.get("params") for event in loud.events[:-1]] == [{"level": "error", "data": "b"}]


async def test_a_capability_that_is_missing_is_a_bad_request() -> None:
    async def need(context: Context) -> str:
        return str(await context.sample({"messages": [], "maxTokens": 1}))

    async with serving(need) as served:
        line = await served.connect()
        reply = await line.modern("tools/call", name="need", arguments={})
        assert (reply.status, reply.code) == (400, -32021)
        assert reply.json["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}


async def test_a_failing_tool_tells_its_text_and_nothing_of_the_inside_goes_out() -> None:
    async def fail() -> str:
        raise ValueError("no such street")

    server = ToolServer("broken")
    server.add_tools(tool(fail))
    async with serving(server=server) as served:
        line = await served.connect()
        reply = await line.modern("tools/call", name="fail", arguments={})
        assert reply.result["isError"] is True
        assert reply.result["content"][0]["text"] == "ValueError: no such street"
        server.page = None  # type: ignore[assignment,method-assign]  # what nobody has foreseen
        broken = await line.modern("tools/list")
        assert broken.json["error"] == {"code": -32603, "message": "internal error"}


async def test_changes_of_the_list_reach_those_who_listen_for_them() -> None:
    server = ToolServer("changing")
    server.add_tools(tool(echo))
    async with serving(server=server) as served:
        wide, narrow = await served.connect(), await served.connect()
        await wide.begin_modern("subscriptions/listen", "a", notifications={"toolsListChanged": True})
        await narrow.begin_modern("subscriptions/listen", 7, notifications={"promptsListChanged": True})
        replies = [await wide.head(), await narrow.head()]
        (acknowledged,) = await wide.more(replies[0], 1)
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
        server.remove_tool("echo")
        changed = (await wide.more(replies[0], 2))[1]
        assert changed["method"] == "notifications/tools/list_changed"
        assert changed["params"]["_meta"] == {META_PREFIX + "subscriptionId": "a"}
        served.stop.set()
        ends = [await wide.rest(replies[0]), await narrow.rest(replies[1])]
        assert [end.events[-1]["id"] for end in ends] == ["a", 7]
        assert len(ends[1].events) == 2  # the acknowledgement and the end


async def test_a_silent_stream_is_kept_alive_by_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_mcp.server.http.event_queue.KEEP_ALIVE", 0.05)
    async with serving(echo) as served:
        line = await served.connect()
        await line.begin_modern("subscriptions/listen", notifications={})
        reply = await line.head()
        while reply.body.count(b": still here\n\n") < 2:
            reply.body += (await line.next_event()).data
        assert len(reply.events) == 1


async def test_a_tool_asks_in_rounds_and_the_state_belongs_to_the_caller() -> None:
    async def who(headers: Any) -> str:
        return str(headers["x-user"])

    async def ask(context: Context) -> str:
        answer = await context.ask("roots/list", {})
        return f"{context.principal}: {answer['roots']}"

    async with serving(ask, authorize=who) as served:
        line = await served.connect()
        meta: dict[str, Any] = {"clientCapabilities": {"roots": {}}}

        async def round_of(user: str, **params: Any) -> Any:
            fields = {"x_user": user}
            return (
                await line.modern("tools/call", name="ask", arguments={}, meta=meta, headers=fields, **params)
            ).json

        first = (await round_of("ada"))["result"]
        assert first["resultType"] == "input_required"
        (key,) = first["inputRequests"]
        answer = {"inputResponses": {key: {"roots": []}}, "requestState": first["requestState"]}
        assert (await round_of("bob", **answer))["error"]["code"] == -32602
        last = (await round_of("ada", **answer))["result"]
        assert last["content"][0]["text"] == "ada: []"


async def test_our_own_client_does_everything_it_does_elsewhere() -> None:
    from trio_mcp import demo

    asked: list[ElicitRequest] = []

    async def on_elicit(request: ElicitRequest) -> ElicitResult:
        asked.append(request)
        return ElicitResult.accept({"colour": "green"})

    steps: list[float] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        steps.append(done)

    async with serving(server=demo.server) as served:
        server = Server("demo", url=served.url, protocol="modern")
        async with open_connection(server, on_elicit=on_elicit) as connection:
            assert connection.protocol_version == VERSION
            assert [found.remote_name for found in connection.tools] == [found.name for found in demo.server.tools]
            assert (await connection.call_tool("ask")).content == "green, any shade"
            await connection.call_tool("slow", {"seconds": 0.1}, on_progress=on_progress)
            assert steps == list(range(1, 11))
            async with trio.open_nursery() as nursery:
                for number in range(50):
                    nursery.start_soon(_echoes, connection, str(number))
    assert len(asked) == 1


async def _echoes(connection: Any, text: str) -> None:
    assert (await connection.call_tool("echo", {"text": text})).content == text
