"""A tool that asks a legacy client: over the same stream, while the call waits."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.exposing import Client, modern, raw, text_of
from tests.far_end import Message
from trio_mcp import Context, tool

RUNS: list[str] = []


@attrs.define
class Name:
    name: str


@attrs.define
class Age:
    age: int = 7


@tool
async def greet(context: Context) -> str:
    """Ask twice."""
    RUNS.append("top")
    name = await context.elicit("Who?", Name)
    RUNS.append("named")
    age = await context.elicit("How old?", Age)
    return f"Hello {name.content.name}, {age.content.age}"


@tool
async def think(context: Context) -> str:
    """Ask the client's model."""
    answer = await context.sample({"messages": [], "maxTokens": 5})
    return str(answer["content"]["text"])


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


async def begin(client: Client, name: str, **capabilities: Any) -> Message:
    """Begin a call after a handshake with these capabilities; the next message."""
    await client.initialize(**capabilities)
    await client.ask("tools/call", {"name": name})
    return await client.take()


async def test_a_legacy_client_is_asked_over_the_same_stream_and_the_function_runs_once() -> None:
    RUNS.clear()
    async with raw(greet) as client:
        asked = await begin(client, "greet", elicitation={})
        assert (asked["method"], asked["params"]["message"]) == ("elicitation/create", "Who?")
        await client.answer(asked, accept(name="Ada"))
        asked = await client.take()
        assert asked["params"]["message"] == "How old?"
        await client.answer(asked, accept(age=3))
        assert text_of(await client.take()) == "Hello Ada, 3"
        assert RUNS == ["top", "named"]


async def test_a_legacy_client_may_be_asked_for_its_model() -> None:
    async with raw(think) as client:
        asked = await begin(client, "think", sampling={})
        assert (asked["method"], asked["params"]) == ("sampling/createMessage", {"messages": [], "maxTokens": 5})
        await client.answer(asked, {"content": {"type": "text", "text": "42"}})
        assert text_of(await client.take()) == "42"


@pytest.mark.table(
    ("name", "capabilities", "what"),
    [
        ("greet", {}, "elicitation"),
        ("greet", {"elicitation": {"url": {}}}, "elicitation"),
        ("think", {}, "sampling"),
    ],
)
async def test_what_a_legacy_client_does_not_offer_is_an_error_result(
    name: str, capabilities: dict[str, Any], what: str
) -> None:
    async with raw(greet, think) as client:
        answer = await begin(client, name, **capabilities)
        assert answer["result"]["isError"] is True
        assert text_of(answer) == f"the client does not offer {what}"


@pytest.mark.table(
    ("answer", "text"),
    [
        ({"error": {"code": -1, "message": "User rejected"}}, "User rejected (code -1)"),
        ({"result": accept(name=7)}, "the client's answer does not fit the form: name: expected str, got int"),
        ({"result": {}}, "elicitation/create was answered without an action"),
        ({"result": []}, "elicitation/create was answered without an action"),
    ],
)
async def test_a_legacy_answer_that_is_none_is_an_error_result(answer: dict[str, Any], text: str) -> None:
    async with raw(greet) as client:
        asked = await begin(client, "greet", elicitation={})
        await client.send({"id": asked["id"], **answer})
        assert text_of(await client.take()) == text


async def test_a_legacy_answer_that_cannot_be_read_fails_the_question_it_belongs_to() -> None:
    async with raw(greet) as client:
        asked = await begin(client, "greet", elicitation={})
        await client.send(b'{"jsonrpc":"2.0","id":%d,"result":{"action":"acc\n' % asked["id"])
        assert "cannot be read" in text_of(await client.take())


async def test_a_call_that_is_cancelled_withdraws_its_question() -> None:
    async with raw(greet) as client:
        asked = await begin(client, "greet", elicitation={})
        await client.tell("notifications/cancelled", {"requestId": client._last})
        withdrawn = await client.take()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == asked["id"]


async def test_at_the_end_of_input_a_question_fails_at_once() -> None:
    """Nobody will answer it: the grace is for what can still be answered."""
    async with raw(greet, grace=30) as client:
        await begin(client, "greet", elicitation={})
        with trio.fail_after(2):
            await client.output.aclose()
            answer = await client.take()
        assert text_of(answer) == 'the connection to "raw" was closed'


async def test_questions_wait_side_by_side() -> None:
    async with raw(greet) as client:
        await client.initialize(elicitation={})
        for _ in range(3):
            await client.ask("tools/call", {"name": "greet"})
        asked = [await client.take() for _ in range(3)]
        await wait_all_tasks_blocked()
        assert (await client.request("ping"))["result"] == {}
        assert [message["method"] for message in asked] == ["elicitation/create"] * 3
        assert len({message["id"] for message in asked}) == 3


async def test_a_modern_call_on_a_legacy_session_is_judged_by_its_own_capabilities() -> None:
    async with raw(greet) as client:
        await client.initialize(elicitation={})
        answer = await client.request("tools/call", modern(name="greet"))
        assert answer["error"]["code"] == -32021
