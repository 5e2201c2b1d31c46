"""Requests of both eras, answered: what each method gives, and what each wrong request is told."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.exposing import ERAS, HANDSHAKE, META, modern, raw, text_of
from trio_mcp import Context, RequestError, open_memory_connection, tool
from trio_mcp.protocol.revisions import META_CAPABILITIES, META_CLIENT_INFO, META_SUBSCRIPTION, META_VERSION, Era
from trio_mcp.server.feature import Feature, FeatureTable, Method, Request, Work
from trio_mcp.server.features.table import FEATURES
from trio_mcp.server.params import Params
from trio_mcp.testing import open_functions

LEGACY = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
SUPPORTED = ["2026-07-28", *LEGACY]
SERVER = {"io.modelcontextprotocol/serverInfo": {"name": "raw", "version": "0"}}


async def echo(text: str) -> str:
    return text


async def nothing() -> None: ...


# --- the modern era


async def test_discover_tells_revisions_capabilities_and_name() -> None:
    async with raw() as client:
        assert (await client.modern("server/discover"))["result"] == {
            "supportedVersions": SUPPORTED,
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "ttlMs": 0,
            "cacheScope": "private",
            "resultType": "complete",
            "_meta": SERVER,
        }


async def test_a_modern_client_needs_no_handshake() -> None:
    async with raw(echo) as client:
        answer = await client.modern("tools/call", name="echo", arguments={"text": "hi"})
        assert answer["result"] == {
            "content": [{"type": "text", "text": "hi"}],
            "resultType": "complete",
            "_meta": SERVER,
        }


@pytest.mark.table("method", ["tools/call", "tools/list", "server/discover", "subscriptions/listen"])
@pytest.mark.table(
    ("meta", "key"),
    [
        ({META_CAPABILITIES: {}}, META_VERSION),
        ({}, META_VERSION),
        ({META_VERSION: "2026-07-28"}, META_CAPABILITIES),
        ({META_VERSION: "2026-07-28", META_CAPABILITIES: None}, META_CAPABILITIES),
        ({META_VERSION: "2026-07-28", META_CAPABILITIES: []}, META_CAPABILITIES),
        ({META_VERSION: 1, META_CAPABILITIES: {}}, META_VERSION),
        ({META_VERSION: None, META_CAPABILITIES: {}}, META_VERSION),
        ({**META, META_CLIENT_INFO: "me"}, META_CLIENT_INFO),
        # What is missing is told before what is not supported.
        ({META_VERSION: "2027-01-01"}, META_CAPABILITIES),
    ],
)
async def test_metadata_that_is_missing_is_invalid_params_and_named(method: str, meta: Any, key: str) -> None:
    async with raw(echo) as client:
        answer = await client.request(method, {"name": "echo", "notifications": {}, "_meta": meta})
        assert answer["error"]["code"] == -32602
        assert key in answer["error"]["message"]


async def test_missing_client_info_is_served() -> None:
    async with raw(nothing) as client:
        meta = {META_VERSION: "2026-07-28", META_CAPABILITIES: {}}
        assert "result" in await client.request("tools/call", {"name": "nothing", "_meta": meta})


@pytest.mark.table("method", ["tools/call", "tools/list", "server/discover", "initialize", "nonsense"])
@pytest.mark.table("version", ["2027-01-01", "2025-11-25", "", "v999"])
async def test_an_unknown_revision_is_told_what_is_supported(method: str, version: str) -> None:
    async with raw() as client:
        error = (await client.modern(method, meta={"protocolVersion": version}))["error"]
        assert error["code"] == -32022
        assert error["data"] == {"supported": SUPPORTED, "requested": version}


@pytest.mark.table(
    "method", ["initialize", "ping", "logging/setLevel", "resources/list", "prompts/list", "tools", ""]
)
async def test_a_method_that_the_modern_era_does_not_have_is_not_found(method: str) -> None:
    async with raw() as client:
        await client.initialize()
        error = (await client.modern(method, level="debug"))["error"]
        assert (error["code"], error["message"]) == (-32601, f"Method not found: {method}")


# --- the legacy era


@pytest.mark.table("wanted", LEGACY)
async def test_initialize_agrees_on_the_revision_that_is_asked_for(wanted: str) -> None:
    async with raw() as client:
        assert (await client.initialize(wanted))["result"] == {
            "protocolVersion": wanted,
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "serverInfo": {"name": "raw", "version": "0"},
        }


@pytest.mark.table("wanted", ["2026-07-28", "1.0", ""])
async def test_initialize_offers_the_newest_legacy_revision_for_any_other(wanted: str) -> None:
    async with raw() as client:
        assert (await client.initialize(wanted))["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.table("params", [None, {}, {"protocolVersion": 7}, {"protocolVersion": None}])
async def test_initialize_without_a_revision_is_invalid_params(params: Any) -> None:
    async with raw() as client:
        assert (await client.request("initialize", params))["error"]["code"] == -32602


@pytest.mark.table("method", ["tools/list", "tools/call", "logging/setLevel", "resources/list"])
async def test_before_initialize_a_request_without_metadata_is_told_what_it_lacks(method: str) -> None:
    async with raw(nothing) as client:
        error = (await client.request(method, {"name": "nothing"}))["error"]
        assert (error["code"], META_VERSION in error["message"]) == (-32602, True)


async def test_ping_is_answered_before_and_after_initialize() -> None:
    async with raw() as client:
        assert (await client.request("ping"))["result"] == {}
        await client.initialize()
        assert (await client.request("ping", {}))["result"] == {}


async def test_a_legacy_result_has_nothing_of_the_modern_era() -> None:
    async with raw(echo) as client:
        await client.initialize()
        answer = await client.request("tools/call", {"name": "echo", "arguments": {"text": "hi"}})
        assert answer["result"] == {"content": [{"type": "text", "text": "hi"}]}


@pytest.mark.table("method", ["resources/list", "prompts/get", "completion/complete", "server/discover", ""])
async def test_a_method_of_another_family_is_not_found(method: str) -> None:
    async with raw() as client:
        await client.initialize()
        error = (await client.request(method))["error"]
        assert (error["code"], error["message"]) == (-32601, f"Method not found: {method}")


@pytest.mark.table("level", [None, "loud", 7, ["info"], "INFO"])
async def test_an_unknown_log_level_is_invalid_params(level: Any) -> None:
    async with raw() as client:
        await client.initialize()
        assert (await client.request("logging/setLevel", {"level": level}))["error"]["code"] == -32602


async def test_requests_right_behind_initialize_are_answered_in_one_chunk() -> None:
    """A shell script that pipes its requests in waits for nothing."""
    async with raw(echo) as client:
        await client.send(
            {"id": 1, "method": "initialize", "params": HANDSHAKE},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/list"},
            {"id": 3, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hi"}}},
            {"id": 4, "method": "ping"},
        )
        answers = {answer["id"]: answer for answer in [await client.take() for _ in range(4)]}
        assert all("result" in answer for answer in answers.values())
        client.service.server.add_tools(tool(nothing))
        assert (await client.take())["method"] == "notifications/tools/list_changed"


# --- both on one stream


async def test_both_eras_may_be_mixed_on_one_stream() -> None:
    async def who(context: Context) -> str:
        return str(context.client_info)

    async with raw(who) as client:
        await client.initialize()
        old = await client.request("tools/call", {"name": "who"})
        new = await client.modern("tools/call", name="who", meta={"clientInfo": {"name": "n", "version": "2"}})
        again = await client.request("tools/call", {"name": "who"})
        assert text_of(new) == "{'name': 'n', 'version': '2'}"
        assert text_of(old) == text_of(again) == "{'name': 'c', 'version': '1'}"
        assert ("resultType" in new["result"], "resultType" in old["result"]) == (True, False)


# --- calls


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_tool_is_invalid_params_with_the_tables_text(era: Era) -> None:
    async with open_functions(nothing, protocol=era) as connection:
        with pytest.raises(RequestError) as caught:
            await connection.call_tool("nowhere")
        assert (caught.value.code, caught.value.message) == (-32602, 'unknown tool "nowhere"')


@pytest.mark.table("era", ERAS)
@pytest.mark.table(
    ("arguments", "reason"),
    [([1], "it is an array"), ("{}", "it is a string"), (7, "it is a number"), (True, "it is a boolean")],
    ids=repr,
)
async def test_arguments_that_are_no_object_are_invalid_params(arguments: Any, reason: str, era: Era) -> None:
    async with raw(nothing) as client:
        await client.initialize()
        params = {"name": "nothing", "arguments": arguments}
        answer = await client.request("tools/call", modern(**params) if era == "modern" else params)
        message = f'arguments for "nothing" are not a JSON object: {reason}'
        assert answer["error"] == {"code": -32602, "message": message}


@pytest.mark.parametrize("arguments", [{}, {"arguments": None}, {"arguments": {}}])
async def test_arguments_may_be_absent_or_null(arguments: dict[str, Any]) -> None:
    async with raw(nothing) as client:
        answer = await client.modern("tools/call", name="nothing", **arguments)
        assert answer["result"]["content"] == []


@pytest.mark.table("name", [None, 7, {}, ["nothing"]])
async def test_a_name_that_is_no_string_is_invalid_params(name: Any) -> None:
    async with raw(nothing) as client:
        assert (await client.modern("tools/call", name=name))["error"]["code"] == -32602


async def test_arguments_that_cannot_be_decoded_are_a_result_with_is_error() -> None:
    async with raw(echo) as client:
        await client.initialize()
        for arguments in (
            b'{"text":"\xff"}',
            b'{"text":"\\ud800"}',
            b'{"text":1e999}',
            b'{"text":' + b"1" * 5000 + b"}",
        ):
            params = b'{"name":"echo","arguments":' + arguments + b"}"
            await client.send(b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":' + params + b"}\n")
            answer = await client.take()
            assert answer["id"] == 7
            assert answer["result"]["isError"] is True, answer


async def test_structured_output_goes_to_legacy_clients_as_an_object() -> None:
    def number() -> int:
        return 5

    def mapping() -> dict[str, int]:
        return {"a": 1}

    async with raw(number, mapping) as client:
        await client.initialize()
        old = [(await client.request("tools/call", {"name": name}))["result"] for name in ("number", "mapping")]
        new = [(await client.modern("tools/call", name=name))["result"] for name in ("number", "mapping")]
        assert [result.get("structuredContent", "absent") for result in old] == [{"result": 5}, {"a": 1}]
        assert [result.get("structuredContent", "absent") for result in new] == [5, {"a": 1}]
        assert [result["content"][0]["text"] for result in old] == ["5", '{"a":1}']


async def test_an_internal_error_leaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Request[Params]) -> bytes:
        raise ValueError("secret")

    def fail_later(_: Request[Params]) -> Work:
        async def work() -> bytes:
            raise ValueError("secret")

        return work

    broken = (
        Method(name="broken/now", params=Params, legacy=fail, modern=fail),
        Method(name="broken/later", params=Params, legacy=fail_later, modern=fail_later),
    )
    features = FeatureTable([*FEATURES.features, Feature(methods=broken)])
    async with raw(nothing, features=features) as client:
        await client.initialize()
        for method in ("broken/now", "broken/later"):
            for params in ({}, modern()):
                error = (await client.request(method, params))["error"]
                assert error == {"code": -32603, "message": "internal error"}
    assert [record.exc_info is not None for record in caplog.records] == [True] * 4


async def test_a_remote_tool_whose_connection_is_gone_is_a_result_with_is_error() -> None:
    async with open_functions(nothing, name="up") as up:
        tools = up.tools
    async with raw(*tools) as client:
        answer = await client.modern("tools/call", name="mcp__up__nothing")
        assert answer["result"]["isError"] is True
        assert text_of(answer) == 'mcp: the connection to "up" was closed'


async def test_a_remote_tool_that_its_server_does_not_know_any_more_is_a_result_with_is_error() -> None:
    from trio_mcp import ToolServer

    behind = ToolServer("behind")
    behind.add_tools(tool(nothing))
    async with open_memory_connection(behind, name="up") as up:
        behind.remove_tool("nothing")
        async with raw(*up.tools) as client:
            answer = await client.modern("tools/call", name="mcp__up__nothing")
            assert text_of(answer) == 'mcp: unknown tool "nothing" (code -32602)'


# --- subscriptions


async def test_a_subscription_is_acknowledged_first_and_tagged_with_its_own_id() -> None:
    async with raw(echo) as client:
        server = client.service.server
        wanted = {"toolsListChanged": True, "promptsListChanged": True}
        for id_ in ("seven", 7):
            await client.ask("subscriptions/listen", modern(notifications=wanted), id_=id_)
            acknowledged = await client.take()
            assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
            assert acknowledged["params"] == {
                "notifications": {"toolsListChanged": True},
                "_meta": {META_SUBSCRIPTION: id_},
            }
        server.add_tools(tool(nothing))
        told = [await client.take() for _ in range(2)]
        assert {message["method"] for message in told} == {"notifications/tools/list_changed"}
        assert [message["params"]["_meta"][META_SUBSCRIPTION] for message in told] == ["seven", 7]


async def test_a_subscription_to_nothing_of_this_server_is_acknowledged_and_silent() -> None:
    async with raw(echo) as client:
        for wanted in ({}, {"toolsListChanged": False}, {"toolsListChanged": 1}):
            await client.ask("subscriptions/listen", modern(notifications=wanted))
            assert (await client.take())["params"]["notifications"] == {}
        client.service.server.add_tools(tool(nothing))
        assert await client.silent()


@pytest.mark.table("wanted", [None, [], "tools"])
async def test_a_subscription_without_an_object_is_invalid_params(wanted: Any) -> None:
    async with raw() as client:
        assert (await client.modern("subscriptions/listen", notifications=wanted))["error"]["code"] == -32602


async def test_a_subscription_ends_silently_when_it_is_cancelled() -> None:
    async with raw(echo) as client:
        server = client.service.server
        id_ = await client.ask("subscriptions/listen", modern(notifications={"toolsListChanged": True}))
        await client.take()
        await client.tell("notifications/cancelled", {"requestId": id_})
        assert await client.silent()
        server.add_tools(tool(nothing))
        assert await client.silent()
        assert len(server.changes) == 0


async def test_a_subscription_ends_with_a_result_when_the_server_ends() -> None:
    async with raw(echo) as client:
        id_ = await client.ask("subscriptions/listen", modern(notifications={}))
        await client.take()
        with trio.fail_after(2):
            await client.output.aclose()
            answer = await client.take()
        assert answer["id"] == id_
        assert answer["result"] == {"resultType": "complete", "_meta": {META_SUBSCRIPTION: id_, **SERVER}}
