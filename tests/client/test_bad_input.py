"""Bad input to every public name of a connection: the error that is promised, before anything is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from tests.fakes import MODERN, FakeHost, FakeProcess, serving
from tests.far_end import Message
from trio_mcp import Connection, InvalidArgumentsError, InvalidServerError, Server, open_connection

SERVER = Server("s", command="/bin/server", env={"PATH": "/bin"})

Use = Callable[[Connection], Awaitable[Any]]

BAD: dict[str, tuple[Use, type[Exception], str]] = {
    "name None": (lambda c: c.call_tool(None), TypeError, "name: expected str, got NoneType"),  # type: ignore[call-overload]
    "name bytes": (lambda c: c.call_tool(b"echo"), TypeError, "name: expected str, got bytes"),  # type: ignore[call-overload]
    "meta str": (lambda c: c.call_tool("echo", meta="x"), InvalidArgumentsError, "meta"),  # type: ignore[call-overload]
    "meta list": (lambda c: c.call_tool("echo", meta=[1]), InvalidArgumentsError, "meta"),  # type: ignore[call-overload]
    "meta empty list": (lambda c: c.call_tool("echo", meta=[]), InvalidArgumentsError, "meta"),  # type: ignore[call-overload]
    "meta NaN": (lambda c: c.call_tool("echo", meta={"a": float("nan")}), InvalidArgumentsError, "a: nan"),
    "meta keys": (lambda c: c.call_tool("echo", meta={1: 2}), InvalidArgumentsError, "int, not str"),  # type: ignore[dict-item]
    "on_progress": (lambda c: c.call_tool("echo", on_progress=7), TypeError, "on_progress: expected"),  # type: ignore[call-overload]
    "method None": (lambda c: c.request(None), TypeError, "method: expected str, got NoneType"),  # type: ignore[arg-type]
    "method surrogate": (lambda c: c.request("\ud800"), ValueError, "surrogate"),
    "params list": (lambda c: c.request("x", []), InvalidArgumentsError, "expected a mapping, got list"),  # type: ignore[arg-type]
    "params text": (lambda c: c.request("x", "{}"), InvalidArgumentsError, "expected a mapping, got str"),  # type: ignore[arg-type]
    "params NaN": (lambda c: c.request("x", {"a": [float("nan")]}), InvalidArgumentsError, r"a\[0\]: nan"),
    "params set": (lambda c: c.request("x", {"a": {1}}), InvalidArgumentsError, "a: set"),
    "params meta": (lambda c: c.request("x", {"_meta": 1}), InvalidArgumentsError, "_meta: expected a mapping"),
    "tool arguments": (lambda c: c.tools[0].call([]), InvalidArgumentsError, "got list"),  # type: ignore[arg-type]
    "invoke arguments": (lambda c: c.tools[0].invoke("[]"), InvalidArgumentsError, "an array"),
    "tool on_progress": (lambda c: c.tools[0].call({}, on_progress=1), TypeError, "on_progress: "),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", BAD)
async def test_bad_input_gives_the_named_error_and_sends_nothing(host: FakeHost, case: str) -> None:
    use, error, text = BAD[case]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            heard = len(host.processes[0].heard)
            with pytest.raises(error, match=text):
                await use(connection)
            assert connection.statistics().calls_in_flight == 0
            assert (await connection.call_tool("echo", {"after": 1})).content == '{"after": 1}'
    assert host.processes[0].methods[heard:] == ["tools/call"], "nothing but the call after it"


async def test_a_progress_function_that_is_not_async_fails_that_call_alone(host: FakeHost) -> None:
    """It cannot be told before it is called; what it raises is the caller's."""

    async def progress(process: FakeProcess, message: Message) -> None:
        token = message["params"]["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": 1}
        await process.peer.send({"method": "notifications/progress", "params": params})

    host.scripts = [serving({**MODERN, "tools/call": progress})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            with pytest.raises(TypeError, match="on_progress: expected an async function, this one returned None"):
                await connection.call_tool("echo", on_progress=lambda *_: None)  # type: ignore[arg-type]
            await connection.refresh_tools()


@pytest.mark.parametrize("name", ["on_log", "on_stderr"])
async def test_an_async_function_where_a_plain_one_is_called_is_refused(host: FakeHost, name: str) -> None:
    """Nobody would await it, and every line would be lost."""

    async def take(*_: object) -> None: ...

    with pytest.raises(InvalidServerError, match="expected a plain function") as caught:
        async with open_connection(SERVER, **{name: take}):  # type: ignore[arg-type]
            raise AssertionError("opened")
    assert caught.value.field == name
