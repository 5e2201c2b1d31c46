"""A server over stdio whose tools do what must not break the wire: the child program of test_stdio.py.

`run(SOURCE)` of `Child` runs this with `SOURCE` before the last line: it may add tools, or serve by itself.
`--alive PORT` connects there and keeps the connection: it breaks when this process is gone.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import trio

from trio_mcp import ToolServer, serve_stdio, tool

server = ToolServer("child")
stop = trio.Event()
if "--alive" in sys.argv:
    alive = socket.create_connection(("127.0.0.1", int(sys.argv[sys.argv.index("--alive") + 1])))


@tool
async def echo(text: str) -> str:
    return text


@tool
async def sleep(seconds: float) -> str:
    await trio.sleep(seconds)
    return "slept"


@tool
def block(seconds: float) -> str:
    os.write(2, b"blocking\n")
    time.sleep(seconds)
    return "blocked"


@tool
def noisy() -> str:
    """Print, fork, start a process, and write to descriptor 1 in every way there is."""
    print("printed")
    sys.stdout.write("written, without an end")
    os.write(1, b"to descriptor 1\n")
    child = os.fork()
    if child == 0:
        os.write(1, b"a fork\n")
        os._exit(0)
    os.waitpid(child, 0)
    subprocess.run(["sh", "-c", "echo a shell; cat; echo to stderr >&2"], check=True)
    return f"read {os.read(0, 10)!r}"


@tool
async def halt() -> str:
    """Stop the server, from inside."""
    stop.set()
    return "stopping"


server.add_tools(echo, sleep, block, noisy, halt)

if __name__ == "__main__":
    trio.run(lambda: serve_stdio(server, stop=stop))
