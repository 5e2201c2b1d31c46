"""Measures an import in a fresh process: `python benchmarks/importing.py CONTENDER WORK` prints a line of JSON.

WORK is a JSON object: if "names" is true, the names that a client needs are imported too.
"""

from __future__ import annotations

import json
import sys
import time

#: The statements of each contender: the import alone, and the names that a client over stdio needs.
STATEMENTS = {
    "trio_mcp": ("import trio_mcp", "from trio_mcp import Server, Connection, Tool, ToolResult, open_connection"),
    "mcp": ("import mcp", "from mcp import Client, StdioServerParameters"),
    "fastmcp": (
        "import fastmcp",
        "from fastmcp import Client; from fastmcp.client.transports import StdioTransport",
    ),
    "parts": ("import trio, attrs, cattrs, msgspec", "import trio, attrs, cattrs, msgspec"),
}


def main(contender: str, names: bool) -> None:
    """Import, and print the time and the number of modules."""
    code = compile(STATEMENTS[contender][names], "<import>", "exec")
    before, began, cpu = len(sys.modules), time.perf_counter(), time.process_time()
    exec(code, {})
    found = {"units": 1, "seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
    print(json.dumps({**found, "modules": len(sys.modules) - before}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2])["names"])
