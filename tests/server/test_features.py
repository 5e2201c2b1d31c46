"""A feature is one value in a table: methods, capabilities, topics. Nothing else has to know it.

The feature here is made up. It has a method of both eras that is answered at once, one that runs like a call, one
that takes several rounds, a capability, a topic and a notification; and it is served over streams and over HTTP.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio

from tests.exposing import HANDSHAKE, modern, raw
from trio_mcp import HttpApp, ServerLimits, ToolServer
from trio_mcp.protocol.messages import encode_json
from trio_mcp.server.calls.call_context import ModernCall
from trio_mcp.server.calls.multi_round import RoundParams, begin_round
from trio_mcp.server.changes import Topic
from trio_mcp.server.client_state import ClientState
from trio_mcp.server.feature import Feature, FeatureTable, Method, Request, Work
from trio_mcp.server.features.table import FEATURES
from trio_mcp.server.http.origin import Guard
from trio_mcp.server.params import Params

# --- the feature

NOTES_CHANGED = Topic("notesListChanged", "notifications/notes/list_changed")


class NoteParams(Params):
    title: Any = None


class Notes:
    """Notes on a server, which a client may add to and read."""

    def __init__(self) -> None:
        self.titles: list[str] = []
        self.notified: list[bytes] = []
        self.may_end = trio.Event()
        self.feature = Feature(
            methods=(
                Method(name="notes/add", params=NoteParams, legacy=self._add, modern=self._add),
                Method(
                    name="notes/read",
                    params=NoteParams,
                    legacy=self._read,
                    modern=self._read,
                    counts_as="call",
                    mcp_name=lambda params: params.title,
                    header_params=lambda server, params: [("Mcp-Param-Title", params.title)],
                ),
                Method(name="notes/sign", params=RoundParams, modern=self._sign, counts_as="call"),
                Method(name="notes/break", params=Params, legacy=self._break, modern=self._break),
            ),
            notifications={"notifications/notes/seen": self._seen},
            capabilities=lambda server, era: {"notes": {"era": era}},
            topics=(NOTES_CHANGED,),
        )

    def _add(self, request: Request[NoteParams]) -> bytes:
        self.titles.append(request.params.title)
        request.server.changes.announce(NOTES_CHANGED)
        return encode_json({"notes": self.titles})

    def _read(self, request: Request[NoteParams]) -> Work:
        async def work() -> bytes:
            await self.may_end.wait()
            return encode_json({"read": request.params.title, "era": request.era})

        return work

    def _sign(self, request: Request[RoundParams]) -> Work:
        async def sign(call: ModernCall) -> bytes:
            answer = await call.ask("roots/list", {})
            return encode_json({"signed": answer["roots"]})

        return begin_round(request, sign, lambda: ("notes",))

    def _break(self, request: Request[Params]) -> bytes:
        raise ValueError("secret")

    def _seen(self, client: ClientState, features: FeatureTable, params: bytes) -> None:
        self.notified.append(params)


@pytest.fixture
def notes() -> Notes:
    return Notes()


def table(notes: Notes) -> FeatureTable:
    return FeatureTable([*FEATURES.features, notes.feature])


# --- the table


def test_two_features_cannot_have_one_method(notes: Notes) -> None:
    with pytest.raises(ValueError, match="features: two have 'notes/add'"):
        FeatureTable([notes.feature, Feature(methods=notes.feature.methods[:1])])
    with pytest.raises(ValueError, match="features: two have 'notesListChanged'"):
        FeatureTable([notes.feature, Feature(topics=(NOTES_CHANGED,))])


def test_every_method_of_the_table_is_served_in_an_era() -> None:
    for method in (method for feature in FEATURES.features for method in feature.methods):
        assert method.legacy or method.modern
        assert FEATURES.methods[method.name] is method


# --- over streams


async def test_over_streams_its_methods_are_served_in_both_eras(notes: Notes) -> None:
    notes.may_end.set()
    async with raw(features=table(notes)) as client:
        error = (await client.request("notes/read", {"title": "x"}))["error"]
        assert "there was no initialize before" in error["message"]
        assert (await client.initialize())["result"]["capabilities"]["notes"] == {"era": "legacy"}
        assert (await client.modern("server/discover"))["result"]["capabilities"]["notes"] == {"era": "modern"}
        assert (await client.request("notes/read", {"title": "a"}))["result"] == {"read": "a", "era": "legacy"}
        assert (await client.modern("notes/read", title="b"))["result"] == {"read": "b", "era": "modern"}
        assert (await client.modern("tools/list"))["result"]["tools"] == []
        assert (await client.request("notes/sign"))["error"]["code"] == -32601


async def test_over_streams_its_changes_are_announced_and_subscribed_to(notes: Notes) -> None:
    async with raw(features=table(notes)) as client:
        await client.initialize()
        await client.ask("subscriptions/listen", modern(notifications={"notesListChanged": True}), id_="s")
        assert (await client.take())["params"]["notifications"] == {"notesListChanged": True}
        id_ = await client.ask("notes/add", {"title": "a"})
        messages = [await client.take() for _ in range(3)]
        assert [message.get("method") for message in messages[:2]] == [NOTES_CHANGED.notification] * 2
        assert sorted("_meta" in message["params"] for message in messages[:2]) == [False, True]
        assert messages[2] == {"jsonrpc": "2.0", "id": id_, "result": {"notes": ["a"]}}


async def test_over_streams_its_notifications_arrive_and_its_calls_are_cancelled(notes: Notes) -> None:
    async with raw(features=table(notes)) as client:
        await client.initialize()
        await client.tell("notifications/notes/seen", {"title": "a"})
        id_ = await client.ask("notes/read", {"title": "a"})
        await client.tell("notifications/cancelled", {"requestId": id_})
        assert await client.silent()
        assert [json.loads(params) for params in notes.notified] == [{"title": "a"}]


async def test_it_may_ask_in_rounds(notes: Notes) -> None:
    meta: dict[str, Any] = {"clientCapabilities": {"roots": {}}}
    async with raw(features=table(notes)) as client:
        asked = (await client.modern("notes/sign", meta=meta))["result"]
        assert asked["resultType"] == "input_required"
        ((key, question),) = asked["inputRequests"].items()
        assert question == {"method": "roots/list", "params": {}}
        answers = {key: {"roots": ["here"]}}
        again = partial(client.modern, "notes/sign", meta=meta, inputResponses=answers)
        assert (await again(requestState=asked["requestState"]))["result"] == {"signed": ["here"]}
        assert (await again(requestState="forged"))["error"]["code"] == -32602


# --- over HTTP, without a network


@attrs.define(eq=False)
class Answer:
    """What an app has sent for one request."""

    status: int = 0
    headers: dict[str, str] = attrs.field(factory=dict)
    body: bytes = b""
    changed: trio.Event = attrs.field(factory=trio.Event)

    @property
    def messages(self) -> list[Any]:
        """The messages of the body, JSON or events."""
        if not self.body.startswith(b"data: "):
            return [json.loads(self.body)]
        return [json.loads(line[6:]) for line in self.body.split(b"\n") if line.startswith(b"data: ")]

    async def until(self, condition: Callable[[Answer], bool]) -> None:
        while not condition(self):
            self.changed = trio.Event()
            await self.changed.wait()


@attrs.define(eq=False)
class AppClient:
    """Sends requests to an app."""

    app: HttpApp
    nursery: trio.Nursery
    session: str = ""

    async def send(self, http_method: str, body: Any = None, **headers: str) -> Answer:
        """Begin a request; its answer, once the head has come."""
        fields = {"host": "localhost", "content_type": "application/json"}
        fields |= {"accept": "application/json, text/event-stream", **headers}
        raw_headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
        scope = {"type": "http", "method": http_method, "path": "/mcp", "headers": raw_headers}
        coming = [{"type": "http.request", "body": b"" if body is None else json.dumps(body).encode()}]
        answer = Answer()

        async def receive() -> Any:
            return coming.pop() if coming else await trio.sleep_forever()

        async def send(message: Any) -> None:
            await trio.lowlevel.checkpoint()
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                answer.body += message["body"]
            answer.changed.set()

        self.nursery.start_soon(self.app, scope, receive, send)
        await answer.until(lambda found: found.status != 0)
        return answer

    async def modern(self, method: str, *, headers: dict[str, str] | None = None, **params: Any) -> Answer:
        fields = {"mcp_protocol_version": "2026-07-28", "mcp_method": method, **(headers or {})}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": modern(**params)}
        return await self.done(await self.send("POST", message, **fields))

    async def legacy(self, method: str, params: Any = None, *, id_: Any = 1) -> Answer:
        message = {"jsonrpc": "2.0", "method": method, **({} if id_ is None else {"id": id_})}
        fields = {"mcp_session_id": self.session} if self.session else {}
        answer = await self.send("POST", message | ({} if params is None else {"params": params}), **fields)
        return await self.done(answer)

    async def done(self, answer: Answer) -> Answer:
        if answer.status != 202:
            await answer.until(lambda found: found.body != b"")
        return answer

    async def initialize(self) -> Any:
        answer = await self.legacy("initialize", HANDSHAKE)
        self.session = answer.headers["mcp-session-id"]
        assert (await self.legacy("notifications/initialized", id_=None)).status == 202
        return answer.messages[0]


@asynccontextmanager
async def app_of(notes: Notes, **limits: Any) -> AsyncIterator[AppClient]:
    app = HttpApp(ToolServer("s"), guard=Guard(), limits=ServerLimits(**limits), features=table(notes))
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            yield AppClient(app, nursery)
            nursery.cancel_scope.cancel()


def named(title: str) -> dict[str, str]:
    return {"mcp_name": title, "mcp_param_title": title}


async def test_over_http_its_methods_are_served_in_both_eras(notes: Notes) -> None:
    notes.may_end.set()
    async with app_of(notes) as client:
        assert (await client.initialize())["result"]["capabilities"]["notes"] == {"era": "legacy"}
        found = (await client.modern("server/discover")).messages[0]
        assert found["result"]["capabilities"]["notes"] == {"era": "modern"}
        read = await client.legacy("notes/read", {"title": "a"})
        assert read.messages[0]["result"] == {"read": "a", "era": "legacy"}
        read = await client.modern("notes/read", title="b", headers=named("b"))
        assert read.messages[0]["result"] == {"read": "b", "era": "modern"}
        await client.legacy("notifications/notes/seen", {"title": "a"}, id_=None)
        assert notes.notified == [b'{"title": "a"}']
        for answer in (await client.modern("notes/break"), await client.legacy("notes/break")):
            assert answer.messages[0]["error"] == {"code": -32603, "message": "internal error"}


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "the Mcp-Name header is missing"),
        ({**named("b"), "mcp_name": "c"}, "the Mcp-Name header is not the name in params"),
        ({"mcp_name": "b"}, "the Mcp-Param-Title header is missing"),
        ({**named("b"), "mcp_param_title": "c"}, "the Mcp-Param-Title header is not the argument"),
    ],
)
async def test_over_http_its_headers_must_repeat_its_params(
    notes: Notes, headers: dict[str, str], reason: str
) -> None:
    async with app_of(notes) as client:
        refused = await client.modern("notes/read", title="b", headers=headers)
        assert (refused.status, refused.messages[0]["error"]) == (400, {"code": -32020, "message": reason})


async def test_over_http_its_calls_count_as_calls(notes: Notes) -> None:
    async with app_of(notes, max_running=1) as client:
        await client.initialize()
        first: list[Answer] = []

        async def read() -> None:
            first.append(await client.modern("notes/read", title="b", headers=named("b")))

        client.nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        assert client.app.statistics().calls == 1
        requests: list[Callable[[], Awaitable[Answer]]] = [
            partial(client.modern, "notes/read", title="c", headers=named("c")),
            partial(client.legacy, "notes/read", {"title": "c"}),
        ]
        for request in requests:
            assert (await request()).status == 503
        assert (await client.modern("notes/add", title="d")).status == 200  # answered at once: counts as nothing
        notes.may_end.set()
        await trio.testing.wait_all_tasks_blocked()
        assert first[0].messages[0]["result"]["read"] == "b"


async def test_over_http_its_changes_are_announced_and_subscribed_to(notes: Notes) -> None:
    async with app_of(notes) as client:
        await client.initialize()
        old = await client.send("GET", mcp_session_id=client.session)
        new = await client.modern("subscriptions/listen", notifications={"notesListChanged": True})
        await client.legacy("notes/add", {"title": "a"})
        await new.until(lambda answer: len(answer.messages) == 2)
        assert new.messages[0]["params"]["notifications"] == {"notesListChanged": True}
        assert new.messages[1]["method"] == NOTES_CHANGED.notification
        await old.until(lambda answer: b"data: " in answer.body)
        assert json.loads(old.body.partition(b"data: ")[2]) == {
            "jsonrpc": "2.0",
            "method": NOTES_CHANGED.notification,
            "params": {},
        }
