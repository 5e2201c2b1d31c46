"""A server behind HTTP from the command line, and from a configuration file."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.cli.command_line import ENVIRONMENT, config, run
from tests.http_peer import HttpPeer, start_peer

SECRET = "swordfish-42"


async def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**ENVIRONMENT, "MY_TOKEN": SECRET}
    with trio.fail_after(60):
        return await trio.to_thread.run_sync(partial(run, *arguments, env=environment))


def sent(peer: HttpPeer, name: str) -> set[str | None]:
    return {exchange.request.headers.get(name) for exchange in peer.seen}


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_tool_at_a_url_is_listed_and_called(nursery: trio.Nursery, era: str) -> None:
    peer = await start_peer(nursery, era)
    done = await command("list", "--json", "--url", peer.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert [row["name"] for row in json.loads(done.stdout)] == ["mcp__localhost__echo", "mcp__localhost__wait"]
    done = await command("call", "echo", '{"a": 1}', "--url", peer.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, '{"a": 1}\n', "")


async def test_secrets_come_from_the_environment(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery)
    done = await command("list", "--url", peer.url, "--header", "X-Api-Key: ${MY_TOKEN}", "--header", "X-A: b c")
    assert done.returncode == 0
    assert sent(peer, "x-api-key") == {SECRET}
    assert sent(peer, "x-a") == {"b c"}
    peer.seen.clear()
    done = await command("list", "--url", peer.url, "--bearer-env", "MY_TOKEN")
    assert done.returncode == 0
    assert sent(peer, "authorization") == {f"Bearer {SECRET}"}
    assert SECRET not in done.stdout + done.stderr


async def test_a_refusal_is_one_line(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery)
    peer.on["server/discover"] = lambda it: it.status("401 Unauthorized")
    for arguments in (("list",), ("call", "echo")):
        done = await command(*arguments, "--url", peer.url, "--bearer-env", "MY_TOKEN")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == 'trio-mcp: server "localhost" refused access: HTTP 401\n'


async def test_a_configuration_file_may_name_endpoints(nursery: trio.Nursery, tmp_path: Path) -> None:
    peer = await start_peer(nursery)
    entry = {"type": "http", "url": peer.url, "headers": {"Authorization": "Bearer ${MY_TOKEN}"}}
    done = await command("call", "far", "echo", "--config", config(tmp_path, far=entry))
    assert (done.returncode, done.stdout, done.stderr) == (0, "{}\n", "")
    assert sent(peer, "authorization") == {f"Bearer {SECRET}"}
