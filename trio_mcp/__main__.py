"""The console script `trio-mcp`, and `python -m trio_mcp`.

It must not import the command line before it knows that it needs it: `--version` answers at once, and without
the extra `cli` there is a sentence instead of a traceback.
"""

from __future__ import annotations

import sys

from .version import __version__

_EXTRA = {"cyclopts", "rich"}


def main() -> int:
    """Run the command line on `sys.argv`; the exit code is 0, 1 for a failed tool, 2 for everything else."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"trio-mcp {__version__}")
        return 0
    try:
        try:
            from .cli.app import run
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in _EXTRA:
                raise
            sentence = f"the command line needs {package}: pip install 'trio-mcp[cli]'"
            print(f"trio-mcp: {sentence}", file=sys.stderr)
            return 2
        return run(arguments)
    except KeyboardInterrupt:  # before and after the time in which cli/running.py watches for signals
        return 130


if __name__ == "__main__":
    sys.exit(main())
