"""Lines of stderr that are held back while a server is opened: what an old server says of the probe helps nobody.

They are passed on where the start fails, and where the server proves to be modern. Knows no process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

#: Lines that are held at most; beyond it the oldest go.
MOST = 1000


class HeldLines:
    """Passes lines to a function; while `is_holding`, only later.

    >>> lines = HeldLines(print)
    >>> lines.put("about the probe")
    >>> lines.drop()
    >>> lines.put("about a call")
    about a call
    """

    def __init__(self, pass_on: Callable[[str], None], *, is_holding: bool = True) -> None:
        self._pass_on = pass_on
        self._held: deque[str] | None = deque(maxlen=MOST) if is_holding else None

    def put(self, line: str) -> None:
        """Take one line."""
        if self._held is None:
            self._pass_on(line)
        else:
            self._held.append(line)

    def release(self) -> None:
        """Pass on what is held, and hold nothing more."""
        held, self._held = self._held, None
        for line in held or ():
            self._pass_on(line)

    def drop(self) -> None:
        """Forget what is held, and hold nothing more."""
        self._held = None
