"""open_gateway: what passes through it, and what an upstream's trouble costs. The upstreams are real children."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import trio_mcp
from tests import verbatim_server
from tests.exposing import ERAS
from tests.http_peer import Exchange, start_peer, tools
from tests.peers import environment, open_lives, peer, program
from trio_mcp import (
    Connection,
    GatewayLimits,
    InvalidServerError,
    Server,
    open_memory_connection,
    tool,
)
from trio_mcp.protocol.revisions import Era
from trio_mcp.server.registry import TOOLS_CHANGED

EVERY_ERA = pytest.mark.parametrize("era", ERAS)
EVERY_UPSTREAM = pytest.mark.parametrize("upstream", ERAS)

pytestmark = pytest.mark.usefixtures("nothing_left")


#: The back-off itself is tested in test_gateway_pauses.py.
open_gateway = partial(trio_mcp.open_gateway, limits=GatewayLimits(first_pause=0.05))


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "trio_mcp.gateway")
    return caplog


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the gateway has warned of."""
    return [text for name, level, text in caplog.record_tuples if name == "trio_mcp.gateway" and level > 20]


@asynccontextmanager
async def through(*servers: Server, era: Era = "modern", **options: Any) -> AsyncIterator[Connection]:
    """A client's connection to a gateway to these servers."""
    with trio.fail_after(30):
        async with open_gateway(servers, **options) as gateway:
            async with open_memory_connection(gateway, name="g", protocol=era) as connection:
                yield connection


def verbatim(name: str = "verbatim") -> Server:
    return Server(name, command=sys.executable, args=("-I", verbatim_server.__file__), env=environment())


def names(connection: Connection) -> list[str]:
    return [found.remote_name for found in connection.tools]


async def until_listed(connection: Connection, *wanted: str) -> None:
    """Wait until the client's list is this one, by following the changes that it is told of."""
    async with connection.watch_tools() as changes:
        while names(connection) != list(wanted):
            await anext(changes)


LISTED = [{"name": "echo", "inputSchema": {"type": "object"}, "description": "Says it again."}]
KILL = {"name": "kill", "inputSchema": {"type": "object"}}
HANG = {"name": "hang", "inputSchema": {"type": "object"}}


# --- what passes through


@EVERY_ERA
async def test_a_modern_and_a_legacy_server_are_served_side_by_side_under_their_tool_names(era: Era) -> None:
    servers = [peer("new", era="modern", listed=LISTED), peer("old", era="legacy", listed=[*LISTED, HANG])]
    async with through(*servers, era=era) as client:
        assert names(client) == ["mcp__new__echo", "mcp__old__echo", "mcp__old__hang"]
        described = "Tool echo from the MCP server old. Says it again."
        assert client.tools[1].spec.description == described
        for number, name in enumerate(names(client)[:2]):
            result = await client.call_tool(name, {"n": number})
            assert json.loads(result.content) == {"n": number}


@EVERY_ERA
async def test_schemas_and_arguments_pass_byte_for_byte(era: Era) -> None:
    arguments = b'{"z" : 1.10, "a":[1e2,123456789012345678901234567890 ],  "u":"\\u00e9"}'
    async with through(verbatim(), era=era) as client:
        found = {entry.remote_name: entry for entry in client.tools}
        listed = {name: found[f"mcp__verbatim__{name}"] for name in verbatim_server.ENTRIES}
        assert listed["echo"].input_schema_json == verbatim_server.OBJECT.encode()
        spliced = '{"type":"object",' + verbatim_server.TYPELESS[1:]
        assert listed["typeless"].input_schema_json == spliced.encode()
        assert listed["typeless"].title == "No type"
        assert listed["typeless"].spec.raw["x-unknown"] == {"kept": 1}
        output = listed["numbers"].spec.output_schema_json
        wrapped = f'{{"type":"object","properties":{{"result":{verbatim_server.ARRAY}}},"required":["result"]}}'
        assert output == (verbatim_server.ARRAY if era == "modern" else wrapped).encode()
        echoed = await client.call_tool("mcp__verbatim__echo", arguments)
        assert echoed.content.encode() == arguments


@EVERY_ERA
@pytest.mark.parametrize("name", ["numbers", "rich", "failing", "typeless"])
async def test_images_structure_errors_and_meta_pass_unchanged(era: Era, name: str) -> None:
    sent = json.loads(verbatim_server.RESULTS[name])
    async with through(verbatim(), era=era) as client:
        result = await client.call_tool(f"mcp__verbatim__{name}")
        data = result.raw
        assert data is not None
        got = json.loads(data)
        if era == "modern":
            assert got.pop("resultType") == "complete"
            del got["_meta"]["io.modelcontextprotocol/serverInfo"]
            sent.setdefault("_meta", {})
        elif name == "numbers":  # to legacy clients structured output is an object
            sent["structuredContent"] = {"result": sent["structuredContent"]}
        assert got == sent
        if name == "rich":
            assert result.structured_json == b'{"z": 1.10,"a":{"big":123456789012345678901234567890}}'
            assert [image.data for image in result.images] == [b"\x89PNG"]


@EVERY_ERA
@EVERY_UPSTREAM
async def test_progress_passes_in_order(era: Era, upstream: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def on_progress(*step: Any) -> None:
        seen.append(step)

    async with through(peer(era=upstream), era=era) as client:
        await client.call_tool("mcp__peer__progress", {"steps": 5}, on_progress=on_progress)
    assert seen == [(step, 5, str(step)) for step in range(1, 6)]


@EVERY_ERA
@EVERY_UPSTREAM
async def test_a_call_that_the_client_cancels_is_cancelled_at_the_server(era: Era, upstream: str) -> None:
    async with open_lives() as lives, through(peer(era=upstream, alive=lives.port), era=era) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "mcp__peer__hang")
            await lives.called()
            nursery.cancel_scope.cancel()
        await lives.heard("notifications/cancelled")
        assert (await client.call_tool("mcp__peer__echo", {"n": 1})).content == '{"n": 1}'


@EVERY_ERA
@EVERY_UPSTREAM
async def test_a_change_of_a_servers_list_reaches_the_client(era: Era, upstream: str) -> None:
    changing = peer("a", era=upstream, list_changed=True, listed=[*LISTED, {**KILL, "name": "change"}])
    async with through(changing, peer("b", listed=LISTED), era=era) as client:
        async with client.watch_tools() as changes:
            await client.call_tool("mcp__a__change", {"tools": [HANG, *LISTED], "times": 3})
            while "mcp__a__hang" not in names(client):
                await anext(changes)
            assert names(client) == ["mcp__a__hang", "mcp__a__echo", "mcp__b__echo"]
        gone = await client.request("tools/list")
        assert [entry["name"] for entry in gone["tools"]] == names(client)


async def test_a_filter_hides_tools_and_what_it_misses_is_warned_of(told: pytest.LogCaptureFixture) -> None:
    async with through(peer(tools=["echo", "nonesuch"])) as client:
        assert names(client) == ["mcp__peer__echo"]
        answer = await client.request("tools/list")
        assert len(answer["tools"]) == 1
    assert warnings(told) == ['server "peer": tool "nonesuch" is not offered by the server']


@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage"])
async def test_a_legacy_server_that_asks_the_client_something_is_refused(method: str) -> None:
    async with through(peer(era="legacy")) as client:
        result = await client.call_tool("mcp__peer__question", {"method": method})
        assert json.loads(result.content)["error"]["code"] == -32601


async def test_a_modern_server_that_asks_the_client_something_fails_that_call() -> None:
    ask = """
def asks(peer, id_, arguments, meta):
    request = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}
    peer.answer(id_, {"resultType": "input_required", "inputRequests": {"q": request}, "requestState": "s"})
CALLS["asks"] = asks
"""
    async with through(peer(era="modern", source=ask)) as client:
        result = await client.call_tool("mcp__peer__asks")
        assert result.is_error
        assert result.content == "mcp: the server asks for elicitation/create, which is not offered"


async def test_tools_of_ones_own_stay_beside_those_of_the_servers() -> None:
    @tool
    async def mine() -> str:
        return "here"

    async with open_gateway([peer(listed=[*LISTED, KILL])], name="both", version="7") as gateway:
        gateway.add_tools(mine)
        async with open_memory_connection(gateway, name="g") as client:
            assert client.server_info == {"name": "both", "version": "7"}
            assert names(client) == ["mcp__peer__echo", "mcp__peer__kill", "mine"]
            await client.call_tool("mcp__peer__kill", {"signal": signal.SIGKILL})
            await until_listed(client, "mine")
            assert (await client.call_tool("mine")).content == "here"


async def test_servers_are_told_who_calls_and_their_stderr_is_handed_on_with_their_name() -> None:
    lines: list[tuple[str, str]] = []
    server = peer("loud", era="legacy", protocol="legacy", moan="one\ntwo\n")
    async with through(server, name="the-gateway", version="3", on_stderr=lambda *it: lines.append(it)) as client:
        seen = json.loads((await client.call_tool("mcp__loud__seen")).content)
        (hello,) = [message for message in seen if message["method"] == "initialize"]
        assert hello["params"]["clientInfo"] == {"name": "the-gateway", "version": "3"}
    assert lines == [("loud", "one"), ("loud", "two")]


@pytest.mark.table(
    ("servers", "field"),
    [
        ([Server("one", command="x"), Server("one", command="y")], "name"),
        ([Server("one", command="x"), "two"], "server"),
        (7, "servers"),
    ],
)
async def test_what_is_no_list_of_servers_with_names_that_differ_is_refused(servers: Any, field: str) -> None:
    with pytest.raises(InvalidServerError) as caught:
        async with open_gateway(servers):
            pytest.fail("it opened")
    assert caught.value.field == field


async def test_no_servers_are_a_gateway_without_tools() -> None:
    async with through() as client:
        assert client.tools == ()


# --- an upstream is lost


@EVERY_ERA
@EVERY_UPSTREAM
async def test_a_killed_server_costs_its_own_calls_and_tools_until_it_is_started_again(
    era: Era, upstream: str, told: pytest.LogCaptureFixture
) -> None:
    lost: list[str] = []
    async with open_lives() as lives:
        listed = [*LISTED, HANG, KILL]
        mortal = peer("mortal", era=upstream, alive=lives.port, label="mortal", listed=listed)
        other = peer("other", alive=lives.port, label="other", listed=[*LISTED, {**HANG, "name": "gather"}])
        all_names = [
            *(f"mcp__mortal__{entry['name']}" for entry in listed),
            "mcp__other__echo",
            "mcp__other__gather",
        ]
        async with through(mortal, other, era=era) as client:
            assert names(client) == all_names

            async def hang() -> None:
                result = await client.call_tool("mcp__mortal__hang")
                assert result.is_error
                lost.append(result.content)

            async def survive(n: int) -> None:
                assert (await client.call_tool("mcp__other__gather", {"count": 2, "n": n})).content == str(n)

            async with client.watch_tools() as changes, trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(hang)
                nursery.start_soon(survive, 0)
                await lives.called(10, "mortal")
                killed = await client.call_tool("mcp__mortal__kill", {"signal": signal.SIGKILL})
                assert killed.is_error
                assert names(client) == all_names
                assert len(await anext(changes)) == 2, "its tools are gone, as one change"
                assert len(await anext(changes)) == 5, "and there again"
                nursery.start_soon(survive, 1)
            assert lost == ['mcp: server "mortal" stopped: was killed by SIGKILL'] * 10
            assert (await client.call_tool("mcp__mortal__echo", {"n": 2})).content == '{"n": 2}'
            assert names(client) == all_names
        assert (lives.starts["mortal"], lives.starts["other"]) == (2, 1)
    assert warnings(told) == [
        'server "mortal" stopped: was killed by SIGKILL; its tools are missing until it is up (next try in 0.05 s)'
    ]


async def test_tools_vanish_and_come_back_as_one_change_each() -> None:
    changes: list[int] = []
    with trio.fail_after(20):
        async with open_gateway([peer(), peer("other", listed=LISTED)]) as gateway:
            full = len(gateway.tools)
            gateway.changes.listen(TOOLS_CHANGED, "test", lambda: changes.append(len(gateway.tools)))
            async with open_memory_connection(gateway, name="g") as client, client.watch_tools() as noticed:
                await client.call_tool("mcp__peer__kill", {"signal": signal.SIGKILL})
                while len(await anext(noticed)) != full:
                    pass
            assert changes == [1, full]


@pytest.mark.slow
async def test_a_server_that_never_starts_is_a_warning_told_once_and_the_others_are_served(
    told: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    source = f"if not os.path.exists({str(flag)!r}): os._exit(7)"

    def hesitant(port: int) -> Server:
        return peer("hesitant", listed=LISTED, source=source, alive=port, protocol="legacy")

    async with open_lives() as lives, through(hesitant(lives.port), peer("other", listed=LISTED)) as client:
        assert names(client) == ["mcp__other__echo"]
        assert warnings(told) == [
            'server "hesitant" did not start: exited with status 7; its tools are missing until it is up '
            "(next try in 0.05 s)"
        ]
        async with client.watch_tools() as changes:
            await lives.came(times=4)
            assert len(warnings(told)) == 1
            flag.touch()
            assert [found.remote_name for found in await anext(changes)] == [
                "mcp__hesitant__echo",
                "mcp__other__echo",
            ]
            assert (await client.call_tool("mcp__hesitant__echo", {"n": 1})).content == '{"n": 1}'


async def test_a_call_of_a_tool_that_is_gone_is_one_of_an_unknown_tool(tmp_path: Path) -> None:
    once = tmp_path / "once"
    source = f"os.path.exists({str(once)!r}) and os._exit(7); open({str(once)!r}, 'w').close()"
    async with through(peer(source=source, listed=[KILL], protocol="legacy", era="legacy")) as client:
        (kill,) = client.tools
        await kill.call({"signal": signal.SIGKILL})
        await until_listed(client)
        with pytest.raises(Exception, match='unknown tool "mcp__peer__kill"'):
            await kill.call({"signal": signal.SIGKILL})


async def test_no_server_starts_and_the_gateway_is_there_all_the_same(told: pytest.LogCaptureFixture) -> None:
    async with through(Server("gone", command="/no/such/command"), peer("dead", die=3)) as client:
        assert client.tools == ()
    assert {text.partition(":")[0] for text in warnings(told)} == {
        'server "gone" did not start',
        'server "dead" did not start',
    }


@EVERY_UPSTREAM
async def test_a_list_that_cannot_be_had_again_stays_and_is_asked_for_again(
    upstream: str, told: pytest.LogCaptureFixture
) -> None:
    """Nobody tells of the change a second time."""
    stumbling = """
def change(peer, id_, arguments, meta):
    listings = iter([False, False, True])
    def request(id_, method, params, request=peer.request):
        if method == "tools/list" and not next(listings, True):
            peer.refuse(id_, -32603, "busy, token is hunter2hunter2")
        else:
            request(id_, method, params)
    peer.request = request
    peer.options["tools"] = [{"name": "new", "inputSchema": OBJECT}]
    peer.notify("notifications/tools/list_changed")
    peer.answer(id_, text("changed"))
CALLS["change"] = change
"""
    env = {**environment(), "API_TOKEN": "hunter2hunter2"}
    listed = [{**KILL, "name": "change"}]
    server = peer(era=upstream, list_changed=True, source=stumbling, listed=listed, env=env)
    async with through(server) as client:
        await client.call_tool("mcp__peer__change")
        await until_listed(client, "mcp__peer__new")
    assert warnings(told) == [
        'server "peer": its tools cannot be listed again: busy, token is *** (code -32603) (next try in 0.05 s)'
    ]
    assert "(next try in 0.1 s)" in told.text
    assert "hunter2" not in told.text


async def test_no_secret_is_logged_of_a_server_that_does_not_start(told: pytest.LogCaptureFixture) -> None:
    env = {**environment(), "API_TOKEN": "hunter2hunter2"}
    options: dict[str, Any] = {
        "env": env,
        "moan": "token hunter2hunter2\n",
        "die": 1,
        "banner": "hunter2hunter2\n",
    }
    async with through(peer("spy", **options), program("raise SystemExit(2)", "--api-key", "hunter2hunter2")):
        assert len(warnings(told)) == 2
    assert "hunter2" not in told.text


async def test_a_server_over_http_that_fails_one_call_keeps_its_tools(nursery: trio.Nursery) -> None:
    async def break_off(exchange: Exchange) -> None:
        await exchange.status("502 Bad Gateway")

    http = await start_peer(nursery)
    http.tools = [*tools("echo", "broken")]
    http.calls["broken"] = break_off
    async with through(http.server(name="far"), peer("near", listed=LISTED)) as client:
        assert names(client) == ["mcp__far__echo", "mcp__far__broken", "mcp__near__echo"]
        broken = await client.call_tool("mcp__far__broken")
        assert broken.is_error
        assert broken.content.startswith('mcp: server "far" failed one request: ')
        assert (await client.call_tool("mcp__far__echo", {"n": 1})).content == '{"n": 1}'
        assert len(names(client)) == 3


async def test_whatever_an_http_servers_headers_raise_costs_that_server_alone(
    nursery: trio.Nursery, told: pytest.LogCaptureFixture
) -> None:
    def headers() -> dict[str, str]:
        raise KeyError("no header today")

    http = await start_peer(nursery)
    async with through(http.server(name="far", headers=headers), peer("near", listed=LISTED)) as client:
        assert names(client) == ["mcp__near__echo"]
    assert warnings(told)[0].startswith("server \"far\": KeyError: 'no header today'; its tools are missing")


# --- the end


@pytest.mark.slow
async def test_the_end_of_the_body_ends_every_server_with_its_children() -> None:
    """Whatever they are doing: one serves, with a child that is deaf to signals, one starts, one is in a pause."""
    with trio.fail_after(30):
        async with open_lives() as lives:
            alive = partial(peer, alive=lives.port)
            servers = [
                alive("serving", label="serving", children=["stubborn", "quiet"]),
                alive("starting", label="starting", start_delay=1000),
                alive("dying", label="dying", die=1),
            ]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_hold, servers)
                for label in ("serving", "child0", "child1", "starting", "dying"):
                    await lives.came(label)
                nursery.cancel_scope.cancel()
            for label in ("serving", "child0", "child1", "starting", "dying"):
                await lives.ended(label)


async def _hold(servers: list[Server]) -> None:
    async with open_gateway(servers):
        await trio.sleep_forever()


async def test_a_server_that_is_being_started_again_ends_with_the_body(tmp_path: Path) -> None:
    once = tmp_path / "once"
    source = f"os.path.exists({str(once)!r}) and time.sleep(1000); open({str(once)!r}, 'w').close()"
    with trio.fail_after(20):
        async with open_lives() as lives:
            server = peer(alive=lives.port, source=source, stop_timeout=0.1)
            async with open_gateway([server]) as gateway:
                async with open_memory_connection(gateway, name="g") as client:
                    await client.call_tool("mcp__peer__kill", {"signal": signal.SIGKILL})
                await lives.came(times=2)
            await lives.ended()
    assert gateway.tools == ()


async def test_an_exception_of_the_body_leaves_as_itself() -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_gateway([peer(listed=LISTED)]):
            raise ZeroDivisionError


async def test_a_body_that_is_cancelled_still_has_its_servers_when_it_tidies_up() -> None:
    with trio.fail_after(20), trio.CancelScope() as scope:
        async with open_gateway([peer(listed=LISTED)]) as gateway:
            (echo,) = gateway.tools
            try:
                scope.cancel()
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    assert (await echo.call({"n": 1})).content == '{"n": 1}'
    assert scope.cancelled_caught


async def test_a_call_in_flight_when_the_body_is_cancelled_is_cancelled_at_the_server() -> None:
    async with open_lives() as lives:
        with trio.fail_after(20), trio.CancelScope() as scope:
            async with open_gateway([peer(alive=lives.port)]) as gateway:
                async with open_memory_connection(gateway, name="g") as client, trio.open_nursery() as nursery:
                    nursery.start_soon(client.call_tool, "mcp__peer__hang")
                    await lives.called()
                    scope.cancel()
        await lives.ended()
        assert "notifications/cancelled" in lives.said["server"]
