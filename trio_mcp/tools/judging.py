"""The one loop over the entries of a listing, for `Connection.tools` and for `import_tools`.

What a skipped entry becomes is the caller's business: a warning there, data here. This knows no page and no
connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Protocol

import trio

from ..errors import SkippedToolError
from ..models.tool import ToolSpec, judge_entry

#: Entries that are judged in one go: a few milliseconds.
ENTRIES_AT_ONCE = 500


class HeaderRules(Protocol):
    """What a transport wants of tools whose arguments it repeats in headers."""

    def check(self, spec: ToolSpec) -> None:
        """Raise ValueError for a tool whose headers are not legal."""

    def learn(self, spec: ToolSpec) -> None:
        """Take note of the headers of a tool that is used."""


async def judged_entries(
    entries: Iterable[bytes], wanted: frozenset[str] | None, headers: HeaderRules | None
) -> AsyncIterator[ToolSpec | SkippedToolError]:
    """Judge entries one by one, in their order; those whose names the filter hides are left out.

    `wanted` keeps only these names of the server's; None keeps all. The first usable occurrence of a name stands,
    and what is skipped claims nothing, its headers neither.
    """
    taken: set[str] = set()
    check = None if headers is None else headers.check
    for index, entry in enumerate(entries):
        if index % ENTRIES_AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
        judged = judge_entry(entry, index, taken, check)
        # An entry without a usable name cannot be told from one that is wanted.
        if wanted is not None and judged.name and judged.name not in wanted:
            continue
        if isinstance(judged, ToolSpec):
            taken.add(judged.name)
            if headers is not None:
                headers.learn(judged)
        yield judged
