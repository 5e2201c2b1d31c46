"""Calls over HTTP with JSON answers: trio_mcp beside the official SDK on trio, httpx alone and a bare h11 loop.

    python benchmarks/http_calls.py [--rounds N] [--calls N] [--only NAMES]

The clients run in alternation, each measurement in a process of its own, against one server in another; ratios are
taken within a round. Figures are medians, with the extremes beside them. This file drives and prints; what the
clients do is in http_clients.py, what they talk to in http_server.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
#: Far beyond the slowest measurement: past this a client hangs.
PATIENCE = 300.0

NEEDS = {"ours": "trio_mcp", "sdk": "mcp", "httpx": "httpx", "loop": "h11"}
#: Title, calls at once, the goal for the ratio to the SDK.
ROWS = (("100 at once", 100, ">= 5"), ("one at a time", 1, ">= 4"))


def measure(client: str, url: str, calls: int, at_once: int) -> dict[str, float]:
    """One measurement: seconds and CPU seconds."""
    program = [sys.executable, str(HERE / "http_clients.py"), client, url, str(calls), str(at_once)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise SystemExit(f"{client} failed:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def spread(values: list[float], form: str) -> str:
    """The median, with the extremes beside it."""
    return f"{median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Calls over HTTP, compared.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--only", default=",".join(NEEDS), help="some of " + ", ".join(NEEDS))
    options = parser.parse_args()
    clients = [name for name in options.only.split(",") if importlib.util.find_spec(NEEDS[name])]
    server = subprocess.Popen([sys.executable, str(HERE / "http_server.py")], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/mcp"
        for title, at_once, goal in ROWS:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in clients}
            for _ in range(options.rounds):
                for name in clients:
                    found[name].append(measure(name, url, options.calls, at_once))
            print(f"\n{options.calls:,} calls, {title}, {options.rounds} rounds")
            for name in clients:
                rates = [options.calls / one["seconds"] for one in found[name]]
                cpu = [one["cpu"] / options.calls * 1e6 for one in found[name]]
                print(f"  {name:6} {spread(rates, ',.0f')} calls/s, {spread(cpu, ',.0f')} us of CPU a call")
            for peer in clients:
                if "ours" in clients and peer != "ours":
                    pairs = zip(found["ours"], found[peer], strict=True)
                    ratios = [theirs["seconds"] / own["seconds"] for own, theirs in pairs]
                    wanted = f", wanted {goal}" if peer == "sdk" else ""
                    print(f"  ours to {peer}: {spread(ratios, '.2f')}{wanted}")
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
