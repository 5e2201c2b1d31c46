"""A server repeats each of its secrets wherever it can write; whatever comes out of the library shows none.

The line: what a server gives to be used (results of tools, `tools`, questions, progress, log messages to `on_log`,
stderr to `on_stderr` and `stderr_tail`) is verbatim. What this library says about a server (errors with all their
parts, warnings, log lines, outcomes and results of calls that failed) is redacted.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests import telltale
from tests.cli.command_line import ENVIRONMENT, run
from tests.http_peer import Exchange, HttpPeer, start_peer
from tests.peers import environment, program
from trio_mcp import (
    ElicitRequest,
    ElicitResult,
    MCPError,
    Server,
    Toolbox,
    ToolCall,
    open_connection,
    open_gateway,
    open_memory_connection,
)

#: With what JSON, Python and URLs write otherwise; and no two begin alike.
SECRETS = ('hunter2-"quoted"\\-in-the-environment', "rabbit3-after-an-option/+", "weasel4-with-an-equals-sign")
#: A part of a secret is one, too.
PARTS = ("hunter2", "rabbit3", "weasel4")
#: Where a server can write over HTTP alone: in answers that are no messages.
ODD = ("challenge", "redirect", "media-type", "status")
SOURCE = Path(telltale.__file__).read_text()
EVERY_ERA = pytest.mark.parametrize("era", ["modern", "legacy"])


def over_stdio(era: Any, place: str) -> Server:
    env, after, equals = SECRETS
    about = json.dumps({"era": era, "place": place})
    given = {**environment(), "API_KEY": env}
    return program(SOURCE, about, "--token", after, f"--password={equals}", protocol=era, env=given)


async def repeat(place: str, exchange: Exchange) -> None:
    if exchange.message.get("method") is None or "id" not in exchange.message:
        await exchange.peer.behave(exchange)
        return
    said = telltale.answers(exchange.message, exchange.peer.era, place, SECRETS)
    for message in said:
        await exchange.event(message)
    await exchange.end()


async def say_status(status: str, exchange: Exchange, **headers: str) -> None:
    await exchange.status(status, " ".join(SECRETS).encode(), **headers)


@asynccontextmanager
async def over_http(era: str, place: str) -> AsyncIterator[Server]:
    in_header, bearer, in_url = SECRETS
    async with trio.open_nursery() as nursery:
        peer: HttpPeer = await start_peer(nursery, era, sessions=False)
        names = ("server/discover", "initialize", "tools/list", "tools/call", "ping", "logging/setLevel")
        peer.on = dict.fromkeys(names, partial(repeat, place))
        quoted = in_header.replace("\\", "\\\\").replace('"', '\\"')
        odd = {
            "challenge": partial(
                say_status, "401 Unauthorized", www_authenticate=f'Bearer realm="{quoted}", error="{bearer}"'
            ),
            "redirect": partial(
                say_status, "307 Temporary Redirect", location=f"http://{in_url}.example/{bearer}"
            ),
            "media-type": partial(say_status, "200 OK", content_type=f"text/{bearer}"),
            "status": partial(say_status, "500 Internal Server Error", content_type="application/json"),
        }
        for name, behaviour in odd.items():
            if place == name:
                peer.on["tools/call"] = behaviour
            if place == f"{name}-at-first":
                peer.on = dict.fromkeys(names, behaviour)
        url = f"{peer.url}?api_key={in_url}"
        peer._path += f"?api_key={in_url}"
        try:
            yield peer.server(protocol=era, url=url, bearer_token=bearer, headers={"X-Secret": in_header})
        finally:
            nursery.cancel_scope.cancel()


def parts_of(error: BaseException | None, seen: set[int]) -> Iterator[str]:
    """Everything that an error shows, or that a program may print of it."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield from (str(error), repr(error), repr(error.args), "".join(traceback.format_exception(error)))
    shown = {name: value for name, value in vars(error).items() if name != "stderr_tail"}
    yield repr(shown)
    for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        yield from parts_of(other, seen)


async def accept(request: ElicitRequest) -> ElicitResult:
    return ElicitResult.accept({})


async def everything(server: Server) -> list[str]:
    """Whatever comes out when this server is opened, listed, called and published again."""
    out: list[str] = [repr(server)]
    try:
        async with open_connection(server, on_elicit=accept) as connection:
            out += [*connection.warnings, repr(connection)]
            imported = await connection.list_specs()
            for found in imported:
                out += parts_of(found, set()) if isinstance(found, Exception) else []
            out += await calls(connection)
    except MCPError as error:
        out += parts_of(error, set())
    async with open_gateway([server]) as gateway, open_memory_connection(gateway) as client:
        for tool in client.tools:
            if tool.remote_name.endswith("__ask"):
                result = await client.call_tool(tool.remote_name)
                # What a tool gave is verbatim.
                out += [result.as_text(), str(result.meta)] if result.is_error else []
    return out


async def calls(connection: Any) -> list[str]:
    out: list[str] = []
    tool = connection.tool("ask")
    for call in (
        partial(connection.call_tool, "ask"),
        partial(connection.call_tool, "ask", returns=dict[str, int]),
        partial(tool.invoke, {}),
        partial(connection.request, "tools/call", {"name": "ask"}),
        connection.refresh_tools,
    ):
        try:
            await call()
        except (MCPError, ValueError) as error:
            out += parts_of(error, set())
    (outcome,) = await Toolbox([tool]).run([ToolCall("1", tool.name, {})])
    if outcome.is_error:
        out += [outcome.content, *parts_of(outcome.error, set())]
    return out


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    formatter = logging.Formatter()
    return [part for record in caplog.records for part in (formatter.format(record), repr(record.args))]


def check(out: list[str], caplog: pytest.LogCaptureFixture) -> None:
    told = [*out, *logged(caplog)]
    assert [text for text in told for part in PARTS if part in text] == []
    assert [text for text in caplog.messages if not text.isprintable()] == []


@EVERY_ERA
@pytest.mark.parametrize("place", [*telltale.PLACES, "junk"])
async def test_no_secret_comes_out_over_stdio(place: str, era: str, caplog: pytest.LogCaptureFixture) -> None:
    with trio.fail_after(20):
        check(await everything(over_stdio(era, place)), caplog)


@EVERY_ERA
@pytest.mark.parametrize("place", [*telltale.PLACES, *ODD, *(f"{name}-at-first" for name in ODD)])
async def test_no_secret_comes_out_over_http(place: str, era: str, caplog: pytest.LogCaptureFixture) -> None:
    with trio.fail_after(20):
        async with over_http(era, place) as server:
            out = await everything(server)
    check(out, caplog)


@pytest.mark.parametrize(
    "place", ["opening", "nothing-common", "listing", "error", "result-type", "asked", "junk"]
)
@pytest.mark.slow
def test_the_command_line_shows_no_secret(place: str) -> None:
    env, after, equals = SECRETS
    about = json.dumps({"era": "legacy", "place": place})
    server = ("--", sys.executable, telltale.__file__, about, "--token", after, f"--password={equals}")
    for command in (("list",), ("call", "ask"), ("list", "--json")):
        done = run(*command, *server, env={**ENVIRONMENT, "API_KEY": env})
        assert [part for part in PARTS if part in done.stdout + done.stderr] == []
        assert "***" in done.stderr or done.returncode == 0


async def test_what_a_tool_gives_is_verbatim(caplog: pytest.LogCaptureFixture) -> None:
    """The line: a result belongs to the caller, secrets and all."""
    with trio.fail_after(20):
        async with open_connection(over_stdio("modern", "structured")) as connection:
            result = await connection.call_tool("ask")
            (outcome,) = await Toolbox(connection.tools).run([ToolCall("1", connection.tools[0].name, {})])
    assert result.structured == {"number": " ".join(SECRETS)} == outcome.structured
