"""A server's questions to the user: what `on_elicit` is given, and what of its answers goes out."""

from __future__ import annotations

import json
import logging
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.exposing import ERAS
from tests.scripts import FORMS, call_that_asks, handshake
from tests.strays import raise_stray_cancel
from trio_mcp import (
    Context,
    ElicitRequest,
    ElicitResult,
    InvalidServerError,
    ProtocolError,
    open_memory_connection,
    tool,
)
from trio_mcp.protocol.revisions import Era
from trio_mcp.testing import open_functions, open_script

EVERY_ERA = pytest.mark.parametrize("era", ERAS)


@attrs.define
class Form:
    name: str
    age: int = 7


@tool
async def ask(context: Context) -> str:
    """Ask for a form."""
    answer = await context.elicit("Who?", Form)
    return f"{answer.action} {answer.content}"


def answering(result: Any) -> Any:
    """An on_elicit that gives this, or raises it."""

    async def on_elicit(request: ElicitRequest) -> ElicitResult:
        await trio.lowlevel.checkpoint()
        if isinstance(result, Exception):
            raise result
        return result  # type: ignore[no-any-return]

    return on_elicit


async def answered(result: Any, era: Era) -> str:
    """What the tool makes of an answer."""
    with trio.fail_after(5):
        async with open_functions(ask, protocol=era, on_elicit=answering(result)) as connection:
            return (await connection.call_tool("ask")).content


# --- answers


@EVERY_ERA
async def test_the_handler_is_given_message_schema_and_the_whole_request(era: Era) -> None:
    seen: list[ElicitRequest] = []

    async def on_elicit(request: ElicitRequest) -> ElicitResult:
        seen.append(request)
        return ElicitResult.accept({"name": "Ada"})

    async with open_functions(ask, protocol=era, on_elicit=on_elicit) as connection:
        await connection.call_tool("ask")
    (request,) = seen
    assert (request.message, list(request.schema["properties"])) == ("Who?", ["name", "age"])
    assert request.raw == {"message": "Who?", "requestedSchema": request.schema}


@EVERY_ERA
@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ElicitResult.accept({"name": "Ada", "age": 3}), "accept Form(name='Ada', age=3)"),
        (ElicitResult.decline(), "decline None"),
        (ElicitResult.cancel(), "cancel None"),
        (ElicitResult("decline", {"name": "Ada"}), "decline None"),
    ],
    ids=str,
)
async def test_each_action_reaches_the_tool(result: ElicitResult, text: str, era: Era) -> None:
    assert await answered(result, era) == text


@EVERY_ERA
async def test_defaults_of_the_form_are_filled_in(era: Era) -> None:
    """The client's duty: what goes over the wire is complete."""
    script = handshake(era) + call_that_asks(
        era,
        {"message": "m", "requestedSchema": {**SCHEMA, "required": ["count", "colour"]}},
        answer={"action": "accept", "content": {"text": "mine", "count": 3, "colour": "red", "many": ["a"]}},
    )
    on_elicit = answering(ElicitResult.accept({"text": "mine"}))
    with trio.fail_after(5):
        async with open_script(script, protocol=era, on_elicit=on_elicit) as connection:
            assert (await connection.call_tool("t")).content == "done"


SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$", "default": "ab"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "ratio": {"type": "number", "minimum": 0.5},
        "sure": {"type": "boolean"},
        "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
        "many": {
            "type": "array",
            "items": {"type": "string", "enum": ["a", "b"]},
            "maxItems": 1,
            "default": ["a"],
        },
        "any": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
        "odd": {"type": "hologram", "default": None},
        "loose": True,
        "broken": {"type": "string", "pattern": "[", "minLength": "x"},
        "half": {"type": "integer", "minimum": 1.5},
    },
}
GOOD: list[dict[str, Any]] = [
    {},
    {"text": "ABC"},  # the server checks its pattern itself
    {"text": "abcde", "count": 9, "ratio": 1, "sure": False, "colour": "blue", "titled": "b"},
    {"many": ["b"], "any": ["a", "a"], "odd": {"deep": 1}, "loose": None, "broken": "", "half": 1},
]
BAD = [
    ({"text": 5}, "text: expected str, got int"),
    ({"text": "a"}, "text: expected str of length >= 2"),
    ({"text": "abcdef"}, "text: expected str of length <= 5"),
    ({"count": 0}, "count: expected int >= 1"),
    ({"count": 10}, "count: expected int <= 9"),
    ({"count": 1.5}, "count: expected int, got float"),
    ({"count": True}, "count: expected int, got bool"),
    ({"ratio": 0}, "ratio: expected float >= 0.5"),
    ({"sure": "yes"}, "sure: expected bool, got str"),
    ({"colour": "green"}, 'colour: expected "blue" or "red", got \'green\''),
    ({"titled": "A"}, 'titled: expected "a" or "b", got \'A\''),
    ({"many": ["c"]}, 'many[0]: expected "a" or "b", got \'c\''),
    ({"many": ["a", "b"]}, "many: expected array of length <= 1"),
    ({"many": "a"}, "many: expected array, got str"),
    ({"any": ["b"]}, "any[0]: expected \"a\", got 'b'"),
    ({"new": 1}, "new: the form has no such field"),
]


@pytest.mark.parametrize("content", GOOD, ids=str)
@EVERY_ERA
async def test_an_answer_that_fits_the_form_goes_out(content: dict[str, Any], era: Era) -> None:
    defaults = {"text": "ab", "count": 3, "colour": "red", "many": ["a"]}
    answer = {"action": "accept", "content": {**defaults, **content}}
    script = handshake(era) + call_that_asks(era, {"message": "m", "requestedSchema": SCHEMA}, answer=answer)
    with trio.fail_after(5):
        async with open_script(
            script, protocol=era, on_elicit=answering(ElicitResult.accept(content))
        ) as connection:
            assert (await connection.call_tool("t")).content == "done"


@pytest.mark.table(("content", "reason"), BAD, ids=str)
async def test_an_answer_that_misses_the_form_is_a_value_error_to_the_modern_caller(
    content: dict[str, Any], reason: str
) -> None:
    script = handshake("modern") + call_that_asks("modern", {"message": "m", "requestedSchema": SCHEMA})
    with trio.fail_after(5):
        async with open_script(
            script, protocol="modern", on_elicit=answering(ElicitResult.accept(content))
        ) as connection:
            with pytest.raises(ValueError) as caught:
                await connection.call_tool("t")
    assert str(caught.value).startswith(f"elicitation: {reason}")


@pytest.mark.parametrize(
    "result",
    [
        *[ElicitResult.accept(content) for content, _ in BAD[:3]],
        ElicitResult.accept(["text"]),
        OSError("the terminal is gone"),
        {"action": "accept"},
        None,
    ],
    ids=str,
)
async def test_in_the_legacy_era_whatever_goes_wrong_is_answered_with_cancel_and_logged(
    result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    params = {"message": "m", "requestedSchema": SCHEMA}
    script = handshake("legacy") + call_that_asks("legacy", params, answer={"action": "cancel"})
    with trio.fail_after(5):
        async with open_script(script, on_elicit=answering(result)) as connection:
            assert (await connection.call_tool("t")).content == "done"
    (record,) = caplog.records
    assert (record.levelno, record.exc_info is not None) == (logging.ERROR, True)
    assert record.getMessage() == 'server "script": on_elicit failed; the server is told "cancel"'


@pytest.mark.parametrize("error", [OSError("gone"), KeyError("x")], ids=str)
async def test_in_the_modern_era_the_callers_task_gets_what_the_handler_raises(error: Exception) -> None:
    async with open_functions(ask, protocol="modern", on_elicit=answering(error)) as connection:
        with pytest.raises(type(error)) as caught:
            await connection.call_tool("ask")
        assert caught.value is error
        assert connection.error is None


async def test_a_result_of_another_type_is_a_type_error_to_the_modern_caller() -> None:
    async with open_functions(ask, protocol="modern", on_elicit=answering({"action": "accept"})) as connection:
        with pytest.raises(TypeError, match="on_elicit: expected an ElicitResult, got dict"):
            await connection.call_tool("ask")


@EVERY_ERA
async def test_a_required_field_without_an_answer_misses_the_form(era: Era) -> None:
    if era == "modern":
        with pytest.raises(ValueError, match="elicitation: name: missing, but required"):
            await answered(ElicitResult.accept({}), era)
    else:
        assert await answered(ElicitResult.accept(None), era) == "cancel None"


# --- in whose task, and for how long


async def test_in_the_modern_era_the_handler_runs_in_the_task_of_the_call() -> None:
    tasks = []

    async def on_elicit(request: ElicitRequest) -> ElicitResult:
        tasks.append(trio.lowlevel.current_task())
        return ElicitResult.decline()

    async with open_functions(ask, protocol="modern", on_elicit=on_elicit) as connection:
        await connection.call_tool("ask")
    assert tasks == [trio.lowlevel.current_task()]


async def test_in_the_legacy_era_a_handler_that_waits_is_cancelled_when_the_body_ends() -> None:
    entered, ended = trio.Event(), []

    async def on_elicit(request: ElicitRequest) -> ElicitResult:
        entered.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.append(1)

    with trio.fail_after(5):
        async with open_functions(ask, protocol="legacy", on_elicit=on_elicit) as connection:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(connection.call_tool, "ask")
                    await entered.wait()
                    scope.cancel()
            await wait_all_tasks_blocked()
            assert ended == []
    assert ended == [1]


@EVERY_ERA
async def test_a_handler_may_call_the_same_server(era: Era) -> None:
    async def double(number: int) -> int:
        return 2 * number

    async def on_elicit(request: ElicitRequest) -> ElicitResult:
        result = await connection.call_tool("double", {"number": 4})
        return ElicitResult.accept({"name": "Ada", "age": json.loads(result.content)})

    with trio.fail_after(5):
        async with open_functions(ask, double, protocol=era, on_elicit=on_elicit) as connection:
            assert (await connection.call_tool("ask")).content == "accept Form(name='Ada', age=8)"


# --- what is not offered


@EVERY_ERA
async def test_a_handler_that_is_no_function_is_named(era: Era) -> None:
    with pytest.raises(InvalidServerError, match="on_elicit: expected a function, got int"):
        async with open_functions(ask, protocol=era, on_elicit=7):  # type: ignore[arg-type]  # no function
            pass


@pytest.mark.table("params", [{"mode": "url", "message": "m", "url": "https://x"}, {"mode": 7}, {}, []])
async def test_a_question_that_is_no_form_is_invalid_params_to_a_legacy_server(params: Any) -> None:
    script = handshake("legacy") + call_that_asks("legacy", params, error={"code": -32602})
    with trio.fail_after(5):
        async with open_script(script, on_elicit=answering(ElicitResult.decline())) as connection:
            assert (await connection.call_tool("t")).content == "done"


async def test_a_question_that_is_no_form_fails_the_call_of_a_modern_server() -> None:
    script = handshake("modern") + call_that_asks("modern", {"mode": "url", "message": "m", "url": "https://x"})
    async with open_script(script, protocol="modern", on_elicit=answering(ElicitResult.decline())) as connection:
        with pytest.raises(ProtocolError, match="elicitation/create: mode 'url' is not offered"):
            await connection.call_tool("t")


async def test_without_a_handler_a_modern_server_that_asks_all_the_same_fails_that_call() -> None:
    script = handshake("modern").replace(FORMS, "{}")
    script += call_that_asks("modern", {"message": "m", "requestedSchema": SCHEMA})
    async with open_script(script, protocol="modern") as connection:
        with pytest.raises(ProtocolError, match=r"the server asks for elicitation/create, which is not offered"):
            await connection.call_tool("t")


async def test_without_a_handler_a_legacy_server_that_asks_all_the_same_is_told_so() -> None:
    script = handshake("legacy").replace(FORMS, "{}")
    script += call_that_asks("legacy", {"message": "m", "requestedSchema": SCHEMA}, error={"code": -32601})
    async with open_script(script) as connection:
        assert (await connection.call_tool("t")).content == "done"


async def test_a_client_that_offers_questions_says_so_and_one_that_does_not_says_nothing() -> None:
    @tool
    async def offered(context: Context) -> Any:
        return context.meta["io.modelcontextprotocol/clientCapabilities"]

    for on_elicit, capabilities in ((answering(None), {"elicitation": {"form": {}}}), (None, {})):
        async with open_functions(offered, protocol="modern", on_elicit=on_elicit) as connection:
            assert (await connection.call_tool("offered")).structured == capabilities


async def test_open_memory_connection_is_where_all_this_is_offered_too() -> None:
    from trio_mcp import ToolServer

    server = ToolServer("server")
    server.add_tools(ask)
    async with open_memory_connection(server, on_elicit=answering(ElicitResult.decline())) as connection:
        assert (await connection.call_tool("ask")).content == "decline None"


async def test_a_handler_that_raises_a_cancel_of_somebody_elses_scope_costs_only_its_answer() -> None:
    with trio.fail_after(5):
        async with open_functions(ask, protocol="legacy", on_elicit=raise_stray_cancel) as connection:
            assert (await connection.call_tool("ask")).content == "cancel None"
            assert (await connection.call_tool("ask")).content == "cancel None"


async def test_a_plain_function_as_the_handler_is_named_to_the_caller() -> None:
    plain: Any = lambda request: ElicitResult.decline()  # noqa: E731 - the mistake
    async with open_functions(ask, protocol="modern", on_elicit=plain) as connection:
        with pytest.raises(TypeError, match="on_elicit: expected an async function, this one returned E"):
            await connection.call_tool("ask")
