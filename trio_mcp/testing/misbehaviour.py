"""Servers that misbehave in one way each: processes of their own, for tests of what a program does then."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Literal

from ..models.server import Server
from ..protocol.revisions import ProtocolChoice

#: How a server misbehaves; `misbehaving_server` tells what each one does.
Misbehaviour = Literal[
    "exits", "silent", "deaf", "chatters", "dies on call", "hangs on call", "closes its output", "floods stderr"
]

#: A legacy server of a few lines; `misbehave(request)` is called before each answer, `at_end()` after the last.
_PROGRAM = """
import json, os, signal, sys, time
def misbehave(request): pass
def at_end(): pass
{behaviour}
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    misbehave(request)
    method = request["method"]
    if method == "initialize":
        answer = {{"result": {{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}},
                             "serverInfo": {{"name": "misbehaving", "version": "0"}}}}}}
    elif method == "tools/list":
        answer = {{"result": {{"tools": [{{"name": "work", "inputSchema": {{"type": "object"}}}}]}}}}
    elif method == "tools/call":
        answer = {{"result": {{"content": [{{"type": "text", "text": "worked"}}]}}}}
    else:
        answer = {{"error": {{"code": -32601, "message": "Method not found"}}}}
    print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], **answer}}), flush=True)
at_end()
"""

_BEHAVIOURS: dict[Misbehaviour, str] = {
    "exits": "print('missing API_KEY', file=sys.stderr); sys.exit(2)",
    "silent": "def misbehave(request): time.sleep(3600)",
    "deaf": "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ndef at_end(): time.sleep(3600)",
    "chatters": "print('Starting...', flush=True)\ndef misbehave(request): print('got', request['method'])",
    "dies on call": "def misbehave(request):\n    if request['method'] == 'tools/call': os._exit(3)",
    "hangs on call": "def misbehave(request):\n    if request['method'] == 'tools/call': time.sleep(3600)",
    "closes its output": (
        "def misbehave(request):\n    if request['method'] == 'tools/call': os.close(1); time.sleep(3600)"
    ),
    "floods stderr": "def misbehave(request): sys.stderr.write('x' * 262144)",
}


def misbehaving_server(
    kind: Misbehaviour,
    *,
    name: str = "misbehaving",
    env: Mapping[str, str] | None = None,
    cwd: str | PathLike[str] | None = None,
    stop_timeout: float = 0.2,
    start_timeout: float | None = 60.0,
    tools: Iterable[str] | None = None,
    protocol: ProtocolChoice = "auto",
) -> Server:
    """A server whose process misbehaves in one way, and has one tool, `work`, that answers "worked".

    Args:
        kind: "exits" (at once, status 2), "silent" (never answers), "deaf" (to the end of input and to SIGTERM),
            "chatters" (on stdout), "dies on call" (status 3), "hangs on call", "closes its output" (on a call,
            and lives on), "floods stderr" (256 KiB before each answer).
        stop_timeout: see `Server`; short here, since most of these servers use all of it.
        name, env, cwd, start_timeout, tools, protocol: see `Server`.

    Raises:
        ValueError: there is no such kind.

    Example:
        >>> misbehaving_server("deaf", stop_timeout=0.1).name
        'misbehaving'
    """
    if kind not in _BEHAVIOURS:
        raise ValueError(f"kind: expected one of {', '.join(_BEHAVIOURS)}, got {kind!r}")
    return Server(
        name,
        command=sys.executable,
        args=["-c", _PROGRAM.format(behaviour=_BEHAVIOURS[kind])],
        env=None if env is None else dict(env),
        cwd=cwd,
        stop_timeout=stop_timeout,
        start_timeout=start_timeout,
        tools=tools,
        protocol=protocol,
    )
