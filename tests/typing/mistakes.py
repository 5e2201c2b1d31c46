"""Programs with one mistake a line, each marked: mypy and pyright have to report every one (check.py).

Nothing here runs. A line without a mark has to be correct.
"""
# ruff: noqa - each line is a mistake
# fmt: off

from __future__ import annotations

from dataclasses import dataclass

import trio

import trio_mcp
from trio_mcp import (
    Connection,
    Context,
    Policy,
    Server,
    ServerLimits,
    Toolbox,
    ToolCall,
    ToolServer,
    asgi_app,
    connect,
    open_connection,
    open_connections,
    open_memory_connection,
    raw_tool,
    serve_http,
    serve_stdio,
    tool,
)
from trio_mcp import Conection  # mistake: a misspelt import
from trio_mcp import open_conection  # mistake: a misspelt import
from trio_mcp.client import conection  # mistake: a misspelt module

trio_mcp.Serverr  # mistake: a misspelt attribute of the package
trio_mcp.tool_names  # mistake: a misspelt attribute of the package

# --- a server's description

Server("time", comand="mcp-server-time")  # mistake: a misspelt option
Server("time", command="mcp-server-time", protocol="oldest")  # mistake: no such era
Server("time", command="mcp-server-time", protocol="2024-01-01")  # mistake: no such revision
Server("time", command=["mcp-server-time"])  # mistake: a list for a command
Server("time", url="http://localhost/mcp", ssl_context=True)  # mistake: no SSLContext
Server(command="mcp-server-time")  # mistake: no name
good = Server("time", command="mcp-server-time", protocol="legacy")
good.nam  # mistake: a misspelt attribute


@dataclass
class Time:
    timezone: str


async def clients(server: Server) -> None:
    async with open_connection(server, on_elict=None) as connection:  # mistake: a misspelt option
        pass
    async with open_connection(server, on_log=lambda level: None) as connection:  # mistake: three arguments come
        pass
    async with open_connection("time") as connection:  # mistake: a str for a server
        pass
    async with open_connections([server], on_error="ignore") as connections:  # mistake: no such value
        pass
    async with open_connections([server], on_err="warn") as connections:  # mistake: a misspelt option
        pass
    async with trio.open_nursery() as nursery:
        await connect(server)  # mistake: no nursery
        await connect(nursery, server, on_stdrr=print)  # mistake: a misspelt option
        (await connect(nursery, server)).call_tol("now")  # mistake: a misspelt method
    async with open_memory_connection(ToolServer("mine"), protocol="newest") as connection:  # mistake: no such era
        pass


async def calls(connection: Connection) -> None:
    result = await connection.call_tool("now", {"timezone": "Asia/Tokyo"})
    result.contents  # mistake: a misspelt attribute
    await connection.call_tool("now", timeout=3)  # mistake: there is no timeout
    await connection.call_tool(now)  # mistake: an unknown name
    await connection.call_tool("now", on_progress=print)  # mistake: a plain function
    await connection.call_tool("now", ["Asia/Tokyo"])  # mistake: a list of arguments
    typed = await connection.call_tool("now", returns=Time)
    typed.value.timezon  # mistake: a misspelt field
    number: int = typed.value  # mistake: another type
    text: str = connection.tool("now")  # mistake: a Tool is no str
    for each in connection.tools:
        each.cal({})  # mistake: a misspelt method
    async with connection.watch_tools() as changes:
        async for tools in changes:
            tools.append(1)  # mistake: a tuple


# --- tools


@tool(readonly=True)  # mistake: a misspelt option
def first() -> int:
    return 1


@tool(idempotent="yes")  # mistake: no bool
def second() -> int:
    return 2


@tool
def count_words(text: str) -> int:
    return len(text.split())


@tool(title="Wait")
async def wait(seconds: float, context: Context) -> str:
    await context.progres(1)  # mistake: a misspelt method
    await context.log("loud", "now")  # mistake: no such level
    return "done"


count_words(1)  # mistake: an int for a str
count_words()  # mistake: an argument is missing
count_words("a b", "c")  # mistake: one argument too many
words: str = count_words("a b")  # mistake: an int for a str
count_words.functon  # mistake: a misspelt attribute
raw_tool("size", "Count bytes.", b"{}", len, readonly=True)  # mistake: a misspelt option
count_words.with_policy(Policy(timeot=3))  # mistake: a misspelt option
Policy(render="text")  # mistake: no such rendering


async def turns(toolbox: Toolbox) -> None:
    toolbox.definitions("gemini")  # mistake: no such provider
    toolbox.definitions("openai", unsupported="drop")  # mistake: no such choice
    toolbox.calls("antropic", None)  # mistake: a misspelt provider
    toolbox.results("mpc", [])  # mistake: a misspelt provider
    toolbox["add"].nme  # mistake: a misspelt attribute
    outcomes = await toolbox.run([ToolCall("1", "add")], aprove=None)  # mistake: a misspelt option
    outcomes = await toolbox.run(ToolCall("1", "add"))  # mistake: one call is no iterable of calls
    outcomes = await toolbox.run([ToolCall("1", "add")])
    outcomes[0].is_eror  # mistake: a misspelt attribute


# --- servers

server = ToolServer("mine", version=1)  # mistake: an int for a str
server.add_tool(count_words)  # mistake: a misspelt method
server.add_tools(len)  # mistake: a function that is no tool


@server.tool(tittle="Third")  # mistake: a misspelt option
def third() -> int:
    return 3


async def serve() -> None:
    await serve_http(server, autorize=None)  # mistake: a misspelt option
    await serve_http(server, port="8000")  # mistake: a str for a port
    await serve_http(server, authorize=lambda headers: None)  # mistake: a plain function
    await serve_stdio(server, grce=1)  # mistake: a misspelt option
    asgi_app(server, max_bdy=1)  # mistake: a misspelt option
    asgi_app(server, limits=ServerLimits(max_bdy=1))  # mistake: a misspelt field
