"""The agent for Anthropic's API in docs/examples: two servers, three turns, one approval given and one refused."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

from tests.provider_shapes import assert_is

ROOT = Path(__file__).resolve().parents[2]

TRANSCRIPT = """\
user: Pay the gas works 90 and the prince 900. And paint something.
model: I look at the account, and paint meanwhile.
  mcp__bank__balance = {"account":"household","amount":250}
  mcp__demo__picture =  <image/png>
  may it? mcp__bank__pay {"account": "household", "amount": 90, "to": "the gas works"} -> yes
  may it? mcp__bank__pay {"account": "household", "amount": 900, "to": "the prince"} -> that is too much
  mcp__bank__pay = paid 90 to the gas works
  mcp__bank__pay ! the user refused: that is too much
model: The gas works have their money. The prince has not: you called it too much.
"""


@pytest.mark.slow
def test_the_agent_pays_what_was_approved_and_prints_its_transcript() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "docs/examples/agent_anthropic.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == TRANSCRIPT


@pytest.mark.slow
async def test_what_it_sends_is_what_the_api_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location(
        "agent_anthropic", ROOT / "docs" / "examples" / "agent_anthropic.py"
    )
    assert spec is not None
    assert spec.loader is not None
    agent = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(agent)
    answer = agent.answer
    sent: list[Any] = []

    def recorded(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.read()))
        response: httpx2.Response = answer(request)
        return response

    monkeypatch.setattr(agent, "answer", recorded)
    monkeypatch.chdir(ROOT)  # where its second server is found
    with trio.fail_after(60):
        await agent.main()
    for body in sent:
        assert_is(MessageCreateParamsNonStreaming, body)
    shown = [message["content"] for message in sent[-1]["messages"][2::2]]
    assert [[block["tool_use_id"] for block in blocks] for blocks in shown] == [
        ["toolu_1", "toolu_2"],
        ["toolu_3", "toolu_4"],
    ]
    assert [block["is_error"] for blocks in shown for block in blocks] == [False, False, False, True]
    [image] = shown[0][1]["content"]
    assert image["source"]["media_type"] == "image/png"
    assert b64decode(image["source"]["data"]).startswith(b"\x89PNG")
