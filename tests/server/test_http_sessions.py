"""The legacy era over HTTP: sessions, their streams, questions, batches, and how long all that lasts."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.exposing import HANDSHAKE
from tests.serving import Line, Served, echo, serving, until
from trio_mcp import (
    Context,
    ElicitRequest,
    ElicitResult,
    ProtocolError,
    Server,
    ToolServer,
    asgi_app,
    open_connection,
    tool,
)


def call(name: str, id_: Any = 1, **params: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": id_,
        "method": "tools/call",
        "params": {"name": name, "arguments": {}, **params},
    }


async def begun(served: Served, revision: str = "2025-11-25", **capabilities: Any) -> Line:
    """A connection in a session of its own."""
    line = await served.connect()
    await line.initialize(revision, **capabilities)
    return line


class Gate:
    """A tool that waits to be let through."""

    def __init__(self) -> None:
        self.entered = trio.Event()
        self.opened = trio.Event()
        self.ended = trio.Event()
        self.cancelled = False

    async def wait(self) -> str:
        self.entered.set()
        try:
            await self.opened.wait()
        except trio.Cancelled:
            self.cancelled = True
            raise
        finally:
            self.ended.set()
        return "through"


async def test_a_session_has_an_id_that_nobody_guesses() -> None:
    async with serving(echo) as served:
        first, second = await begun(served), await begun(served)
        assert first.session is not None
        assert second.session != first.session
        assert len(first.session) >= 32
        assert all("!" <= letter <= "~" for letter in first.session)
        reply = await first.legacy("ping")
        assert reply.result == {}


@pytest.mark.table(
    ("revision", "agreed"),
    [("2025-06-18", "2025-06-18"), ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")],
)
async def test_the_revision_is_agreed_on(revision: str, agreed: str) -> None:
    async with serving(echo) as served:
        line = await served.connect()
        reply = await line.initialize(revision)
        assert reply.result["protocolVersion"] == agreed


async def test_stray_headers_of_the_other_era_do_not_hinder_the_handshake() -> None:
    async with serving(echo) as served:
        line = await served.connect()
        reply = await line.legacy("initialize", HANDSHAKE, mcp_method="initialize")
        assert reply.result["protocolVersion"] == "2025-11-25"


async def test_what_needs_a_session_has_one_that_lives() -> None:
    async with serving(echo) as served:
        line = await begun(served)
        session, line.session = line.session, None
        assert (await line.legacy("tools/list")).status == 400
        assert (await line.ask("GET", mcp_protocol_version="2025-11-25")).status == 400
        assert (await line.legacy("tools/list", mcp_session_id="somebody's")).status == 404
        for method in ("GET", "DELETE"):
            assert (await line.ask(method, mcp_session_id="somebody's")).status == 404
        line.session = session
        assert (await line.legacy("tools/list", mcp_protocol_version="1999-01-01")).status == 400
        assert (await line.ask("DELETE", mcp_protocol_version="nonsense")).status == 400
        unsaid = await line.legacy("tools/list", mcp_protocol_version=None)
        assert [entry["name"] for entry in unsaid.result["tools"]] == ["echo"]


async def test_a_session_that_was_deleted_is_gone_with_what_ran_in_it() -> None:
    gate = Gate()
    async with serving(gate.wait) as served:
        line = await begun(served)
        other = await served.connect(line.session)
        await line.send("POST", json.dumps(call("wait")).encode())
        await gate.entered.wait()
        assert (await other.ask("DELETE")).status == 204
        await gate.ended.wait()
        assert gate.cancelled
        assert (await other.legacy("ping")).status == 404
        reply = await line.rest(await line.head())
        assert reply.events == []  # no answer to what was cancelled


async def test_a_client_that_hangs_up_has_not_cancelled_its_call() -> None:
    gate = Gate()
    async with serving(gate.wait) as served:
        line = await begun(served)
        other = await served.connect(line.session)
        await line.send("POST", json.dumps(call("wait")).encode())
        await gate.entered.wait()
        await line.stream.aclose()
        again = await other.post(call("wait"))
        assert (again.status, again.code) == (200, -32600)  # it is still running
        gate.opened.set()
        await gate.ended.wait()
        assert not gate.cancelled


async def test_a_cancel_that_is_told_ends_the_call_without_an_answer() -> None:
    gate = Gate()
    async with serving(gate.wait) as served:
        line = await begun(served)
        other = await served.connect(line.session)
        await line.send("POST", json.dumps(call("wait", 1)).encode())
        await gate.entered.wait()
        for request_id in ("another's", None, [1], True, 1.0, "1", 1):
            assert not gate.cancelled
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}
            assert (await other.post(note)).status == 202
            await wait_all_tasks_blocked(0.02)
        await gate.ended.wait()
        assert gate.cancelled
        assert (await line.rest(await line.head())).events == []


async def test_a_call_is_cancelled_for_a_client_that_takes_no_events() -> None:
    gate = Gate()
    async with serving(gate.wait) as served:
        line = await begun(served)
        other = await served.connect(line.session)
        await line.send("POST", json.dumps(call("wait")).encode(), accept="application/json")
        await gate.entered.wait()
        await other.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        assert (await line.rest(await line.head())).status == 202


async def test_log_messages_and_progress_come_with_the_answer() -> None:
    async def talk(context: Context) -> str:
        await context.log("debug", "unheard")
        await context.progress(1, 2, "half")
        await context.log("error", {"heard": True})
        return "said"

    async with serving(talk) as served:
        line = await begun(served)
        assert (await line.legacy("logging/setLevel", {"level": "warning"})).result == {}
        reply = await line.post(call("talk", _meta={"progressToken": 9}))
        assert [event.get("method", "answer") for event in reply.events] == [
            "notifications/progress",
            "notifications/message",
            "answer",
        ]
        assert reply.result["content"][0]["text"] == "said"


async def test_a_question_goes_out_on_the_stream_of_its_call() -> None:
    async def ask(context: Context) -> str:
        return str((await context.ask("elicitation/create", {"message": "?"}))["action"])

    async with serving(ask) as served:
        line = await begun(served, elicitation={})
        other = await served.connect(line.session)
        await line.send("POST", json.dumps(call("ask")).encode())
        reply = await line.head()
        (question,) = await line.more(reply, 1)
        assert question["method"] == "elicitation/create"
        unasked = await other.post({"jsonrpc": "2.0", "id": 77, "result": {}})
        assert unasked.status == 202
        assert (
            await other.post({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
        ).status == 202
        assert (await line.rest(reply)).result["content"][0]["text"] == "decline"


async def test_a_question_goes_to_the_sessions_own_stream_where_its_call_takes_no_events() -> None:
    async def ask(context: Context) -> str:
        return str((await context.sample({"messages": [], "maxTokens": 1}))["role"])

    async with serving(ask) as served:
        line, own = await begun(served, sampling={}), await served.connect()
        body = json.dumps(call("ask")).encode()
        nobody = await line.ask("POST", body, accept="application/json")
        assert nobody.result["isError"] is True
        assert nobody.result["content"][0]["text"] == "the client has no stream open for sampling/createMessage"
        own.session = line.session
        await own.send("GET", accept="text/event-stream")
        stream = await own.head()
        assert stream.headers["x-accel-buffering"] == "no"
        await line.send("POST", body, accept="application/json")
        (question,) = await own.more(stream, 1)
        other = await served.connect(line.session)
        error = {"code": -1, "message": "not today"}
        await other.post({"jsonrpc": "2.0", "id": question["id"], "error": error})
        refused = await line.rest(await line.head())
        assert refused.result["content"][0]["text"] == "not today (code -1)"


async def test_a_question_that_is_given_up_is_taken_back() -> None:
    async def ask(context: Context) -> str:
        with trio.move_on_after(0.05):
            await context.ask("elicitation/create", {"message": "?"})
        return "gave up"

    async with serving(ask) as served:
        line = await begun(served, elicitation={})
        reply = await line.post(call("ask"))
        question, taken_back, answer = reply.events
        assert taken_back["method"] == "notifications/cancelled"
        assert taken_back["params"] == {"requestId": question["id"]}
        assert answer["result"]["content"][0]["text"] == "gave up"


async def test_a_call_whose_client_has_hung_up_has_nobody_to_ask() -> None:
    gone, failed = trio.Event(), trio.Event()
    texts: list[str] = []

    async def ask(context: Context) -> None:
        await context.log("error", "here")
        await gone.wait()
        try:
            await context.ask("elicitation/create", {"message": "?"})
        except ProtocolError as error:
            texts.append(str(error))
            failed.set()

    async with serving(ask) as served:
        line = await begun(served, elicitation={})
        await line.send("POST", json.dumps(call("ask")).encode())
        await line.more(await line.head(), 1)
        await line.stream.aclose()
        await trio.testing.wait_all_tasks_blocked(0.05)
        gone.set()
        await failed.wait()
        assert texts == ["the client has no stream open for elicitation/create"]


async def test_changes_of_the_list_come_on_the_sessions_own_stream_also_belatedly() -> None:
    server = ToolServer("changing")
    server.add_tools(tool(echo))
    async with serving(server=server) as served:
        line = await begun(served)
        for _ in range(3):
            server.add_tools(tool(name="another")(lambda: None))
        own = await served.connect(line.session)
        await own.send("GET", accept="text/event-stream")
        stream = await own.head()
        assert [event["method"] for event in await own.more(stream, 1)] == ["notifications/tools/list_changed"]
        server.remove_tool("another")
        assert len(await own.more(stream, 2)) == 2


async def test_a_new_stream_takes_the_place_of_the_last() -> None:
    server = ToolServer("changing")
    async with serving(server=server) as served:
        line = await begun(served)
        first, second = await served.connect(line.session), await served.connect(line.session)
        await first.send("GET")
        old = await first.head()
        await second.send("GET")
        new = await second.head()
        await first.rest(old)
        server.add_tools(tool(echo))
        assert len(await second.more(new, 1)) == 1
        assert old.events == []
        refused = await line.ask("GET", accept="application/json")
        assert refused.status == 406


@pytest.mark.table("step", range(4))
async def test_a_stream_that_is_replaced_while_it_sends_is_whole_and_loses_nothing(step: int) -> None:
    server = ToolServer("changing")
    app = asgi_app(server)
    sent: list[dict[str, Any]] = []
    going_on = trio.Event()

    async def send(message: dict[str, Any]) -> None:
        if len(sent) == step:  # here it is replaced
            await going_on.wait()
        sent.append(message)

    async def exchange(method: str, send: Any, body: Any = None, **headers: bytes) -> None:
        to_app, receive = trio.open_memory_channel[dict[str, Any]](1)
        to_app.send_nowait({"type": "http.request", "body": b"" if body is None else json.dumps(body).encode()})
        fields = {"host": b"localhost", "content_type": b"application/json", **headers}
        pairs = [(name.replace("_", "-").encode(), value) for name, value in fields.items()]
        await app({"type": "http", "method": method, "path": "/mcp", "headers": pairs}, receive.receive, send)

    replies: list[dict[str, Any]] = []

    async def keep(message: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        replies.append(message)

    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}
    await exchange("POST", keep, hello)
    session = dict(replies[0]["headers"])[b"mcp-session-id"]
    await exchange("POST", keep, {"jsonrpc": "2.0", "method": "notifications/initialized"}, mcp_session_id=session)
    replies.clear()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(exchange, "GET", send, mcp_session_id=session))
            await wait_all_tasks_blocked()
            server.add_tools(tool(echo))
            await wait_all_tasks_blocked()
            nursery.start_soon(partial(exchange, "GET", keep, mcp_session_id=session))
            await wait_all_tasks_blocked()
            going_on.set()
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    assert [message["type"] for message in sent] == ["http.response.start"] + ["http.response.body"] * (
        len(sent) - 1
    )
    assert sent[-1]["more_body"] is False
    assert b"".join(message.get("body", b"") for message in sent + replies).count(b"list_changed") == 1


async def test_batches_are_for_the_one_revision_that_has_them() -> None:
    async with serving(echo) as served:
        old, new = await begun(served, "2025-03-26"), await begun(served)
        batch = [
            call("echo", 1),
            {"jsonrpc": "2.0", "method": "notifications/x"},
            call("echo", "2"),
            call("no", 3),
        ]
        reply = await old.ask("POST", json.dumps(batch).encode(), accept="application/json")
        assert {answer["id"]: "result" in answer for answer in reply.json} == {1: True, "2": True, 3: False}
        streamed = await old.post(batch)
        answers = streamed.json if "json" in streamed.headers["content-type"] else streamed.events
        assert {answer["id"] for answer in answers} == {1, "2", 3}
        alone = await old.ask("POST", json.dumps([call("echo")]).encode(), accept="application/json")
        assert [answer["id"] for answer in alone.json] == [1]
        told = await old.post([{"jsonrpc": "2.0", "method": "notifications/x"}])
        assert told.status == 202
        for wrong in ([], [1], [call("echo")] * 101, [[call("echo")]]):
            assert (await old.post(wrong)).status == 400
        assert (await new.post(batch)).status == 400
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}
        for times in (1, 2):
            nested = await old.post([hello] * times)
            assert [answer["error"]["code"] for answer in nested.json] == [-32600] * times


async def test_of_two_requests_of_one_id_in_a_batch_the_second_is_refused() -> None:
    async with serving(echo) as served:
        old = await begun(served, "2025-03-26")
        batch = [call("echo", 1), call("echo", 1)]
        reply = await old.ask("POST", json.dumps(batch).encode(), accept="application/json")
        assert ["result" in answer for answer in reply.json] == [False, True]
        assert reply.json[0]["error"] == {"code": -32600, "message": "request 1 is still running"}
        assert (await old.legacy("ping")).status == 200


@pytest.mark.slow
async def test_an_idle_session_ends_and_one_in_use_does_not() -> None:
    gate = Gate()
    async with serving(gate.wait, session_idle=0.3) as served:
        idle, busy, listening = await begun(served), await begun(served), await begun(served)
        await busy.send("POST", json.dumps(call("wait")).encode())
        await listening.send("GET")
        stream = await listening.head()
        await gate.entered.wait()
        await trio.sleep(0.8)  # the time of the server, which is another's
        assert (await idle.legacy("ping")).status == 404
        other = await served.connect(listening.session)
        assert (await other.legacy("ping")).status == 200
        gate.opened.set()
        assert (await busy.rest(await busy.head())).result["content"][0]["text"] == "through"
        assert (await busy.legacy("ping")).status == 200
        assert stream.events == []


async def test_the_longest_unused_session_makes_room_and_those_in_use_do_not() -> None:
    """Three clients that crashed must not keep a server of three sessions closed for half an hour."""
    opened = trio.Event()
    entered: list[str] = []

    async def wait() -> str:
        entered.append("")
        await opened.wait()
        return "through"

    async with serving(wait, max_sessions=3) as served:
        calling, listening, oldest = [await begun(served) for _ in range(3)]
        await calling.begin_legacy("tools/call", {"name": "wait", "arguments": {}})
        await listening.send("GET")
        await listening.head()
        await until(lambda: len(entered) == 1)
        newer = await begun(served)  # in the place of the oldest one that nobody uses
        assert (await oldest.legacy("ping")).status == 404
        assert (await newer.legacy("ping")).status == 200
        await newer.begin_legacy("tools/call", {"name": "wait", "arguments": {}}, 5)
        await until(lambda: len(entered) == 2)
        refused = await (await served.connect()).post(
            {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": HANDSHAKE}
        )
        assert (refused.status, refused.json["id"]) == (503, 3)
        assert int(refused.headers["retry-after"]) >= 1
        opened.set()
        for line in (calling, newer):
            assert (await line.rest(await line.head())).result["content"][0]["text"] == "through"


async def test_the_session_that_makes_room_is_the_one_whose_last_use_is_the_longest_ago() -> None:
    async with serving(echo, max_sessions=2) as served:
        first, second = await begun(served), await begun(served)
        assert (await first.legacy("ping")).status == 200
        await begun(served)
        assert (await second.legacy("ping")).status == 404
        assert (await first.legacy("ping")).status == 200


async def test_a_handshake_that_fails_takes_no_place() -> None:
    async with serving(echo, max_sessions=1) as served:
        first = await begun(served)
        assert (await (await served.connect()).legacy("initialize", {"protocolVersion": 1})).code == -32602
        assert (await first.legacy("ping")).status == 200


async def test_a_session_belongs_to_who_began_it() -> None:
    async def who(headers: Any) -> str:
        return str(headers["x-user"])

    async def name(context: Context) -> str:
        return str(context.principal)

    async with serving(name, authorize=who) as served:
        line = await served.connect()
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}
        begun_ = await line.post(message, x_user="ada")
        line.session = begun_.headers["mcp-session-id"]
        assert (await line.post(call("name"), x_user="ada")).result["content"][0]["text"] == "ada"
        assert (await line.post(call("name"), x_user="bob")).status == 404
        assert (await line.ask("DELETE", x_user="bob")).status == 404


async def test_a_handshake_that_is_none_leaves_no_session() -> None:
    async with serving(echo, max_sessions=1) as served:
        line = await served.connect()
        for params in ({"protocolVersion": 1}, {}):
            reply = await line.legacy("initialize", params)
            assert reply.code == -32602
            assert "mcp-session-id" not in reply.headers
        await line.initialize()


async def test_our_own_client_does_everything_it_does_elsewhere() -> None:
    from trio_mcp import demo

    asked: list[ElicitRequest] = []

    async def on_elicit(request: ElicitRequest) -> ElicitResult:
        asked.append(request)
        return ElicitResult.accept({"colour": "green", "shade": "dark"})

    async with serving(server=demo.server) as served:
        server = Server("demo", url=served.url, protocol="legacy")
        async with open_connection(server, on_elicit=on_elicit) as connection:
            assert connection.protocol_version == "2025-11-25"
            assert (await connection.call_tool("ask")).content == "green, dark shade"
            async with connection.watch_tools() as changes:
                extra = tool(name="extra")(lambda: None)
                demo.server.add_tools(extra)
                try:
                    tools = await anext(changes)
                finally:
                    demo.server.remove_tool("extra")
                assert tools[-1].remote_name == "extra"
            with trio.move_on_after(0.05):
                await connection.call_tool("slow", {"seconds": 30})
            assert (await connection.call_tool("echo", {"text": "still"})).content == "still"
    assert len(asked) == 1
