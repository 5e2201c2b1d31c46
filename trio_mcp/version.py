"""The version of trio_mcp, written in this place alone."""

__version__ = "0.1.0"
