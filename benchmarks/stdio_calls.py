"""Calls over stdio, 100 at once and one at a time: two benchmarks, one after the other, with the same options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

if __name__ == "__main__":
    programs = [HERE / "stdio_at_once.py", HERE / "stdio_one_by_one.py"]
    ended = [subprocess.run([sys.executable, program, *sys.argv[1:]], check=False) for program in programs]
    sys.exit(max(one.returncode for one in ended))
