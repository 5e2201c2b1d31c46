"""The lines of a peer that are no messages: counted, sampled for error texts, and warned of once.

Knows no request and no transport.
"""

from __future__ import annotations

import logging

from ...redaction import Redactor
from ..limits import LineLimits

logger: logging.Logger = logging.getLogger("trio_mcp.transports")


class InvalidLines:
    """What one connection keeps of such lines. `name` is the peer's, for warnings."""

    def __init__(self, name: str, redactor: Redactor, limits: LineLimits) -> None:
        #: How many lines were skipped.
        self.skipped: int = 0
        #: Clipped samples of them, for error texts.
        self.samples: list[str] = []
        self._name = name
        self._redactor = redactor
        self._limits = limits
        self._warned_of: set[str] = set()

    def shown(self, data: bytes) -> str:
        """The beginning of a line, as it may be shown."""
        length = self._limits.sample_length
        return self._redactor(data[: length * 4].decode("utf-8", errors="replace"))[:length]

    def skip(self, data: bytes) -> None:
        """Keep a sample of a line, and warn of the first."""
        sample = self.shown(data)
        if len(self.samples) < self._limits.samples:
            self.samples.append(sample)
        self.warn_once("invalid lines", f"a line that is no message was skipped: {sample!r}")

    def warn_once(self, kind: str, text: str) -> None:
        """Log one warning of a kind, however often it happens."""
        if kind not in self._warned_of:
            self._warned_of.add(kind)
            logger.warning('server "%s": %s', self._name, text)
