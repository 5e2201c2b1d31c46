"""docs/architecture.md: its picture is that of this tree, and its calls go the way that it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import CodeType, FrameType, ModuleType

import pytest
import trio

import trio_mcp
from trio_mcp import Server, ToolServer, open_connection, serve_http, tool

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "architecture"
PACKAGE = Path(trio_mcp.__file__).parent
LONGEST_WAY = 8


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What the picture says. Its module is beside the script that draws it, in no package."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import ways

    return ways


async def entered(call: Callable[[], Awaitable[object]]) -> list[tuple[str, str]]:
    """The functions of the package that a call enters, in their order."""
    order: list[CodeType] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            order.append(frame.f_code)

    sys.setprofile(note)
    try:
        await call()
    finally:
        sys.setprofile(None)
    return [(str(Path(code.co_filename).relative_to(PACKAGE)), code.co_qualname) for code in order]


def missed(way: object, functions: list[tuple[str, str]]) -> list[str]:
    """The stations of a way that the functions do not pass, in the order of the way."""
    left = iter(functions)
    stations = [(station.file, station.function) for station in way.stations]  # type: ignore[attr-defined]
    assert 1 < len(stations) <= LONGEST_WAY
    return [f"{file}: {name}" for file, name in stations if (file, name) not in left]


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


def test_the_picture_is_that_of_this_tree() -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "draw.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


async def test_a_call_over_stdio_goes_the_way_of_the_picture(ways: ModuleType) -> None:
    server = Server("demo", command=sys.executable, args=("-m", "trio_mcp.demo"))
    with trio.fail_after(30):
        async with open_connection(server) as connection:
            functions = await entered(lambda: connection.call_tool("echo", {"text": "a"}))
    assert missed(ways.WAYS[0], functions) == []


async def test_calls_over_http_go_the_way_of_the_picture_on_both_sides(ways: ModuleType) -> None:
    server = ToolServer("echoing")
    server.add_tools(echo)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            url = await nursery.start(lambda task_status: serve_http(server, port=0, task_status=task_status))
            async with open_connection(Server("here", url=url)) as connection:
                functions = await entered(lambda: connection.call_tool("echo", {"text": "a"}))
            nursery.cancel_scope.cancel()
    client, serving = ways.WAYS[1:]
    assert missed(client, functions) == []
    assert missed(serving, functions) == []


def test_every_file_and_name_that_the_page_points_to_exists() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    pointed = re.findall(r"\]\((\.\./trio_mcp/[^)#]+)\)(?:, `([A-Za-z_.]+)`)?", page)
    assert pointed
    for path, name in pointed:
        file = (ROOT / "docs" / path).resolve()
        assert file.exists(), path
        if name and file.suffix == ".py":
            last = name.rpartition(".")[2]
            assert re.search(rf"\b(def|class) {last}\b|^ *{last}\b.*[:=]", file.read_text(), re.MULTILINE), name
