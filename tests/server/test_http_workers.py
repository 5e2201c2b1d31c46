"""Four processes behind a proxy that knows nothing: the modern era needs no process to remember anything."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import trio_mcp
from tests.serving import Line
from trio_mcp import Connection, ElicitRequest, ElicitResult, Server, open_connection

APP = """
import os
import trio
from trio_mcp import Context, ToolServer, asgi_app, tool

@tool
async def where() -> str:
    await trio.sleep(0.02)
    return str(os.getpid())

def form(number):
    properties = {"answer": {"type": "string"}}
    message = f"question {number} of {os.getpid()}"
    return {"message": message, "requestedSchema": {"type": "object", "properties": properties}}

@tool
async def ask(context: Context) -> str:
    answers = []
    for number in (1, 2):
        answer = await context.ask("elicitation/create", form(number), key=f"question {number}")
        answers.append(answer["content"]["answer"])
    return f"{os.getpid()}: {answers}"

server = ToolServer("workers")
server.add_tools(where, ask)
app = asgi_app(server, signing_key=bytes.fromhex(os.environ["KEY"]))
"""
WORKERS = 4


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


async def wait_listening(port: int) -> None:
    while True:
        try:
            await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
        except OSError:
            await trio.sleep(0.1)
        else:
            return


@asynccontextmanager
async def round_robin(ports: list[int]) -> AsyncIterator[int]:
    """A proxy of bytes: each connection goes to the next port."""
    turns = iter(range(10**9))

    async def pump(source: trio.abc.ReceiveStream, sink: trio.abc.SendStream) -> None:
        try:
            async for chunk in source:
                await sink.send_all(chunk)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def serve(client: trio.SocketStream) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", ports[next(turns) % len(ports)]) as server:
            async with trio.open_nursery() as nursery:

                async def one_way(source: trio.SocketStream, sink: trio.SocketStream) -> None:
                    await pump(source, sink)
                    nursery.cancel_scope.cancel()

                nursery.start_soon(one_way, client, server)
                nursery.start_soon(one_way, server, client)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def workers(directory: Path) -> AsyncIterator[list[int]]:
    """Hypercorn with four workers; the ports that all of them listen on."""
    (directory / "published.py").write_text(APP)
    ports = free_ports(2)
    binds = [word for port in ports for word in ("--bind", f"127.0.0.1:{port}")]
    command = [sys.executable, "-m", "hypercorn", "--worker-class", "trio", "--workers", str(WORKERS), *binds]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(trio_mcp.__file__).parents[1]), str(directory)]),
        "KEY": os.urandom(32).hex(),
    }
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: ASYNC220 - it only starts, and the test waits for it anyway
            [*command, "published:app"],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        for port in ports:
            await wait_listening(port)
        yield ports
        process.send_signal(signal.SIGTERM)
        assert await trio.to_thread.run_sync(process.wait, 20) == 0
        assert "Error" not in log.read_text()
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 20):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                await trio.to_thread.run_sync(process.wait)


@pytest.mark.slow
@pytest.mark.usefixtures("no_process_left")
async def test_any_worker_serves_any_request_and_goes_on_with_anothers_call(tmp_path: Path) -> None:
    with trio.fail_after(100):
        async with workers(tmp_path) as ports, round_robin(ports) as port:
            seen: set[str] = set()

            async def where(connection: Connection) -> None:
                seen.add((await connection.call_tool("where")).content)

            async def on_elicit(request: ElicitRequest) -> ElicitResult:
                return ElicitResult.accept({"answer": request.message.split(" of ")[0]})

            server = Server("workers", url=f"http://127.0.0.1:{port}/mcp", protocol="modern")
            while len(seen) < WORKERS:
                # A connection of HTTP stays with its worker: one that started late is found by new ones alone.
                async with open_connection(server) as connection, trio.open_nursery() as nursery:
                    for _ in range(100):
                        nursery.start_soon(where, connection)
            async with open_connection(server, on_elicit=on_elicit) as connection:
                result = await connection.call_tool("ask")
                assert result.content.partition(": ")[2] == "['question 1', 'question 2']"
            # Each round on a connection of its own, until three processes had a hand in one call.
            while len(await rounds(port)) < 3:
                pass


async def rounds(port: int) -> set[str]:
    """The processes that took part in one call."""
    meta: dict[str, Any] = {"clientCapabilities": {"elicitation": {}}}
    more: dict[str, Any] = {}
    taken: set[str] = set()
    for _ in range(2):
        asked = await request(port, meta=meta, **more)
        assert asked["resultType"] == "input_required", asked
        ((key, question),) = asked["inputRequests"].items()
        taken.add(question["params"]["message"].split(" of ")[1])
        answer = {key: {"action": "accept", "content": {"answer": "yes"}}}
        more = {"inputResponses": answer, "requestState": asked["requestState"]}
    last = await request(port, meta=meta, **more)
    process, _, answers = last["content"][0]["text"].partition(": ")
    assert answers == "['yes', 'yes']"
    return taken | {process}


async def request(port: int, **params: Any) -> Any:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        reply = await Line(stream, f"127.0.0.1:{port}").modern("tools/call", name="ask", arguments={}, **params)
        assert json.dumps(reply.json)
        return reply.result
