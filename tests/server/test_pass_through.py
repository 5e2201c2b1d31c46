"""Imported tools on a ToolServer: what a gateway passes on, in both directions, between all eras."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.exposing import ERAS, modern, raw, text_of
from tests.http_peer import start_peer
from tests.peers import peer
from tests.wiretap import Tap, open_tapped
from trio_mcp import (
    Connection,
    Context,
    Image,
    Policy,
    Text,
    ToolResult,
    ToolServer,
    import_tools,
    open_connection,
    open_memory_connection,
    raw_tool,
    tool,
)
from trio_mcp.protocol.revisions import META_CLIENT_INFO, META_PREFIX, Era
from trio_mcp.testing import open_script

EVERY_ERA = pytest.mark.parametrize("era", ERAS)
EVERY_PAIR = pytest.mark.parametrize("eras", list(itertools.product(ERAS, repeat=2)), ids="-".join)
TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "acme.example/x": {"y": [1.5]}}


@asynccontextmanager
async def gateway(
    *functions: Callable[..., Any], eras: tuple[Era, Era] = ("modern", "modern"), **options: Any
) -> AsyncIterator[tuple[Connection, Tap]]:
    """A client of a server that publishes the tools of another; and the wire between the servers."""
    behind, front = ToolServer("behind"), ToolServer("front")
    behind.add_tools(*map(tool, functions))
    with trio.fail_after(10):
        async with open_tapped(behind, protocol=eras[0]) as (up, tap):
            front.add_tools(*(await import_tools(up, **options)).tools)
            async with open_memory_connection(front, protocol=eras[1]) as down:
                yield down, tap


@asynccontextmanager
async def gateway_to_peer(**options: Any) -> AsyncIterator[ToolServer]:
    """A server that publishes the tools of a scripted one."""
    front = ToolServer("front")
    with trio.fail_after(20):
        async with open_connection(peer(**options)) as up:
            front.add_tools(*(await import_tools(up)).tools)
            yield front


def calls_in(tap: Tap) -> list[dict[str, Any]]:
    """The params of the tools/call requests that went upstream."""
    messages = [json.loads(line) for line in tap.sent.splitlines()]
    return [message["params"] for message in messages if message.get("method") == "tools/call"]


# --- the request's _meta


@EVERY_PAIR
async def test_the_meta_of_a_call_goes_along_to_the_upstream(eras: tuple[Era, Era]) -> None:
    heard: list[dict[str, Any]] = []

    async def note(context: Context) -> None:
        heard.append(dict(context.meta))

    async with gateway(note, eras=eras) as (down, _):
        await down.call_tool("note", meta=TRACE)
    (meta,) = heard
    assert {key: value for key, value in meta.items() if not key.startswith(META_PREFIX)} == TRACE


@EVERY_PAIR
async def test_tokens_and_reserved_members_are_those_of_each_hop(eras: tuple[Era, Era]) -> None:
    async def note() -> None: ...

    async def on_progress(progress: float, total: float | None, message: str | None) -> None: ...

    async with gateway(note, eras=eras) as (down, tap):
        lies = {f"{META_PREFIX}mine": 1, META_CLIENT_INFO: {"name": "liar", "version": "0"}, **TRACE}
        await down.call_tool("note", meta=lies, on_progress=on_progress)
        await down.call_tool("note", meta={"progressToken": "the client's own"})
        await down.call_tool("note", meta={"progressToken": 1.5})  # which is none
        await down.call_tool("note")
    first, second, third, fourth = (call.get("_meta", {}) for call in calls_in(tap))
    assert TRACE.items() <= first.items()
    for meta in (first, second, third, fourth):
        assert f"{META_PREFIX}mine" not in meta
        assert "liar" not in json.dumps(meta)
    assert {first["progressToken"], second["progressToken"]}.isdisjoint({"the client's own"})
    assert "progressToken" not in {**third, **fourth}
    if eras[0] == "legacy":
        assert "_meta" not in calls_in(tap)[3], "where there is nothing to say, nothing is said"


async def test_tools_of_a_connection_pass_it_on_as_well() -> None:
    heard: list[Any] = []

    async def note(context: Context) -> None:
        heard.append(context.meta.get("traceparent"))

    behind = ToolServer("behind")
    behind.add_tools(tool(note))
    async with open_memory_connection(behind, name="up") as up, raw(*up.tools) as client:
        await client.modern("tools/call", name="mcp__up__note", meta={"a/b": 1})
        params = modern(name="mcp__up__note")
        params["_meta"]["traceparent"] = TRACE["traceparent"]
        await client.request("tools/call", params)
    assert heard == [None, TRACE["traceparent"]]


# --- arguments


@EVERY_ERA
async def test_absent_arguments_are_an_empty_object_upstream(era: Era) -> None:
    async def note() -> None: ...

    async with gateway(note, eras=(era, era)) as (down, tap):
        await down.request("tools/call", {"name": "note"})
        await down.request("tools/call", {"name": "note", "arguments": None})
    assert [call["arguments"] for call in calls_in(tap)] == [{}, {}]


async def test_arguments_that_are_no_object_are_invalid_params_and_nothing_goes_upstream() -> None:
    async def note() -> None: ...

    behind = ToolServer("behind")
    behind.add_tools(tool(note))
    async with open_tapped(behind) as (up, tap):
        async with raw(*(await import_tools(up, prefix="far_")).tools) as client:
            error = (await client.modern("tools/call", name="far_note", arguments=[1]))["error"]
        assert error["code"] == -32602
        assert error["message"].startswith('arguments for "far_note" are not a JSON object: ')
        assert calls_in(tap) == []


async def test_arguments_are_judged_by_their_server_alone() -> None:
    async def double(number: int) -> int:
        return 2 * number

    async with gateway(double) as (down, _):
        result = await down.call_tool("double", {"number": "x"})
    assert (result.is_error, result.content) == (True, 'arguments for "double": number: expected int, got str')


# --- results


@EVERY_PAIR
async def test_blocks_and_failures_pass_through_unchanged(eras: tuple[Era, Era]) -> None:
    failed = ToolResult([Text("no"), Image(b"\x89PNG", "image/png")], is_error=True, meta={"a/b": 1})
    answers = iter([failed, ToolResult(is_error=True)])

    async def fail() -> ToolResult:
        return next(answers)

    async with gateway(fail, eras=eras) as (down, _):
        result = await down.call_tool("fail")
        assert (result.blocks, result.is_error) == (failed.blocks, True)
        assert result.meta is not None
        assert result.meta["a/b"] == 1
        silent = await down.call_tool("fail")
        assert (silent.blocks, silent.is_error) == ((Text("mcp: tool returned an error"),), True)


@pytest.mark.table("structured", [b"null", b"[1.10]", b"7", b'"x"'])
async def test_a_legacy_client_gets_structured_output_that_is_no_object_within_one(
    structured: bytes,
) -> None:
    async def give() -> ToolResult:
        return ToolResult("the text", structured_json=structured)

    for era in ERAS:
        async with gateway(give, eras=("modern", era)) as (down, _):
            result = await down.call_tool("give")
            assert result.blocks == (Text("the text"),)
            assert result.structured_json == (structured if era == "modern" else b'{"result":%b}' % structured)


@pytest.mark.table("schema", [b'{"type":"array"}', b'{"anyOf":[]}', b'{"type":["object"]}'])
async def test_an_output_schema_that_is_no_object_is_listed_verbatim_and_to_legacy_clients_within_one(
    schema: bytes,
) -> None:
    entry = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": json.loads(schema)}
    async with gateway_to_peer(listed=[entry]) as front:
        for era in ERAS:
            async with open_memory_connection(front, protocol=era) as down:
                (found,) = down.tools
                listed = found.spec.output_schema_json
                wrapped = b'{"type":"object","properties":{"result":%b},"required":["result"]}' % schema
                assert listed is not None
                assert json.loads(listed) == json.loads(schema if era == "modern" else wrapped)


@EVERY_ERA
async def test_members_of_an_entry_that_no_client_could_read_are_left_out_and_cost_nothing(era: Era) -> None:
    """Official clients refuse a whole listing over one of them."""
    plain = {"inputSchema": {"type": "object"}}
    hints = {"readOnlyHint": True, "idempotentHint": "yes", "title": 7, "x-mine": "z"}
    listed = [
        {"name": "odd", "annotations": "none", "_meta": 3, "icons": 7, "x-mine": None, "outputSchema": 7, **plain},
        {"name": "php", "annotations": [], "_meta": [], "title": 1, "outputSchema": [], **plain},
        {"name": "hints", "annotations": hints, "icons": [], "outputSchema": True, **plain},
    ]
    async with gateway_to_peer(listed=listed) as front, open_memory_connection(front, protocol=era) as down:
        assert [found.spec.raw for found in down.tools] == [
            {"name": "odd", "x-mine": None, **plain},
            {"name": "php", **plain},
            {"name": "hints", "annotations": {"readOnlyHint": True, "x-mine": "z"}, "icons": [], **plain},
        ]


async def test_numbers_that_are_none_in_structured_output_become_null_and_the_call_is_answered() -> None:
    """Python servers send NaN. It is no JSON: a client would drop the line, and wait for ever."""
    source = """
odd = {"nan": float("nan"), "text": "NaN, Infinity", "all": [float("inf"), -float("inf"), 1.5]}
CALLS["odd"] = lambda peer, id_, arguments, meta: peer.answer(id_, text("x", structuredContent=odd))
CALLS["fine"] = lambda peer, id_, arguments, meta: peer.answer(id_, text("x", structuredContent={"a": "NaN"}))
"""
    async with gateway_to_peer(source=source) as front:
        for era in ERAS:
            async with open_tapped(front, protocol=era) as (down, tap):
                result = await down.call_tool("odd")
                assert result.structured == {"nan": None, "text": "NaN, Infinity", "all": [None, None, 1.5]}
                assert (await down.call_tool("fine")).structured_json == b'{"a": "NaN"}'
            for line in tap.received.splitlines():
                json.loads(line, parse_constant=pytest.fail)


CUT_INSIDE_AN_EMOJI = r"""
> {"method": "initialize", "id": "@1"}
< {"id": "@1", "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}}}
> {"method": "notifications/initialized"}
> {"method": "tools/list", "id": "@2"}
< {"id": "@2", "result": {"tools": [{"name": "say", "description": "CUT", "inputSchema": {"description": "CUT"}}]}}
> {"method": "tools/call", "id": "@3"}
< {"id": "@3", "result": {"content": [{"type": "text", "text": "CUT"}], "structuredContent": {"a": "CUT"}}}
""".replace("CUT", r"\ud83d\ude00 \\ud83d \ud83d")


@EVERY_ERA
async def test_a_text_that_was_cut_inside_an_emoji_costs_neither_the_listing_nor_the_answer(era: Era) -> None:
    """Servers in JavaScript cut texts so. Official clients in Python drop the whole line over half a pair."""
    mended = "\U0001f600 \\ud83d \ufffd"
    front = ToolServer("front")
    with trio.fail_after(10):
        async with open_script(CUT_INSIDE_AN_EMOJI) as up:
            front.add_tools(*up.tools)
            async with open_tapped(front, protocol=era) as (down, tap):
                (found,) = down.tools
                assert found.description.endswith(mended)
                assert found.input_schema["description"] == mended
                result = await down.call_tool(found.remote_name)
                assert (result.content, result.structured) == (mended, {"a": mended})
    for line in tap.received.splitlines():
        msgspec.json.decode(line)  # which refuses halves too


@EVERY_PAIR
async def test_an_upstream_that_asks_its_client_fails_that_call_alone(eras: tuple[Era, Era]) -> None:
    async def ask(context: Context) -> str:
        return str(await context.sample({"messages": [], "maxTokens": 1}))

    async def fine() -> str:
        return "fine"

    async with gateway(ask, fine, eras=eras) as (down, _):
        result = await down.call_tool("ask")
        assert result.is_error
        assert "sampling" in result.content
        assert (await down.call_tool("fine")).content == "fine"


async def test_a_lost_upstream_fails_its_calls_with_a_text_and_the_server_lives_on() -> None:
    async with gateway_to_peer() as front:
        front.add_tools(raw_tool("own", "Here.", b"{}", lambda arguments: "own"))
        async with open_memory_connection(front) as down:
            result = await down.call_tool("exit", {"status": 3})
            assert (result.is_error, result.content) == (True, 'mcp: server "peer" stopped: exited with status 3')
            again = await down.call_tool("echo")
            assert again.content == result.content
            assert (await down.call_tool("own")).content == "own"


async def test_what_the_programs_own_headers_raise_is_a_failed_call_with_its_text(nursery: trio.Nursery) -> None:
    faults: list[Exception] = []

    def headers() -> dict[str, str]:
        if faults:
            raise faults[0]
        return {}

    front = ToolServer("front")
    http = await start_peer(nursery)
    with trio.fail_after(10):
        async with open_connection(http.server(headers=headers)) as up:
            front.add_tools(*(await import_tools(up)).tools)
            async with open_memory_connection(front) as down:
                faults.append(ValueError("no token to be had"))
                result = await down.call_tool("echo")
    assert (result.is_error, result.content) == (True, "ValueError: no token to be had")


# --- progress, cancels, policies, names


@EVERY_PAIR
async def test_progress_passes_through_in_order_before_the_answer(eras: tuple[Era, Era]) -> None:
    async def count(to: int, context: Context) -> int:
        for number in range(to):
            await context.progress(number + 1, to, str(number))
        return to

    heard: list[tuple[float, float | None, str | None]] = []

    async def on_progress(*step: Any) -> None:
        heard.append(step)

    async with gateway(count, eras=eras) as (down, _):
        assert (await down.call_tool("count", {"to": 20}, on_progress=on_progress)).content == "20"
    assert heard == [(number + 1, 20, str(number)) for number in range(20)]


@EVERY_PAIR
async def test_a_cancel_passes_through_to_the_function(eras: tuple[Era, Era]) -> None:
    begun, cancelled = trio.Event(), trio.Event()

    async def hang() -> None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with gateway(hang, eras=eras) as (down, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(down.call_tool, "hang")
            await begun.wait()
            await wait_all_tasks_blocked()
            assert not cancelled.is_set()
            nursery.cancel_scope.cancel()
        await cancelled.wait()


async def test_an_imported_tool_that_requires_approval_is_refused() -> None:
    with pytest.raises(ValueError, match="'up_note' requires approval"):
        async with gateway(note, prefix="up_", policy=Policy(require_approval=True)):
            pass


async def note() -> None: ...


async def test_timeout_cap_and_wrap_of_a_policy_are_not_applied() -> None:
    async def give() -> str:
        await wait_all_tasks_blocked()
        return "x" * 100

    async def never(call: Any, proceed: Any) -> ToolResult:
        return ToolResult("wrapped")

    policy = Policy(timeout=0, max_result_bytes=1, wrap=[never])
    async with gateway(give, policy=policy) as (down, _):
        assert (await down.call_tool("give")).content == "x" * 100


@EVERY_ERA
async def test_a_name_that_no_client_can_read_costs_itself_alone_on_every_page(era: Era) -> None:
    fine = raw_tool("fine", "Here.", b"{}", lambda arguments: "fine")
    front = ToolServer("front", page_size=1)
    front.add_tools(attrs.evolve(fine, name="\ud83d"), fine)  # a name as importing may give it
    with trio.fail_after(10):
        async with open_memory_connection(front, protocol=era) as down:
            assert [found.remote_name for found in down.tools] == ["\ufffd", "fine"]
            assert (await down.call_tool("fine")).content == "fine"


@EVERY_ERA
async def test_imported_names_are_published_however_odd_they_are(era: Era) -> None:
    names = ["a b", "ü" * 80, "x/y", '"']
    source = f"for name in {names!r}: CALLS[name] = CALLS['echo']"
    listed = [{"name": name, "inputSchema": {}} for name in names]
    async with gateway_to_peer(listed=listed, source=source) as front:
        async with open_memory_connection(front, protocol=era) as down:
            assert [found.remote_name for found in down.tools] == names
            for name in names:
                assert (await down.call_tool(name, {"é": 1})).content == '{"é": 1}'


async def test_an_unknown_tool_is_invalid_params_and_the_upstream_is_not_asked() -> None:
    behind = ToolServer("behind")
    behind.add_tools(tool(note))
    async with open_tapped(behind) as (up, tap):
        async with raw(*(await import_tools(up)).tools) as client:
            error = (await client.modern("tools/call", name="other"))["error"]
            assert (error["code"], error["message"]) == (-32602, 'unknown tool "other"')
            assert text_of(await client.modern("tools/call", name="note", arguments={"x": 1}))
        assert [call["name"] for call in calls_in(tap)] == ["note"]
