"""What a docstring says about a function and its parameters (Google form)."""

from __future__ import annotations

import inspect
import re

_SECTION = re.compile(
    r"^(Args|Arguments|Parameters|Keyword Args|Returns?|Yields?|Raises|Examples?|Notes?|Attributes|See Also"
    r"|Warnings?|References|Todo):\s*$"
)
_ARGUMENT_SECTIONS = ("Args", "Arguments", "Parameters", "Keyword Args")
_ARGUMENT = re.compile(r"^(?P<name>\w+)\s*(?:\([^)]*\))?:\s*(?P<text>.*)$")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """The description, which is what stands before the first section; and what is said of each parameter.

    >>> read_docstring(\'\'\'Add two numbers.
    ...
    ...     Args:
    ...         a: the first,
    ...             and a second line.
    ...         b: the other.
    ...     \'\'\')
    ('Add two numbers.', {'a': 'the first, and a second line.', 'b': 'the other.'})
    """
    description: list[str] = []
    arguments: dict[str, list[str]] = {}
    section = name = ""
    indent: int | None = None
    for line in inspect.cleandoc(text or "").splitlines():
        found = _SECTION.match(line)
        if found:
            section, name, indent = found[1], "", None
        elif not section:
            description.append(line)
        elif section in _ARGUMENT_SECTIONS and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = depth if indent is None else indent
            argument = _ARGUMENT.match(line.strip()) if depth == indent else None
            if argument:
                name = argument["name"]
                arguments[name] = [argument["text"]]
            elif name:
                arguments[name].append(line.strip())
    return "\n".join(description).strip(), {name: " ".join(lines).strip() for name, lines in arguments.items()}
