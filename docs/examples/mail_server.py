"""A post office as an MCP server over stdio, for agent_loop.py: one tool, which needs approval."""

import trio

from trio_mcp import ToolServer, serve_stdio, tool


@tool
async def send(to: str, text: str) -> str:
    """Send a letter.

    Args:
        to: an address.
        text: what to write.
    """
    return f"sent {len(text.split())} words to {to}"


if __name__ == "__main__":
    server = ToolServer("mail")
    server.add_tools(send)
    trio.run(serve_stdio, server)
