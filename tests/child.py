"""A server process that is spoken to over its standard streams, line by line, without this library's client."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

from tests.exposing import modern


def line(id_: Any, method: str, params: dict[str, Any] | None = None) -> str:
    return (
        json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, **({"params": params} if params else {})})
        + "\n"
    )


def call(id_: Any, name: str, **arguments: Any) -> str:
    return line(id_, "tools/call", modern(name=name, arguments=arguments))


def parsed(output: str) -> dict[Any, Any]:
    """The answers by id. Every line has to be one."""
    messages = [json.loads(text) for text in output.splitlines()]
    assert all(message["jsonrpc"] == "2.0" for message in messages)
    return {message["id"]: message.get("result", message.get("error")) for message in messages}


def text_of(result: Any) -> str:
    text: str = result["content"][0]["text"]
    return text


class Child:
    """A server process that is spoken to line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr

    def send(self, *lines: str) -> None:
        self.stdin.write("".join(lines))
        self.stdin.flush()

    def take(self) -> tuple[Any, Any]:
        """The id and the result of the next answer."""
        message = json.loads(self.stdout.readline())
        return message["id"], message.get("result", message.get("error"))

    def ended_within(self, seconds: float) -> float:
        """Wait for its end, exit status 0; how long that took."""
        began = time.monotonic()
        assert self.process.wait(seconds) == 0, self.stderr.read()
        return time.monotonic() - began
