"""A tool that asks a modern client is run again from the top, with the answers that a signed state brings."""

from __future__ import annotations

import base64
import json
from typing import Any

import attrs
import pytest
import trio

from tests.exposing import Client, raw, text_of
from tests.far_end import Message
from trio_mcp import Context, RequestError, ServerLimits, ToolServer, tool
from trio_mcp.server.request_state import RequestState, digest

EXPIRY = ServerLimits().request_state_expiry
KEY = b"k" * 32
FORM: dict[str, Any] = {"elicitation": {"form": {}}}
BOTH = {**FORM, "sampling": {}}


@attrs.define
class Name:
    name: str


@attrs.define
class Age:
    age: int = 7


RUNS: list[str] = []


@tool
async def greet(context: Context, greeting: str = "Hello") -> str:
    """Ask twice."""
    RUNS.append("top")
    name = await context.elicit("Who?", Name)
    RUNS.append("named")
    age = await context.elicit("How old?", Age)
    if (name.action, age.action) != ("accept", "accept"):
        return f"{name.action}, {age.action}"
    return f"{greeting} {name.content.name}, {age.content.age}"


@tool
async def think(context: Context) -> str:
    """Ask the client's model."""
    answer = await context.sample({"messages": [], "maxTokens": 5})
    return str(answer["content"]["text"])


@pytest.fixture(autouse=True)
def _no_runs() -> None:
    RUNS.clear()


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


async def ask(
    client: Client, answers: Any = None, state: Any = None, *, name: str = "greet", caps: Any = FORM, **more: Any
) -> Message:
    """One round of a call; absent members are left out."""
    members = {"inputResponses": answers, "requestState": state, **more}
    members = {key: value for key, value in members.items() if value is not None}
    return await client.modern("tools/call", name=name, meta={"clientCapabilities": caps}, **members)


def question(answer: Message) -> tuple[str, dict[str, Any], str]:
    """The key, the request and the state of an answer that asks one question."""
    result = answer["result"]
    assert result["resultType"] == "input_required"
    assert "content" not in result
    ((key, request),) = result["inputRequests"].items()
    return key, request, result["requestState"]


# --- the state


def test_a_state_gives_back_what_was_sealed() -> None:
    answers = {"a": {"x": [1.5, None, "é\ud800"]}, "b": None}
    rounds = RequestState(KEY, expiry=EXPIRY)
    assert rounds.verify("call", rounds.sign("call", answers)) == answers


def test_another_process_with_the_same_key_reads_it_and_one_with_another_does_not() -> None:
    state = RequestState(KEY, expiry=EXPIRY).sign("call", {})
    assert RequestState(KEY, expiry=EXPIRY).verify("call", state) == {}
    with pytest.raises(RequestError, match="requestState is not what this server gave"):
        RequestState(b"x" * 32, expiry=EXPIRY).verify("call", state)


def test_a_state_is_good_for_ten_minutes() -> None:
    now = 1000.0
    rounds = RequestState(KEY, expiry=EXPIRY, clock=lambda: now)
    state = rounds.sign("call", {})
    now += EXPIRY
    assert (EXPIRY, rounds.verify("call", state)) == (600, {})
    now += 0.001
    with pytest.raises(RequestError, match="requestState has expired") as caught:
        rounds.verify("call", state)
    assert caught.value.code == -32602


def test_a_state_belongs_to_its_call() -> None:
    rounds = RequestState(KEY, expiry=EXPIRY)
    with pytest.raises(RequestError, match="requestState belongs to another call"):
        rounds.verify("other", rounds.sign("call", {}))


@pytest.mark.table("state", ["", ".", "x", "é\ud800", "a.b", ".".join(["QQ==", "0" * 64])])
def test_anything_else_is_no_state(state: str) -> None:
    with pytest.raises(RequestError, match="requestState is not what this server gave"):
        RequestState(KEY, expiry=EXPIRY).verify("call", state)


def test_every_changed_character_is_noticed() -> None:
    rounds = RequestState(KEY, expiry=EXPIRY)
    state = rounds.sign("call", {"a": {"action": "decline"}})
    for index, character in enumerate(state):
        changed = state[:index] + ("A" if character != "A" else "B") + state[index + 1 :]
        with pytest.raises(RequestError):
            rounds.verify("call", changed)


def test_a_digest_is_the_same_however_the_values_are_spelled() -> None:
    assert digest("m", {"a": 1, "b": [2]}) == digest("m", {"b": [2], "a": 1})
    assert digest("m", {"a": "\ud800"}) == digest("m", {"a": "\ud800"})
    assert len({digest("m", 1), digest("n", 1), digest("m", 2), digest("m", "1"), digest("m", [1])}) == 5


@attrs.frozen
class Data:
    name: str


class Plain:
    def __init__(self, name: str) -> None:
        self.name = name


class Slotted:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.mark.parametrize("text", ["", "\ud800"])
def test_callers_of_any_kind_are_told_apart(text: str) -> None:
    for kind in (Data, Plain):
        assert digest(text, kind("ada")) == digest(text, kind("ada")) != digest(text, kind("eve"))
    for nobody in (Slotted("ada"), object()):  # nothing is known of them: no state is ever theirs
        assert digest(text, nobody) != digest(text, nobody)


# --- the modern era


async def test_the_function_runs_again_from_the_top_in_each_round_with_the_earlier_answers() -> None:
    async with raw(greet) as client:
        key, request, state = question(await ask(client))
        assert request == {
            "method": "elicitation/create",
            "params": {
                "message": "Who?",
                "requestedSchema": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}},
                    "required": ["name"],
                },
            },
        }
        second, request, state = question(await ask(client, {key: accept(name="Ada")}, state))
        assert (request["params"]["message"], second != key) == ("How old?", True)
        answer = await ask(client, {second: accept()}, state)
        assert text_of(answer) == "Hello Ada, 7"
        assert answer["result"]["resultType"] == "complete"
        assert RUNS == ["top", "top", "named", "top", "named"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_an_answer_without_content_reaches_the_function(action: str) -> None:
    async with raw(greet) as client:
        key, _, state = question(await ask(client))
        second, _, state = question(await ask(client, {key: {"action": action}}, state))
        assert text_of(await ask(client, {second: accept(age=3)}, state)) == f"{action}, accept"


async def test_a_missing_answer_is_asked_for_again() -> None:
    async with raw(greet) as client:
        key, _, state = question(await ask(client))
        unanswered: tuple[Any, ...] = (None, {}, {key: None}, {key: "accept"}, [], "x")
        for answers in unanswered:
            again, _, state = question(await ask(client, answers, state))
            assert again == key
        assert question(await ask(client, {key: accept(name="Ada")}, state))[0] != key


async def test_unknown_keys_are_ignored_also_those_of_questions_that_come_later() -> None:
    async with raw(greet) as client:
        key, _, state = question(await ask(client))
        second, _, later = question(await ask(client, {key: accept(name="Ada"), "other": accept()}, state))
        answers = {key: accept(name="Ada"), second: accept(age=99)}
        assert question(await ask(client, answers, state))[0] == second
        assert (
            text_of(await ask(client, {key: accept(name="Eve"), second: accept(age=1)}, later)) == "Hello Ada, 1"
        )


async def test_answers_without_a_state_are_ignored() -> None:
    async with raw(greet) as client:
        key, _, _ = question(await ask(client))
        assert question(await ask(client, {key: accept(name="Ada")}))[0] == key


async def test_a_state_is_good_for_the_same_arguments_however_they_are_spelled_and_for_no_others() -> None:
    async with raw(greet) as client:
        key, _, state = question(await ask(client))
        for arguments in ({"greeting": "Bye"}, {"greeting": None}, [1]):
            answer = await ask(client, {key: accept(name="Ada")}, state, arguments=arguments)
            assert answer["error"]["code"] == -32602
            assert answer["error"]["message"] == "requestState belongs to another call"
        assert question(await ask(client, {key: accept(name="Ada")}, state, arguments={}))[0] != key


async def test_a_state_is_no_good_for_another_tool() -> None:
    async with raw(greet, tool(name="other")(greet.function)) as client:
        _, _, state = question(await ask(client))
        assert (await ask(client, {}, state, name="other"))["error"]["code"] == -32602


@pytest.mark.table("state", ["", "tampered", 7, {}, ["x"], True])
async def test_a_state_that_was_tampered_with_is_invalid_params_and_nothing_runs(state: Any) -> None:
    async with raw(greet) as client:
        assert (await ask(client, {}, state))["error"]["code"] == -32602
        assert RUNS == []


async def test_a_state_whose_content_was_exchanged_is_invalid_params() -> None:
    async with raw(greet) as client:
        _, _, state = question(await ask(client))
        payload, _, signature = state.rpartition(".")
        call, expires, answers = json.loads(base64.urlsafe_b64decode(payload))
        forged = json.dumps([call, expires, dict.fromkeys(answers, accept(name="Eve"))])
        state = f"{base64.urlsafe_b64encode(forged.encode()).decode()}.{signature}"
        assert (await ask(client, {}, state))["error"]["code"] == -32602


async def test_a_state_that_has_expired_is_invalid_params() -> None:
    now = 1000.0
    limits = ServerLimits(request_state_expiry=60)
    async with raw(greet, limits=limits, clock=lambda: now) as client:
        key, _, state = question(await ask(client))
        now += 61
        error = (await ask(client, {key: accept(name="Ada")}, state))["error"]
        assert error == {"code": -32602, "message": "requestState has expired"}


async def test_two_processes_that_share_a_key_serve_one_anothers_rounds() -> None:
    servers = [ToolServer("one", signing_key=KEY), ToolServer("two", signing_key=KEY), ToolServer("three")]
    for server in servers:
        server.add_tools(greet)
    async with raw(server=servers[0]) as first, raw(server=servers[1]) as second, raw(server=servers[2]) as third:
        key, _, state = question(await ask(first))
        assert question(await ask(second, {key: accept(name="Ada")}, state))[0] != key
        assert (await ask(third, {key: accept(name="Ada")}, state))["error"]["code"] == -32602


async def test_content_that_does_not_fit_the_form_is_never_accepted() -> None:
    async with raw(greet) as client:
        key, _, state = question(await ask(client))
        answer = await ask(client, {key: accept(name=7)}, state)
        text = "the client's answer does not fit the form: name: expected str, got int"
        assert (answer["result"]["isError"], text_of(answer)) == (True, text)


async def test_questions_of_several_tasks_go_out_together_and_each_gets_its_own_answer() -> None:
    """Trio runs tasks in no order: a question is known by what it asks."""

    @tool
    async def both(context: Context) -> list[str]:
        found: dict[str, str] = {}

        async def one(message: str) -> None:
            found[message] = (await context.elicit(message, Name)).content.name

        async with trio.open_nursery() as nursery:
            for message in "abc":
                nursery.start_soon(one, message)
        return [found[message] for message in "abc"]

    async with raw(both) as client:
        for _ in range(5):
            answer = await ask(client, name="both")
            while answer["result"]["resultType"] == "input_required":
                answers = {
                    key: accept(name=request["params"]["message"].upper())
                    for key, request in answer["result"]["inputRequests"].items()
                }
                answer = await ask(client, answers, answer["result"]["requestState"], name="both")
            assert answer["result"]["structuredContent"] == ["A", "B", "C"]


async def test_the_same_question_may_be_asked_twice() -> None:
    @tool
    async def twice(context: Context) -> str:
        first = await context.elicit("Again?", Name)
        second = await context.elicit("Again?", Name)
        return f"{first.content.name} {second.content.name}"

    async with raw(twice) as client:
        key, _, state = question(await ask(client, name="twice"))
        second, _, state = question(await ask(client, {key: accept(name="a")}, state, name="twice"))
        assert text_of(await ask(client, {second: accept(name="b")}, state, name="twice")) == "a b"


async def test_another_question_in_the_next_run_is_never_given_the_old_answer() -> None:
    asked = iter(["Delete one file?", "Delete everything?", "Delete everything?"])

    @tool
    async def fickle(context: Context) -> str:
        message = next(asked)
        return f"{message} {(await context.elicit(message, Name)).content.name}"

    async with raw(fickle) as client:
        key, _, state = question(await ask(client, name="fickle"))
        second, request, state = question(await ask(client, {key: accept(name="yes")}, state, name="fickle"))
        assert request["params"]["message"] == "Delete everything?"
        answer = await ask(client, {second: accept(name="no")}, state, name="fickle")
        assert text_of(answer) == "Delete everything? no"


@pytest.mark.parametrize("caps", [{}, {"elicitation": None}, {"elicitation": {"url": {}}}, {"sampling": {}}])
async def test_a_capability_that_the_client_lacks_is_named(caps: dict[str, Any]) -> None:
    async with raw(greet) as client:
        error = (await ask(client, caps=caps))["error"]
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": {"elicitation": {}}}
        assert RUNS == ["top"]


async def test_sampling_is_asked_alike() -> None:
    async with raw(think) as client:
        error = (await ask(client, name="think"))["error"]
        assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"sampling": {}}})
        key, request, state = question(await ask(client, name="think", caps=BOTH))
        assert request == {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}
        said = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "42"}}
        assert text_of(await ask(client, {key: said}, state, name="think", caps=BOTH)) == "42"


async def test_an_empty_elicitation_capability_means_forms() -> None:
    async with raw(greet) as client:
        question(await ask(client, caps={"elicitation": {}}))


# --- questions by the letter of the protocol


@tool
async def named(context: Context) -> str:
    RUNS.append("top")
    first = await context.ask("elicitation/create", {"message": str(len(RUNS))}, key="first")
    second = await context.ask("roots/list", {}, key="second")
    return f"{first['action']}, {len(second['roots'])} roots"


ROOTS: dict[str, Any] = {"elicitation": {}, "roots": {}}


async def test_a_question_with_a_key_is_known_by_that_whatever_it_asks() -> None:
    async with raw(named) as client:
        key, request, state = question(await ask(client, name="named", caps=ROOTS))
        assert (key, request) == ("first", {"method": "elicitation/create", "params": {"message": "1"}})
        key, request, state = question(await ask(client, {"first": accept()}, state, name="named", caps=ROOTS))
        assert (key, request) == ("second", {"method": "roots/list", "params": {}})
        answer = await ask(client, {"second": {"roots": []}}, state, name="named", caps=ROOTS)
        assert text_of(answer) == "accept, 0 roots"


async def test_one_who_knows_the_keys_may_answer_before_being_asked_and_is_remembered() -> None:
    async with raw(named) as client:
        both = {"first": accept(), "second": {"roots": []}, "third": accept()}
        assert text_of(await ask(client, both, name="named", caps=ROOTS)) == "accept, 0 roots"
        key, _, state = question(await ask(client, {"first": accept()}, name="named", caps=ROOTS))
        assert key == "second"
        answer = await ask(client, {"second": {"roots": [{}]}}, state, name="named", caps=ROOTS)
        assert text_of(answer) == "accept, 1 roots"
        misfits: tuple[Any, ...] = (12345, None, "accept", [])
        for wrong in misfits:
            assert question(await ask(client, {"first": wrong}, name="named", caps=ROOTS))[0] == "first"


async def test_a_capability_that_such_a_question_needs_is_named() -> None:
    async with raw(named) as client:
        answer = await ask(client, {"first": accept()}, name="named", caps={})
        assert answer["error"]["data"] == {"requiredCapabilities": {"roots": {}}}


async def test_a_state_belongs_to_who_began_the_call() -> None:
    class Named:
        """Not data, and no two of these are equal."""

    async with raw(greet) as client:
        client.service.principal = {"user": "ada", "roles": ["a"]}
        key, _, state = question(await ask(client))
        for other in (None, {"user": "eve", "roles": ["a"]}, "ada", Named()):
            client.service.principal = other
            assert (await ask(client, {key: accept(name="Ada")}, state))["error"]["code"] == -32602
        client.service.principal = {"roles": ["a"], "user": "ada"}
        assert question(await ask(client, {key: accept(name="Ada")}, state))[0] != key
