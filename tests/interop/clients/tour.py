"""What the clients in Python do with the demo server: everything it has. Each driver brings its own `call`.

A driver is run by the interpreter of its client's environment as `driver.py MODE COMMAND...`; it starts the server
with that command, or connects to the URL that stands there alone, and prints one JSON report, which
test_foreign_clients.py judges. Results stand in the report as the client gives them, in the spelling of the wire.
The same tour in JavaScript: tour.cjs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

#: It holds what a line is easily cut at.
TEXT = "grün \u2028 \U0001f40d\r\n\x0b"
#: Calls that run at once.
TOGETHER = 20

Wire = dict[str, Any]
#: `await call(name, arguments, on_progress=None)`
Call = Callable[..., Awaitable[Wire]]


def wire(model: Any) -> Any:
    """A pydantic model in the spelling of the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Person:
    """Who is asked: accepts, accepts with a field left out, declines, dismisses; then nothing more."""

    def __init__(self) -> None:
        self.asked: list[Wire] = []
        self._answers = iter(
            (
                {"action": "accept", "content": {"colour": "green", "shade": "dark"}},
                {"action": "accept", "content": {"colour": "blue"}},
                {"action": "decline"},
                {"action": "cancel"},
            )
        )

    def answer(self, params: Wire) -> Wire:
        """An ElicitResult for the params of an elicitation/create."""
        self.asked.append(params)
        return next(self._answers)


async def failure(call: Awaitable[Any]) -> Wire:
    """The JSON-RPC error that a call is answered with, or else its result, which a test will not expect."""
    try:
        return wire(await call)
    except Exception as error:
        about = getattr(error, "error", None)  # all of these clients have the wire's error there
        if about is None:
            raise
        return wire(about)


async def tour(
    tools: Callable[[], Awaitable[Any]],
    call: Call,
    person: Person,
    gather: Callable[..., Awaitable[Any]] = asyncio.gather,
) -> Wire:
    """Call everything. `gather` awaits many at once."""
    progress: list[tuple[float, float | None, str | None]] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append((done, total, message))

    async def echo(text: str) -> str:
        result = await call("echo", {"text": text})
        return str(result["content"][0]["text"])

    return {
        "tools": [tool if isinstance(tool, dict) else wire(tool) for tool in await tools()],
        "echo": await call("echo", {"text": TEXT}),
        "add": await call("add", {"a": 2, "b": 0.5}),
        "misfit": await call("add", {"a": "x", "b": 1}),
        "slow": await call("slow", {"seconds": 1}, on_progress),
        "progress": progress,
        "flaky": [await call("flaky", {}), await call("flaky", {})],
        "picture": await call("picture", {}),
        "together": await gather(*(echo(str(number)) for number in range(TOGETHER))),
        "ask": [await call("ask", {}) for _ in range(4)],
        "asked": person.asked,
    }
