"""Measures one server: `python benchmarks/driving.py CONTENDER WORK` prints a line of JSON.

A bare client keeps `in_flight` calls in flight, over one pipe or over as many sockets. It blocks, decodes with
msgspec and does nothing else, so that the figures show the server. "cpu" is the server's CPU time.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
import time
from typing import Any

import msgspec
from clients.clock import cpu_of
from clients.lines import HANDSHAKE, INITIALIZED, READ_SIZE, Lines, decode_answer, decode_result, request_line
from clients.target import SERVERS, echo_command, node

WARM_UP = 100
HOST = "127.0.0.1"
PATIENCE = 30.0
#: A burst that ends sooner is repeated: so little CPU time is mostly noise.
ENOUGH_SECONDS = 0.5

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bare", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def check_answer(answer: bytes) -> None:
    """Raise if an answer does not have the text of its call."""
    found = decode_answer(answer)
    if decode_result(found.result).content[0].text != f"call {found.id}":
        raise RuntimeError(f"a wrong answer: {answer[:200]!r}")


class Pipe:
    """A server over stdio."""

    def __init__(self, contender: str) -> None:
        exposed = (sys.executable, str(SERVERS / "exposed.py"), contender, "stdio")
        command = echo_command("python") if contender == "blocking" else exposed
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._sink, self._source = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._lines = Lines()
        os.write(self._sink, HANDSHAKE % 0)
        self._read()
        os.write(self._sink, INITIALIZED)

    def _read(self) -> list[bytes]:
        while not (lines := self._lines.feed(os.read(self._source, READ_SIZE))):
            pass
        return lines

    def drive(self, calls: int, in_flight: int) -> None:
        """Make `calls` calls, with `in_flight` of them at once."""
        asked = min(calls, in_flight)
        os.write(self._sink, b"".join([request_line(number, f"call {number}") for number in range(asked)]))
        answered = 0
        while answered < calls:
            lines = self._read()
            for line in lines:
                check_answer(line)
            answered += len(lines)
            upto = min(calls, asked + len(lines))
            if upto > asked:
                more = [request_line(number, f"call {number}") for number in range(asked, upto)]
                os.write(self._sink, b"".join(more))
                asked = upto


class Sockets:
    """A server over HTTP in the modern era, with a connection for each call in flight."""

    def __init__(self, contender: str) -> None:
        if contender in ("node", "lean"):
            bare = [node(), str(SERVERS / "echo.mjs"), "--http"]
            lean = [sys.executable, str(SERVERS / "echo_http.py")]
            self.process = subprocess.Popen(bare if contender == "node" else lean, stdout=subprocess.PIPE)
            assert self.process.stdout is not None
            self._port = int(self.process.stdout.readline())
        else:
            with socket.create_server((HOST, 0)) as free:
                self._port = free.getsockname()[1]
            self.process = subprocess.Popen(
                [sys.executable, str(SERVERS / "exposed.py"), contender, str(self._port)]
            )
        self._free: list[socket.socket] = []
        self._wait_until_it_listens()

    def _wait_until_it_listens(self) -> None:
        for _ in range(int(PATIENCE / 0.05)):
            if self.process.poll() is not None:
                sys.exit(self.process.returncode)
            try:
                self._free.append(self._connected())
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise RuntimeError("the server does not listen")

    def _connected(self) -> socket.socket:
        connection = socket.create_connection((HOST, self._port), timeout=PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _request(self, number: int) -> bytes:
        params = {"name": "echo", "arguments": {"text": f"call {number}"}, "_meta": META}
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: {HOST}:{self._port}\r\nContent-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
            f"Mcp-Method: tools/call\r\nMcp-Name: echo\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def drive(self, calls: int, in_flight: int) -> None:
        """Make `calls` calls, with `in_flight` of them at once."""
        self._free += [self._connected() for _ in range(in_flight - len(self._free))]
        asked = answered = 0
        with selectors.DefaultSelector() as waiting:
            received: dict[socket.socket, bytes] = {}
            for connection in self._free[:in_flight]:
                waiting.register(connection, selectors.EVENT_READ)
                connection.sendall(self._request(asked))
                asked += 1
            while answered < calls:
                for key, _ in waiting.select(PATIENCE):
                    connection = key.fileobj  # type: ignore[assignment] # only sockets are registered
                    received[connection] = received.get(connection, b"") + connection.recv(READ_SIZE)
                    if (body := whole_body(received[connection])) is None:
                        continue
                    check_answer(body)
                    del received[connection]
                    answered += 1
                    if asked < calls:
                        connection.sendall(self._request(asked))
                        asked += 1


def whole_body(data: bytes) -> bytes | None:
    """The JSON of a whole response, or None while there is more to come."""
    head, found, body = data.partition(b"\r\n\r\n")
    if not found:
        if not data:
            raise EOFError("the server has closed the connection")
        return None
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"refused: {data[:500]!r}")
    _, counted, length = head.lower().partition(b"content-length:")
    if counted:
        return body if len(body) >= int(length.partition(b"\r\n")[0]) else None
    if not body.endswith(b"\r\n0\r\n\r\n"):
        return None
    return body.partition(b"data: ")[2].partition(b"\n")[0] if b"data: " in body else body.split(b"\r\n")[1]


def measure(contender: str, work: dict[str, Any]) -> dict[str, float]:
    """Measure one contender."""
    server = Sockets(contender) if work.get("http") else Pipe(contender)
    try:
        server.drive(WARM_UP, work["in_flight"])
        done, began, cpu = 0, time.perf_counter(), cpu_of(server.process.pid)
        while (seconds := time.perf_counter() - began) < ENOUGH_SECONDS:
            server.drive(work["calls"], work["in_flight"])
            done += work["calls"]
        return {"units": done, "seconds": seconds, "cpu": cpu_of(server.process.pid) - cpu}
    finally:
        server.process.kill()
        server.process.wait()


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], json.loads(sys.argv[2]))))
