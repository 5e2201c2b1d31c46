"""Patterns: a stranger's never reach Python's engine, and ours take linear time on a stranger's bytes.

Python's engine backtracks, holds the GIL and cannot be cancelled: one bad match stops every connection.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
import trio

from tests.peers import program
from trio_mcp import ElicitRequest, ElicitResult, open_connection
from trio_mcp.cli.terminal import strip_controls
from trio_mcp.models import icon, validation
from trio_mcp.protocol import headers, messages
from trio_mcp.redaction import Redactor, bounded_line
from trio_mcp.server.http import origin
from trio_mcp.tools import naming
from trio_mcp.tools.naming import nearest_names

ASKS = """
import json, sys
NAME = {"type": "string", "pattern": "^(a+)+$", "default": "a" * 5000 + "!"}
FORM = {"type": "object", "properties": {"name": NAME}}
def say(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()
for line in sys.stdin:
    found = json.loads(line)
    method, modern = found.get("method"), sys.argv[1] == "modern"
    ask = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": FORM}}
    said = lambda text: {"resultType": "complete", "content": [{"type": "text", "text": text}]}
    if method == "initialize":
        about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}}
        say(id=found["id"], result=about)
    elif method == "server/discover":
        say(id=found["id"], result={"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"})
    elif method == "tools/list":
        say(id=found["id"], result={"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"})
    elif method == "tools/call" and modern and "inputResponses" not in found["params"]:
        say(id=found["id"], result={"resultType": "input_required", "inputRequests": {"k": ask}})
    elif method == "tools/call" and modern:
        say(id=found["id"], result=said(found["params"]["inputResponses"]["k"]["action"]))
    elif method == "tools/call":
        call = found["id"]
        say(id="ask", **ask)
    elif found.get("id") == "ask":
        say(id=call, result=said(found["result"]["action"]))
"""


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_pattern_of_a_form_is_left_to_the_server_that_wrote_it(era: Any) -> None:
    """Checked here, its default alone would take longer than the universe has had."""

    async def accept(request: ElicitRequest) -> ElicitResult:
        return ElicitResult.accept({})

    with trio.fail_after(10):
        async with open_connection(program(ASKS, era, protocol=era), on_elicit=accept) as connection:
            assert (await connection.call_tool("ask")).content == "accept"


def challenges(text: str) -> object:
    return headers.parse_challenges([text])


def located(text: str) -> object:
    return validation._PATH.search(text), validation._EXPECTED.fullmatch(text), validation._STEP.findall(text)


def icons(text: str) -> object:
    return icon._SIZE.fullmatch(text), icon._MIME_TYPE.fullmatch(text), icon._DATA.fullmatch(text)


def ids(text: str) -> object:
    return messages.salvage_answer_id(text.encode())


def escapes(text: str) -> object:
    return messages._ESCAPES.sub(lambda found: found[0], text.encode())


def names(text: str) -> object:
    return naming._NAME.fullmatch(text), naming._ILLEGAL.sub("_", text)


def nearest(text: str) -> object:
    return nearest_names(text[:5] + "x", [text, *([text[:100]] * 3)])


def origins(text: str) -> object:
    return origin._WHOLE_HOST.fullmatch(text), origin._WHOLE_ORIGIN.fullmatch(text), origin._UNSAFE.search(text)


def hidden(text: str) -> object:
    return Redactor(["a" * 40 + "b", "://" * 20 + "x", '"\\' * 10])(text)


def lines(text: str) -> object:
    return bounded_line(text, 1_000), bounded_line(text, 10_000_000)


#: What a peer may repeat: each once made some expression scan to the end at every place.
WORST = [
    *("a", " ", "[", "\x1b[", "\x1b]", "\x9b0", "\x1b[0", '"', '\\"', 'a="', "a = ", "a ,", "a a", "=", "\\ud8"),
    *(
        " - at `$",
        "Expected `",
        "Expected `a`",
        '{"id":1,',
        '"jsonrpc":"2.0",',
        "\\",
        "mcp__",
        "://",
        "://a:",
        "@",
    ),
    *("--a ", "a=b&", "[0", ".", "]", "data:a/a;base64,", "a/", "\n", "\x00", "\u202e", "a" * 40, "9", ",", ": "),
]
OURS = [challenges, located, icons, ids, escapes, names, nearest, strip_controls, origins, hidden, lines]


#: Seconds within which nobody minds how it grows.
QUICK = 0.005


def seconds(work: Callable[[str], object], text: str) -> float:
    taken: list[float] = []
    while len(taken) < 3 and min(taken, default=1.0) > QUICK:
        begun = time.thread_time()
        work(text)
        taken.append(time.thread_time() - begun)
    return min(taken)


@pytest.mark.slow
@pytest.mark.parametrize("work", OURS, ids=lambda work: work.__name__)
def test_what_reads_the_bytes_of_a_peer_takes_linear_time(work: Callable[[str], object]) -> None:
    """Sixteen times the text may take sixteen times as long, with room for noise; a square takes 256 times."""
    for unit in WORST:
        for end in ("", "!", "\x00", '"'):
            short, long = unit * (2_000 // len(unit)) + end, unit * (32_000 // len(unit)) + end
            taken = seconds(work, long)
            if taken > QUICK:
                assert taken < 80 * max(seconds(work, short), 1e-4), (unit, end)


def test_the_measure_would_notice_a_square() -> None:
    square = re.compile("a*b")
    assert seconds(square.search, "a" * 2_000) > 4 * seconds(square.search, "a" * 500)
