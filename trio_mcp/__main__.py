"""The console script `trio-mcp`, and `python -m trio_mcp`.

The command line is imported only when it is needed: `--version` answers at once, and without the extra `cli` the
user reads a sentence instead of a traceback.
"""

from __future__ import annotations

import sys

from .version import __version__

_CLI_PACKAGES = {"cyclopts", "rich"}


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
            if package not in _CLI_PACKAGES:
                raise
            sentence = f"the command line needs {package}: pip install 'trio-mcp[cli]'"
            print(f"trio-mcp: {sentence}", file=sys.stderr)
            return 2
        return run(arguments)
    except KeyboardInterrupt:  # Ctrl-C before or after cli/running.py handles signals
        return 130


if __name__ == "__main__":
    sys.exit(main())
