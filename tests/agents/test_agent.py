"""Agents as tools, through real connections: what is listed, what a prompt gives, what is around their tools."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.exposing import ERAS, raw
from tests.peers import peer
from trio_mcp import (
    Agent,
    AgentLike,
    Connection,
    Context,
    ElicitResult,
    Image,
    Policy,
    RequestError,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    ToolServer,
    add_agent,
    import_tools,
    open_connection,
    open_memory_connection,
    raw_tool,
    tool,
)
from trio_mcp.protocol.revisions import Era
from trio_mcp.server.registry import TOOLS_CHANGED

EVERY_ERA = pytest.mark.parametrize("era", ERAS)


async def parrot(prompt: str) -> str:
    return f"You said: {prompt}"


def echoing(name: str = "echo", policy: Policy | None = None) -> Tool:
    found = raw_tool(name, "Gives it back.", b'{"type":"object"}', lambda arguments: arguments.decode())
    return found if policy is None else found.with_policy(policy)


def serving(run: Callable[[str], Any] = parrot, **fields: Any) -> ToolServer:
    server = ToolServer("zoo")
    add_agent(server, Agent("parrot", run, **fields), "Repeats what it hears.")
    return server


@asynccontextmanager
async def client(server: ToolServer, era: Era = "modern", **options: Any) -> AsyncIterator[Connection]:
    with trio.fail_after(10):
        async with open_memory_connection(server, protocol=era, **options) as connection:
            yield connection


async def prompted(run: Callable[[str], Any], era: Era = "modern") -> ToolResult:
    async with client(serving(run), era) as connection:
        return await connection.call_tool("parrot", {"prompt": "hello"})


# --- the agent's own tool


@EVERY_ERA
async def test_an_agent_is_one_tool_named_after_it_with_a_prompt(era: Era) -> None:
    async with client(serving(), era) as connection:
        (found,) = (await import_tools(connection)).tools
        assert (found.name, found.description) == ("parrot", "Repeats what it hears.")
        schema = found.input_schema
        assert schema["type"] == "object"
        assert schema["properties"] == {"prompt": {"type": "string"}}
        assert schema["required"] == ["prompt"]
        assert (found.spec.output_schema_json, found.sequential) == (None, True)


@EVERY_ERA
async def test_a_str_is_the_final_text(era: Era) -> None:
    result = await prompted(parrot, era)
    assert result.blocks == (Text("You said: hello"),)
    assert (result.is_error, result.structured_json) == (False, None)


@attrs.frozen
class Finding:
    text: str
    score: float


OBJECTS: list[tuple[Any, bytes]] = [
    ({"a": [1, 2.5, None]}, b'{"a":[1,2.5,null]}'),
    (Finding("x", 0.5), b'{"text":"x","score":0.5}'),
    ([1, 2], b"[1,2]"),
    (7, b"7"),
]


@EVERY_ERA
@pytest.mark.parametrize(("value", "encoded"), OBJECTS, ids=[repr(value) for value, _ in OBJECTS])
async def test_an_object_is_json_as_text_and_as_structured_output(value: Any, encoded: bytes, era: Era) -> None:
    async def run(prompt: str) -> Any:
        return value

    result = await prompted(run, era)
    assert json.loads(result.content) == json.loads(encoded)
    assert len(result.blocks) == 1
    kept = era == "modern" or encoded[:1] == b"{"
    assert result.structured_json == (result.content if kept else f'{{"result":{result.content}}}').encode()


@EVERY_ERA
async def test_results_and_blocks_go_out_as_they_are_and_none_as_nothing(era: Era) -> None:
    picture = Image(b"GIF89a", "image/gif")
    answers: list[tuple[Any, tuple[Any, ...], bool]] = [
        (ToolResult([Text("a"), picture], is_error=True), (Text("a"), picture), True),
        (picture, (picture,), False),
        (["text", picture], (Text("text"), picture), False),
        (None, (), False),
    ]
    for value, blocks, is_error in answers:

        async def run(prompt: str, value: Any = value) -> Any:
            return value

        result = await prompted(run, era)
        assert (result.blocks, result.is_error) == (blocks, is_error)


@EVERY_ERA
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no idea"), "ValueError: no idea"),
        (KeyError(), "KeyError"),
        (RequestError(-1, "no"), "no (code -1)"),
    ],
)
async def test_what_an_agent_raises_is_a_failed_call_with_its_text(error: Exception, text: str, era: Era) -> None:
    async def run(prompt: str) -> Any:
        raise error

    result = await prompted(run, era)
    assert (result.is_error, result.content) == (True, text)


async def test_what_cannot_be_json_is_a_failed_call() -> None:
    async def run(prompt: str) -> Any:
        return object()

    result = await prompted(run)
    assert result.is_error
    assert 'tool "parrot" returned a value' in result.content


@pytest.mark.table("arguments", [{}, {"prompt": 7}, {"prompt": "x", "more": 1}])
async def test_arguments_that_are_no_prompt_are_a_failed_call_and_nothing_runs(arguments: Any) -> None:
    async def run(prompt: str) -> Any:
        pytest.fail("ran")

    async with client(serving(run)) as connection:
        result = await connection.call_tool("parrot", arguments)
    assert result.is_error
    assert result.content.startswith('arguments for "parrot": ')


@EVERY_ERA
async def test_a_cancelled_call_cancels_the_agent(era: Era) -> None:
    begun, cancelled = trio.Event(), trio.Event()

    async def run(prompt: str) -> Any:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with client(serving(run), era) as connection:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.call_tool, "parrot", {"prompt": "x"})
            await begun.wait()
            await wait_all_tasks_blocked()
            assert not cancelled.is_set()
            nursery.cancel_scope.cancel()
        await cancelled.wait()


async def test_prompts_run_side_by_side() -> None:
    met = trio.lowlevel.ParkingLot()

    async def run(prompt: str) -> Any:
        if len(met) < 9:
            await met.park()
        met.unpark_all()
        return prompt

    answers: list[str] = []
    async with client(serving(run)) as connection:

        async def one(prompt: str) -> None:
            answers.append((await connection.call_tool("parrot", {"prompt": prompt})).content)

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(one, str(number))
    assert sorted(answers) == [str(number) for number in range(10)]


# --- its tools


@EVERY_ERA
async def test_the_agents_tools_are_published_beside_it(era: Era) -> None:
    async with client(serving(tools=[echoing("b"), echoing("a")]), era) as connection:
        assert [found.remote_name for found in connection.tools] == ["parrot", "b", "a"]
        assert (await connection.call_tool("a", '{ "x": 1.10 }')).content == '{ "x": 1.10 }'


async def test_a_tool_with_nothing_around_it_is_published_as_it_is() -> None:
    one = echoing(policy=Policy(timeout=1))
    assert serving(tools=[one]).find("echo") is one


async def test_imported_tools_of_an_agent_pass_through_with_wrappers_too() -> None:
    @tool
    async def picture(context: Context) -> ToolResult:
        await context.progress(1)
        return ToolResult([Image(b"GIF89a", "image/gif")], structured_json=b'{"a": 1.10}', is_error=True)

    behind = ToolServer("behind")
    behind.add_tools(picture)
    heard: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async def around(call: ToolCall, proceed: Any) -> ToolResult:
        return await proceed(call)  # type: ignore[no-any-return]

    async with client(behind) as up:
        imported = await import_tools(up)
        async with client(serving(tools=imported.tools, wrap=[around])) as connection:
            result = await connection.call_tool("picture", on_progress=on_progress)
    assert result.blocks == (Image(b"GIF89a", "image/gif"),)
    assert (result.structured_json, result.is_error, heard) == (b'{"a": 1.10}', True, [1])


@EVERY_ERA
async def test_each_call_of_a_tool_goes_through_wrap_the_outermost_first_and_the_agents_own_does_not(
    era: Era,
) -> None:
    seen: list[Any] = []

    def named(name: str) -> Any:
        async def wrapper(call: ToolCall, proceed: Any) -> ToolResult:
            seen.append((name, call.name, call.arguments))
            result = await proceed(call)
            seen.append(name)
            return ToolResult(f"{name}({result.content})")

        return wrapper

    async with client(serving(tools=[echoing()], wrap=[named("outer"), named("inner")]), era) as connection:
        result = await connection.call_tool("echo", '{ "x" : 1.10 }')
        assert result.content == 'outer(inner({ "x" : 1.10 }))'
        assert seen == [
            ("outer", "echo", b'{ "x" : 1.10 }'),
            ("inner", "echo", b'{ "x" : 1.10 }'),
            "inner",
            "outer",
        ]
        assert (await connection.call_tool("parrot", {"prompt": "x"})).content == "You said: x"


async def test_every_call_has_an_id_of_its_own() -> None:
    ids: list[str] = []

    async def note(call: ToolCall, proceed: Any) -> ToolResult:
        ids.append(call.id)
        return ToolResult()

    async with client(serving(tools=[echoing("a"), echoing("b")], wrap=[note])) as connection:
        for name in ("a", "b", "a"):
            await connection.call_tool(name)
    assert all(type(id_) is str and id_ for id_ in ids)
    assert len(set(ids)) == 3


async def test_a_wrapper_may_change_arguments_go_on_again_or_answer_itself() -> None:
    async def changing(call: ToolCall, proceed: Any) -> ToolResult:
        if b"no" in call.arguments:
            return ToolResult("refused", is_error=True)
        first = await proceed(call)
        again = attrs.evolve(call, arguments={"second": first.content})
        return await proceed(again)  # type: ignore[no-any-return]

    async with client(serving(tools=[echoing()], wrap=[changing])) as connection:
        assert json.loads((await connection.call_tool("echo", {"a": 1})).content) == {"second": '{"a":1}'}
        refused = await connection.call_tool("echo", {"no": 1})
        assert (refused.is_error, refused.content) == (True, "refused")


async def _raises(call: ToolCall, proceed: Any) -> ToolResult:
    raise ValueError("not today")


async def _raises_a_group(call: ToolCall, proceed: Any) -> ToolResult:
    async with trio.open_nursery():
        raise ValueError("not today")


async def _returns_text(call: ToolCall, proceed: Any) -> Any:
    return "text"


async def _goes_elsewhere(call: ToolCall, proceed: Any) -> Any:
    return await proceed(attrs.evolve(call, name="other"))


async def _goes_on_with_nothing(call: ToolCall, proceed: Any) -> Any:
    return await proceed(None)


@EVERY_ERA
@pytest.mark.parametrize(
    ("wrapper", "text"),
    [
        (_raises, "ValueError: not today"),
        (_raises_a_group, "ValueError: not today"),
        (_returns_text, 'TypeError: a wrapper of tool "echo" returned str, not a ToolResult'),
        (_goes_elsewhere, 'ValueError: a wrapper of tool "echo" went on with a call of "other"'),
        (_goes_on_with_nothing, 'TypeError: a wrapper of tool "echo" went on with NoneType, not a ToolCall'),
    ],
)
async def test_a_wrapper_that_fails_is_a_failed_call_with_its_text(
    wrapper: Any, text: str, era: Era, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with client(serving(tools=[echoing()], wrap=[wrapper]), era) as connection:
            result = await connection.call_tool("echo")
    assert (result.is_error, result.content) == (True, text)
    assert caplog.records == []


async def test_a_lost_server_behind_a_wrapper_is_told_as_any_lost_server() -> None:
    async def in_a_nursery(call: ToolCall, proceed: Any) -> ToolResult:
        async with trio.open_nursery():
            return await proceed(call)  # type: ignore[no-any-return]

    async def plainly(call: ToolCall, proceed: Any) -> ToolResult:
        return await proceed(call)  # type: ignore[no-any-return]

    with trio.fail_after(20):
        async with open_connection(peer()) as up:
            imported = await import_tools(up)
            for wrapper, arguments in ((plainly, {"status": 3}), (in_a_nursery, {})):
                async with client(serving(tools=imported.tools, wrap=[wrapper])) as connection:
                    result = await connection.call_tool("exit", arguments)
                    assert (result.is_error, result.content) == (
                        True,
                        'mcp: server "peer" stopped: exited with status 3',
                    )


async def test_cancels_pass_through_wrappers() -> None:
    begun, seen = trio.Event(), trio.Event()

    @tool
    async def hang() -> None:
        begun.set()
        await trio.sleep_forever()

    async def around(call: ToolCall, proceed: Any) -> ToolResult:
        try:
            return await proceed(call)  # type: ignore[no-any-return]
        except trio.Cancelled:
            seen.set()
            raise

    async with client(serving(tools=[hang], wrap=[around])) as connection:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.call_tool, "hang")
            await begun.wait()
            nursery.cancel_scope.cancel()
        await seen.wait()


@EVERY_ERA
async def test_a_wrapped_tool_may_ask_the_user(era: Era) -> None:
    @attrs.define
    class Form:
        colour: str

    @tool
    async def ask(context: Context) -> str:
        answer = await context.elicit("Which?", Form)
        return f"{answer.content.colour}"

    async def around(call: ToolCall, proceed: Any) -> ToolResult:
        return ToolResult(f"<{(await proceed(call)).content}>")

    async def on_elicit(request: Any) -> ElicitResult:
        return ElicitResult.accept({"colour": "red"})

    async with client(serving(tools=[ask], wrap=[around]), era, on_elicit=on_elicit) as connection:
        assert (await connection.call_tool("ask")).content == "<red>"


# --- approval


@EVERY_ERA
async def test_a_gated_tool_is_listed_and_answers_with_the_approval_text_and_nothing_runs(era: Era) -> None:
    ran: list[Any] = []

    async def note(call: ToolCall, proceed: Any) -> ToolResult:
        ran.append(call)
        return await proceed(call)  # type: ignore[no-any-return]

    gated = raw_tool("wipe", "Wipes.", b'{"type":"object"}', ran.append).with_policy(Policy(require_approval=True))
    for wrap in ([], [note]):
        async with client(serving(tools=[gated, echoing()], wrap=wrap), era) as connection:
            assert [found.remote_name for found in connection.tools] == ["parrot", "wipe", "echo"]
            result = await connection.call_tool("wipe", {"all": True})
            assert (result.is_error, result.content) == (True, 'tool "wipe" requires approval')
            assert ran == []
            assert (await connection.call_tool("echo")).content == "{}"
            ran.clear()


@pytest.mark.parametrize("policy", [Policy(), Policy(require_approval=True)])
async def test_arguments_that_are_no_object_are_invalid_params_whatever_stands_around_the_tool(
    policy: Policy,
) -> None:
    async def swallow(call: ToolCall, proceed: Any) -> ToolResult:
        return ToolResult("swallowed")

    async with raw(server=serving(tools=[echoing(policy=policy)], wrap=[swallow])) as connection:
        error = (await connection.modern("tools/call", name="echo", arguments=[1]))["error"]
    assert error["code"] == -32602
    assert error["message"].startswith('arguments for "echo" are not a JSON object: ')


async def test_timeout_and_cap_of_a_tools_policy_are_not_applied() -> None:
    async def around(call: ToolCall, proceed: Any) -> ToolResult:
        return await proceed(call)  # type: ignore[no-any-return]

    @tool(policy=Policy(timeout=0, max_result_bytes=1))
    async def give() -> str:
        await wait_all_tasks_blocked()
        return "x" * 100

    for wrap in ([], [around]):
        async with client(serving(tools=[give], wrap=wrap)) as connection:
            assert (await connection.call_tool("give")).content == "x" * 100


@EVERY_ERA
async def test_the_wrappers_of_a_tools_policy_hold_inside_those_of_the_agent(era: Era) -> None:
    seen: list[str] = []

    def named(name: str) -> Any:
        async def wrapper(call: ToolCall, proceed: Any) -> ToolResult:
            seen.append(name)
            if b"secret" in call.arguments:
                return ToolResult("not yours", is_error=True)
            return await proceed(call)  # type: ignore[no-any-return]

        return wrapper

    guarded = echoing(policy=Policy(wrap=[named("tool's"), named("inner")]))
    for wrap in ([], [named("agent's")]):
        server = serving(tools=[guarded], wrap=wrap)
        async with client(server, era) as connection:
            assert (await connection.call_tool("echo", {"a": 1})).content == '{"a":1}'
            assert seen == [*(["agent's"] if wrap else []), "tool's", "inner"]
            seen.clear()
            refused = await connection.call_tool("echo", {"of": "secret"})
            assert (refused.is_error, refused.content) == (True, "not yours")
            seen.clear()
        published = server.find("echo")
        assert published is not None
        assert published.policy.wrap == (), "they run once, also in a toolbox of the server's tools"


async def test_wrappers_of_a_tool_that_requires_approval_do_not_run() -> None:
    async def wrapper(call: ToolCall, proceed: Any) -> ToolResult:
        raise AssertionError

    gated = echoing(policy=Policy(wrap=[wrapper], require_approval=True))
    async with client(serving(tools=[gated])) as connection:
        assert (await connection.call_tool("echo")).content == 'tool "echo" requires approval'


# --- the return type


@attrs.frozen
class Report:
    title: str
    pages: int = 1


REPORT = {"title": {"type": "string"}, "pages": {"type": "integer", "default": 1}}


class Scout:
    async def run(self, prompt: str) -> Report:
        return Report(prompt)

    async def __call__(self, prompt: str) -> Report:
        return Report(prompt)


async def report(pages: int, prompt: str) -> Report:
    return Report(prompt, pages)


def later(prompt: str) -> Awaitable[Report]:
    return report(1, prompt)


@EVERY_ERA
@pytest.mark.parametrize(
    "run", [Scout().run, Scout(), partial(report, 1), later], ids=lambda run: type(run).__name__
)
async def test_a_return_type_is_listed_as_output_schema(run: Any, era: Era) -> None:
    async with client(serving(run), era) as connection:
        (found,) = connection.tools
        assert found.output_schema is not None
        assert found.output_schema["properties"] == REPORT
        assert (await connection.call_tool("parrot", {"prompt": "x"})).structured == {"title": "x", "pages": 1}


async def test_a_value_of_another_type_is_a_failed_call() -> None:
    async def run(prompt: str) -> Report:
        return {"title": 7}  # type: ignore[return-value]

    result = await prompted(run, "modern")
    assert result.is_error
    assert "does not match its return type" in result.content


async def test_a_return_type_without_a_schema_is_none() -> None:
    async def odd(prompt: str) -> Callable[[], int]:
        return 5  # type: ignore[return-value]

    async def unknown(prompt: str) -> Nothing:  # type: ignore[name-defined]  # noqa: F821 - that is the case
        return 5

    for run in (odd, unknown, parrot):
        (found,) = serving(run).tools
        assert found.output_schema is None
    assert (await prompted(odd, "modern")).structured == 5


# --- what is refused, what is replaced


@pytest.mark.table(
    ("agent", "description", "error", "text"),
    [
        (Agent("", parrot), "d", ValueError, "name: is empty"),
        (Agent("parrot", parrot), "", ValueError, "description: is empty"),
        (Agent("parrot", parrot), " \n", ValueError, "description: is empty"),
        (Agent("a parrot", parrot), "d", ValueError, "name: expected 1 to 64 of A-Z"),
        (Agent("echo", parrot, tools=[echoing()]), "d", ValueError, "name: 'echo' is that of one of the agent's"),
        (Agent("p", parrot, tools=[echoing(), echoing()]), "d", ValueError, "tools: 'echo' comes twice"),
        (Agent("p", parrot, tools=[parrot]), "d", TypeError, "tools: expected Tool, got function"),  # type: ignore[list-item]
        (Agent(7, parrot), "d", TypeError, "name: expected str, got int"),  # type: ignore[arg-type]
        (Agent("p", parrot), None, TypeError, "description: expected str, got NoneType"),
        (None, "d", TypeError, "agent: expected Agent, got NoneType"),
        (parrot, "d", TypeError, "agent: expected Agent, got function"),
    ],
)
def test_what_is_wrong_is_refused_and_nothing_is_published(
    agent: Agent, description: Any, error: type[Exception], text: str
) -> None:
    server = ToolServer("zoo")
    with pytest.raises(error, match=text):
        add_agent(server, agent, description)
    assert server.tools == ()


@pytest.mark.table("wrong", [None, "zoo", Agent("p", parrot)])
def test_what_is_no_server_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"^server: expected ToolServer, got {type(wrong).__name__}$"):
        add_agent(wrong, Agent("parrot", parrot), "d")


@pytest.mark.table("fields", [{"run": "parrot"}, {"tools": 7}, {"wrap": 7}, {"wrap": [7]}])
def test_an_agent_of_the_wrong_types_is_a_type_error(fields: Any) -> None:
    with pytest.raises(TypeError):
        Agent(**{"name": "parrot", "run": parrot, **fields})


async def test_a_run_that_is_not_async_is_a_failed_call_that_says_so() -> None:
    run: Any = len
    server = ToolServer("zoo")
    add_agent(server, Agent("counter", run), "Counts.")
    with trio.fail_after(5):
        async with open_memory_connection(server) as connection:
            result = await connection.call_tool("counter", {"prompt": "abc"})
    said = "TypeError: run: expected an async function, this one returned int"
    assert (result.is_error, result.content) == (True, said)


def test_an_agent_is_frozen() -> None:
    agent = Agent("parrot", parrot, tools=[echoing()], wrap=[_raises])
    assert (agent.name, agent.run, agent.wrap) == ("parrot", parrot, (_raises,))
    assert type(agent.tools) is tuple
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        agent.name = "x"  # type: ignore[misc]


async def test_names_from_earlier_calls_are_replaced_and_clients_hear_of_it_once() -> None:
    server = serving(tools=[echoing()])
    changes = 0

    def changed() -> None:
        nonlocal changes
        changes += 1

    server.changes.listen(TOOLS_CHANGED, changed, changed)

    async def other(prompt: str) -> str:
        return "other"

    add_agent(server, Agent("parrot", other, tools=[raw_tool("echo", "Anew.", b"{}", len)]), "Is new.")
    assert changes == 1
    async with client(server) as connection:
        assert [found.remote_name for found in connection.tools] == ["parrot", "echo"]
        assert (await connection.call_tool("parrot", {"prompt": "x"})).content == "other"
        assert (await connection.call_tool("echo", {})).content == "2"


async def test_two_agents_live_side_by_side() -> None:
    server = serving()
    add_agent(server, Agent("second", parrot, tools=[echoing()]), "Another.")
    async with client(server) as connection:
        assert [found.remote_name for found in connection.tools] == ["parrot", "second", "echo"]


class Duck:
    """An agent of somebody's own making."""

    name = "duck"
    tools = (echoing(),)
    wrap = ()

    async def run(self, prompt: str) -> dict[str, str]:
        return {"quack": prompt}


async def test_anything_like_an_agent_will_do() -> None:
    agent: AgentLike = Duck()
    same: AgentLike = Agent("duck", parrot)
    assert agent.name == same.name
    server = ToolServer("pond")
    add_agent(server, agent, "Quacks.")
    async with client(server) as connection:
        assert [found.remote_name for found in connection.tools] == ["duck", "echo"]
        assert (await connection.call_tool("duck", {"prompt": "x"})).structured == {"quack": "x"}
