"""A `python -m trio_mcp` for tests in a process of its own, and the scripted server behind it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

import trio_mcp

SCRIPT = str(Path(__file__).with_name("scripted_server.py"))
SERVER = (sys.executable, SCRIPT)
COMMAND = (sys.executable, "-m", "trio_mcp")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(trio_mcp.__file__).parents[1]), "NO_COLOR": "1"}
PATIENCE = 60  # seconds; a slow shared machine, and the ladder's own bounds


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end; nothing may ever print a traceback.

    Where the options allow it, the process is forked from one that has the imports behind it.
    """
    if forks.allow(options):
        done = forks.run(arguments, **options)
    else:
        options = {"stdout": subprocess.PIPE, "env": ENVIRONMENT, **options}
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run(
            [*COMMAND, *arguments],
            stderr=subprocess.PIPE,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
            **options,
        )
    assert "Traceback" not in done.stderr
    return done


class Forks:
    """The fork server (fork_server.py), and runs of the command line in it."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._one_at_a_time = Lock()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Start the server; it ends when our end of its socket is closed."""
        ours, theirs = socket.socketpair()
        with theirs:
            server = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("fork_server.py"), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        with server, ours:
            self._socket = ours
            yield
            self._socket = None

    def allow(self, options: dict[str, Any]) -> bool:
        """Whether a fork is the same as a start: Python itself reads some variables when it starts."""
        environment = options.get("env", ENVIRONMENT)
        names = {name for name in {*environment, *ENVIRONMENT} if name.startswith("PYTHON")}
        return (
            self._socket is not None
            and options.keys() <= {"input", "env", "cwd"}
            and all(environment.get(name) == ENVIRONMENT.get(name) for name in names)
        )

    def run(
        self,
        arguments: tuple[str, ...],
        *,
        input: str = "",  # noqa: A002  # as subprocess calls it
        env: dict[str, str] = ENVIRONMENT,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line in a process of its own, to its end."""
        assert self._socket is not None
        request = {"arguments": arguments, "env": env, "cwd": str(cwd or Path.cwd())}
        (stdin, to_stdin), *others = [os.pipe() for _ in range(4)]
        theirs = [stdin, *(there for _, there in others)]
        with self._one_at_a_time:
            socket.send_fds(self._socket, [b"+"], theirs)
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        for descriptor in theirs:
            os.close(descriptor)
        stdout, stderr, told = (os.fdopen(ours, "rb") for ours, _ in others)
        with stdout, stderr, told, ThreadPoolExecutor(4) as threads:
            threads.submit(_write, to_stdin, input.encode())
            texts = [threads.submit(stream.read) for stream in (stdout, stderr)]
            pid = int(told.readline())
            try:
                status = int(threads.submit(told.read).result(PATIENCE))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise
            return subprocess.CompletedProcess(arguments, status, *(text.result().decode() for text in texts))


def _write(descriptor: int, data: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


forks = Forks()


def config(directory: Path, **entries: Any) -> str:
    """A configuration file with these servers."""
    file = directory / "mcp.json"
    file.write_text(json.dumps({"mcpServers": entries}))
    return str(file)


def entry(*arguments: str, **more: Any) -> dict[str, Any]:
    """The scripted server as an entry of a configuration file."""
    return {"command": sys.executable, "args": [SCRIPT, *arguments], **more}
