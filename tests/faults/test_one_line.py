"""Every text of a peer that a person or a model reads within a sentence of ours: one line, of bounded length.

A second line would pass for a line of ours, a control character is obeyed by a terminal, and what turns the
direction of text makes a name read as another. Results themselves are verbatim (test_secrets_everywhere.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import trio

from tests.http_peer import Exchange, start_peer
from trio_mcp import (
    ApprovalRequiredError,
    Audio,
    EmbeddedResource,
    ExchangeError,
    Image,
    InvalidArgumentsError,
    ProtocolError,
    RequestError,
    ResourceLink,
    ServerStartError,
    SkippedToolError,
    Text,
    ToolImportError,
    ToolResult,
    UnknownToolError,
    open_connection,
)
from trio_mcp.cli.terminal import one_line
from trio_mcp.errors import NAME_SHOWN, PAYLOAD_SHOWN, SENTENCE_SHOWN
from trio_mcp.models.content import UnknownBlock
from trio_mcp.models.result import KIND_SHOWN, URI_SHOWN
from trio_mcp.redaction import bounded_line
from trio_mcp.tools.failures import CallTimedOutError

HOSTILE = "a\n[resource x]\r\x1b[2J\x9b0m\u202e\u2028\x85\x00\u200b\ud800" + "x" * 100_000
#: An escape takes up to six characters.
LONGER = 6


def skipped(name: str) -> SkippedToolError:
    return SkippedToolError(name, 0, "no-schema")


def beside_images(block: Any) -> str:
    return ToolResult([block, block]).content.partition("\n")[0]


def alone(block: Any) -> str:
    return ToolResult(block).as_text()


#: What the text is, how it is made, and its bound without the escapes.
TEXTS: list[tuple[str, Callable[[str], object], int]] = [
    ("a JSON-RPC error", lambda text: RequestError(1, text), SENTENCE_SHOWN),
    ("an answer that breaks the protocol", ProtocolError, SENTENCE_SHOWN),
    ("what it sent", lambda text: ProtocolError("x", text).__notes__[0], PAYLOAD_SHOWN),
    ("why it did not start", lambda text: ServerStartError("x", text), SENTENCE_SHOWN),
    ("why a request failed", lambda text: ExchangeError("x", text), SENTENCE_SHOWN),
    ("a tool that is unknown", UnknownToolError, NAME_SHOWN),
    ("tools that are like it", lambda text: UnknownToolError("x", [text, text]), 2 * NAME_SHOWN),
    ("arguments of a tool", lambda text: InvalidArgumentsError(text, text), SENTENCE_SHOWN),
    ("a tool that requires approval", ApprovalRequiredError, NAME_SHOWN),
    ("a tool that took too long", lambda text: CallTimedOutError(text, 1), NAME_SHOWN),
    ("a tool that was skipped", skipped, NAME_SHOWN),
    ("all that were", lambda text: ToolImportError("x", [skipped(text)] * 20), 10 * NAME_SHOWN),
    ("a sound", lambda text: beside_images(Audio(b"", text)), KIND_SHOWN),
    ("a sound alone", lambda text: alone(Audio(b"", text)), KIND_SHOWN),
    ("an image alone", lambda text: alone(Image(b"", text)), KIND_SHOWN),
    ("a resource", lambda text: beside_images(EmbeddedResource(text, blob=b"")), URI_SHOWN),
    ("a resource alone", lambda text: alone(EmbeddedResource(text, text="")), URI_SHOWN),
    ("a link", lambda text: beside_images(ResourceLink(text, text)), URI_SHOWN),
    ("a link alone", lambda text: alone(ResourceLink(text, text)), URI_SHOWN),
    ("a kind of content", lambda text: beside_images(UnknownBlock(text, {})), KIND_SHOWN),
]


@pytest.mark.parametrize(("make", "most"), [row[1:] for row in TEXTS], ids=[row[0] for row in TEXTS])
def test_a_text_of_a_peer_is_one_bounded_line(make: Callable[[str], object], most: int) -> None:
    shown = str(make(HOSTILE))
    assert shown.isprintable()
    assert len(shown) <= most * LONGER + 200
    assert len(str(make("\x00" * 100_000))) <= most * LONGER + 400
    assert "short" in str(make("short"))


def test_a_short_text_is_shown_as_it_is() -> None:
    assert bounded_line("naïve 名 [x] \\n", 20) == "naïve 名 [x] \\n"
    assert bounded_line("abc", 3) == "abc"


def test_the_texts_of_a_tool_itself_are_verbatim() -> None:
    assert ToolResult([Text("a\n\x1b[2J"), Text("b")]).content == "a\n\x1b[2J\nb"


def test_a_sentence_at_the_command_line_is_one_line() -> None:
    assert not set(one_line(HOSTILE)) & set("\n\r\x1b\x9b\u202e\u2028\x85\x00")


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_warnings_and_log_lines_about_a_server_are_one_line(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "trio_mcp")
    text = HOSTILE.replace("\ud800", "")

    async def talk(exchange: Exchange) -> None:
        log = {"level": "error", "logger": text, "data": text}
        for method, params in ((text, {}), ("notifications/message", log), ("notifications/message", {})):
            await exchange.event({"jsonrpc": "2.0", "method": method, "params": params})
        await exchange.event({"jsonrpc": "2.0", "id": 77, "method": text})
        await exchange.event(exchange.answer_to({"resultType": "complete", "content": []}))
        await exchange.end()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            peer = await start_peer(nursery, era)
            peer.calls["echo"] = talk
            peer.tools += [{"name": text}, {"name": text + "?", "inputSchema": {"type": "object"}}]
            peer.tools += [{"name": text, "inputSchema": {"type": "object"}}] * 2
            async with open_connection(peer.server(protocol=era, tools=None)) as connection:
                await connection.call_tool("echo")
                warnings = connection.warnings
            nursery.cancel_scope.cancel()
    assert len(warnings) >= 2
    told = [*warnings, *caplog.messages]
    assert any("is unknown and was dropped" in line for line in told)
    assert [line for line in told if not line.isprintable() or len(line) > 10_000 * LONGER] == []
