"""Runs command lines without starting Python for each: imports the command line once, and forks for every run.

A program of its own, started by command_line.py with the descriptor of a socket. One request at a time comes as a
line of JSON with four descriptors: stdin, stdout, stderr, and where the pid and the exit status go. Each run is a
process that knows nothing of other runs; all that differs from `python -m trio_mcp` is that the imports are done.
It must not start a thread: a process that forks has one.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import socket
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

#: What some command imports, when it is needed.
IMPORTED = ("app", "commands.demo", "commands.gateway", "progress")
DESCRIPTORS = 4


def requests(source: socket.socket) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """Each request, until the tests are over."""
    while True:
        _, descriptors, _, _ = socket.recv_fds(source, 1, DESCRIPTORS)
        if not descriptors:
            return
        with source.makefile("rb", buffering=0) as lines:
            yield json.loads(lines.readline()), descriptors


def reap(*_: object) -> None:
    """Take the status of each watcher that has ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass  # that was the last one


def watch(told: int) -> bool:
    """Fork; False in the process that is to be the command line. The other one tells its pid and its status."""
    pid = os.fork()
    if not pid:
        return False
    os.write(told, b"%d\n" % pid)
    os.write(told, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return True


def become(request: dict[str, Any], streams: list[int]) -> None:
    """Make this process look as if it had been started so."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[0] = os.getcwd()
    sys.argv[1:] = request["arguments"]


def main() -> None:
    """Serve until the socket is closed."""
    for name in IMPORTED:
        import_module(f"trio_mcp.cli.{name}")
    gc.freeze()  # a run that ends would look through all that is imported, and copy it by that
    signal.signal(signal.SIGCHLD, reap)
    with socket.socket(fileno=int(sys.argv[1])) as source:
        for request, (*streams, told) in requests(source):
            if os.fork():
                for descriptor in (*streams, told):
                    os.close(descriptor)
                continue
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            source.close()
            if watch(told):
                os._exit(0)
            os.close(told)
            become(request, streams)
            break
        else:
            return
    runpy.run_module("trio_mcp", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
