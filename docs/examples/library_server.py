"""A library as an MCP server over stdio, for agent_loop.py: a quick catalogue, and a search that takes an hour."""

import sys

import trio

from trio_mcp import Context, ToolServer, serve_stdio, tool

CATALOGUE = {"tides": ["Tides and Waves", "The Moon and the Sea"], "clocks": ["Longitude"]}


@tool(read_only=True)
async def find(subject: str) -> str:
    """Look a subject up in the catalogue.

    Args:
        subject: in one word.
    """
    return ", ".join(CATALOGUE.get(subject, ["nothing"]))


@tool(read_only=True)
async def search_stacks(subject: str, context: Context) -> str:
    """Walk along all the shelves and look for a subject. Takes an hour.

    Args:
        subject: in one word.
        context: receives a log message at each shelf.
    """
    try:
        for shelf in range(1, 61):
            await context.log("info", f"walking to shelf {shelf}")
            await trio.sleep(60)
    except trio.Cancelled:
        print("called back from the stacks", file=sys.stderr, flush=True)
        raise
    return f"nothing on {subject}"


if __name__ == "__main__":
    server = ToolServer("library")
    server.add_tools(find, search_stacks)
    trio.run(serve_stdio, server)
