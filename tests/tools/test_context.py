"""Context in this process: progress goes to the caller, log messages to a logger, questions to nobody."""

from __future__ import annotations

import logging
from typing import Any

import attrs
import pytest
from trio.testing import assert_checkpoints

from tests.exposing import call, failure, said
from trio_mcp import Context, ToolResult, tool
from trio_mcp.protocol.revisions import Era
from trio_mcp.tools.context import LEVELS

Report = tuple[float, float | None, str | None]


@attrs.define
class Form:
    name: str


class Heard:
    """An on_progress that remembers."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.reports.append((progress, total, message))


@tool
async def step(context: Context) -> str:
    await context.progress(1)
    await context.progress(2.5, 4)
    await context.progress(2.5, 4, "not greater")
    await context.progress(2, 4, "less")
    await context.progress(4, total=4, message="done")
    return "ok"


REPORTS = [(1, None, None), (2.5, 4, None), (4, 4, "done")]


async def test_progress_goes_to_on_progress_of_a_call_in_this_process() -> None:
    heard = Heard()
    assert (await step.call(None, on_progress=heard)).content == "ok"
    assert heard.reports == REPORTS


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_progress_goes_to_on_progress_of_a_call_over_a_connection(era: Era) -> None:
    heard = Heard()
    assert (await call(step, era=era, on_progress=heard)).content == "ok"
    assert heard.reports == REPORTS


async def test_progress_that_nobody_wants_is_a_no_op() -> None:
    assert (await step.call(None)).content == "ok"
    assert await said(step) == "ok"


@pytest.mark.table("numbers", [(float("nan"), None), (float("inf"), None), (1, float("nan"))])
async def test_progress_that_json_cannot_say_is_a_value_error(numbers: Any) -> None:
    @tool
    async def odd(context: Context) -> None:
        await context.progress(*numbers)

    assert (await failure(odd)).startswith("ValueError: progress: expected finite numbers, got ")


async def test_what_on_progress_raises_reaches_the_function() -> None:
    async def on_progress(*_: Any) -> None:
        raise ValueError("enough")

    result = await step.call(None, on_progress=on_progress)
    assert (result.is_error, result.content) == (True, "ValueError: enough")


async def test_each_call_counts_its_progress_anew() -> None:
    heard = Heard()
    for _ in range(2):
        await step.call(None, on_progress=heard)
    assert heard.reports == REPORTS * 2


async def test_in_this_process_nothing_is_known_of_a_client() -> None:
    @tool
    async def who(context: Context) -> list[Any]:
        return [context.client_info, dict(context.meta), context.principal]

    assert (await who.call(None)).structured == [None, {}, None]


async def test_a_log_message_goes_to_a_logger(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def chat(context: Context) -> None:
        await context.log("warning", {"a": 1})

    caplog.set_level(logging.DEBUG, "trio_mcp.tools")
    await chat.call(None)
    assert caplog.messages == ["warning: {'a': 1}"]


async def test_an_unknown_level_is_a_value_error_that_names_the_levels() -> None:
    @tool
    async def chat(context: Context) -> None:
        await context.log("loud", "x")  # type: ignore[arg-type]  # no level

    text = await failure(chat)
    assert text == f"ValueError: level: expected one of {', '.join(LEVELS)}, got 'loud'"


@pytest.mark.parametrize(
    ("asking", "what"), [("elicit", "elicitation"), ("sample", "sampling")], ids=["elicit", "sample"]
)
async def test_in_this_process_nobody_can_be_asked(asking: str, what: str) -> None:
    @tool
    async def ask(context: Context) -> None:
        if asking == "elicit":
            await context.elicit("Who?", Form)
        await context.sample({"messages": [], "maxTokens": 1})

    result = await ask.call(None)
    assert result == ToolResult(f"the client does not offer {what}", is_error=True)


@pytest.mark.table(
    ("method", "text"),
    [
        ("roots/list", "the client does not offer roots"),
        ("elicitation/create", "the client does not offer elicitation"),
        ("sampling/createMessage", "the client does not offer sampling"),
        (
            "tools/list",
            "ValueError: method: expected one of elicitation/create, sampling/createMessage, roots/list, "
            "got 'tools/list'",
        ),
    ],
)
async def test_what_a_client_cannot_be_asked_is_said(method: str, text: str) -> None:
    @tool
    async def ask(context: Context) -> str:
        return str(await context.ask(method, {}))

    assert (await ask.call(None)) == ToolResult(text, is_error=True)


async def test_every_word_of_a_context_is_a_checkpoint_over_a_connection() -> None:
    @tool
    async def speak(context: Context) -> str:
        with assert_checkpoints():
            await context.log("emergency", "x")
        with assert_checkpoints():
            await context.progress(1)
        return "ok"

    for era in ("modern", "legacy"):
        assert (await call(speak, era=era, on_progress=Heard())).content == "ok"


def test_the_repr_says_whose_it_is() -> None:
    assert repr(Context(None)) == "<Context of NoneType>"  # type: ignore[arg-type]
