"""A server on the official Python SDK 1.x (legacy era), run by the interpreter of that environment."""

from __future__ import annotations

import base64
import sys

import anyio
from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.types import ToolAnnotations
from pydantic import BaseModel

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

server = FastMCP("sdk-v1", instructions="A few tools to try a client with.", log_level="ERROR")


class Sum(BaseModel):
    """What `add` answers."""

    total: int


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool(title="Addition")
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@server.tool()
def picture() -> Image:
    """A picture of one pixel."""
    return Image(data=PIXEL, format="png")


@server.tool()
async def steps(count: int, context: Context) -> str:  # type: ignore[type-arg]
    """Tell how it goes."""
    for step in range(count):
        await context.report_progress(step + 1, count, f"step {step + 1}")
    return "done"


@server.tool()
def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


@server.tool()
async def slow(seconds: float) -> str:
    """Take a while."""
    await anyio.sleep(seconds)
    return "awake"


class Answer(BaseModel):
    """What `ask` would like to know."""

    name: str


@server.tool()
async def ask(context: Context) -> str:  # type: ignore[type-arg]
    """Ask the person behind the client."""
    answer = await context.elicit("What is your name?", Answer)
    return answer.action


if __name__ == "__main__":
    if len(sys.argv) == 1:
        server.run()
    else:  # a port, and what is special over HTTP: "stateless", "json"
        server.settings.port = int(sys.argv[1])
        server.settings.stateless_http = "stateless" in sys.argv
        server.settings.json_response = "json" in sys.argv
        server.run("streamable-http")
