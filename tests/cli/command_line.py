"""A real `python -m trio_mcp` for tests, and the scripted server behind it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import trio_mcp

SCRIPT = str(Path(__file__).with_name("scripted_server.py"))
SERVER = (sys.executable, SCRIPT)
COMMAND = (sys.executable, "-m", "trio_mcp")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(trio_mcp.__file__).parents[1]), "NO_COLOR": "1"}
PATIENCE = 60  # seconds; a slow shared machine, and the ladder's own bounds


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end; nothing may ever print a traceback."""
    options = {"stdout": subprocess.PIPE, "env": ENVIRONMENT, **options}
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run(
        [*COMMAND, *arguments],
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
        **options,
    )
    assert "Traceback" not in done.stderr
    return done


def config(directory: Path, **entries: Any) -> str:
    """A configuration file with these servers."""
    file = directory / "mcp.json"
    file.write_text(json.dumps({"mcpServers": entries}))
    return str(file)


def entry(*arguments: str, **more: Any) -> dict[str, Any]:
    """The scripted server as an entry of a configuration file."""
    return {"command": sys.executable, "args": [SCRIPT, *arguments], **more}
