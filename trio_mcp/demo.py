"""The demo server: small tools to try a client with, each for one thing that a tool can do.

`trio-mcp demo` shows it; `python -m trio_mcp.demo` serves it over stdio; `trio_mcp.demo:server` is the server.
"""

from __future__ import annotations

import itertools
import struct
import zlib

import attrs
import trio

from .errors import ToolError
from .functions.decorators import tool
from .models.content import Image
from .server.registry import ToolServer
from .server.stdio import serve_stdio
from .tools.context import Context
from .version import __version__

#: Progress notifications of one slow call.
STEPS = 10
#: The width and height of the picture, in pixels.
SIDE = 64


@attrs.frozen
class Sum:
    """The structured output of `add`."""

    sum: int | float


@attrs.frozen
class Favourite:
    """The form that `ask` asks the user to fill in."""

    colour: str
    shade: str = "any"


@tool(read_only=True)
async def echo(text: str) -> str:
    """Return the text as it came.

    Args:
        text: anything.
    """
    return text


@tool(read_only=True)
async def add(a: int | float, b: int | float) -> Sum:
    """Add two numbers; the sum is structured output.

    Args:
        a: the first.
        b: the second.
    """
    return Sum(a + b)


@tool(read_only=True)
async def slow(seconds: float, context: Context) -> str:
    """Take some time, and report progress.

    Args:
        seconds: how long, at most 60.
        context: receives the progress.
    """
    seconds = min(max(seconds, 0.0), 60.0)
    for step in range(1, STEPS + 1):
        await trio.sleep(seconds / STEPS)
        await context.progress(step, STEPS, f"step {step} of {STEPS}")
    return f"took {seconds:g} s"


_calls_of_flaky = itertools.count(1)


@tool
async def flaky() -> str:
    """Fail every other time, beginning with the first."""
    if next(_calls_of_flaky) % 2:
        raise ToolError("flaky failed, as it does every other time: try again")
    return "it worked this time"


@tool(read_only=True)
async def picture() -> Image:
    """Paint a small picture."""
    return Image(_png(SIDE), "image/png")


@tool
async def ask(context: Context) -> str:
    """Ask the user for a favourite colour, and repeat it."""
    answer = await context.elicit("What is your favourite colour?", Favourite)
    if answer.action != "accept":
        return f"no answer ({answer.action})"
    return f"{answer.content.colour}, {answer.content.shade} shade"


server: ToolServer = ToolServer(
    "trio-mcp-demo", version=__version__, instructions="Tools to try a client with. Nothing here does any harm."
)
server.add_tools(echo, add, slow, flaky, picture, ask)


def _png(side: int) -> bytes:
    """A square that fades from one colour to another, as a PNG file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(
        b"\0" + b"".join(bytes((255 * x // side, 255 * y // side, 160)) for x in range(side)) for y in range(side)
    )
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )


if __name__ == "__main__":
    trio.run(serve_stdio, server)
