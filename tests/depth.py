"""How many examples a property is tried with: few while one works, the full number in `.ci/run`.

    python -m pytest -m "hypothesis or slow" --hypothesis-profile=thorough

conftest.py makes "quick" the default. A property that wants more or fewer examples than others names the number
of a thorough run: `@settings(max_examples=examples(500))`.
"""

from __future__ import annotations

from hypothesis import settings

#: The examples of a thorough run, and of a quick one, where a property names no number.
THOROUGH, QUICK = 100, 15
#: Even a quick run of a costly property tries so many.
FEWEST = 10


def register() -> None:
    """Make both profiles known; the quick one holds until pytest is told another."""
    # A deadline would measure how busy the machine is.
    settings.register_profile("thorough", deadline=None, max_examples=THOROUGH)
    settings.register_profile("quick", deadline=None, max_examples=QUICK)
    settings.load_profile("quick")


def is_thorough() -> bool:
    """Whether the thorough profile holds."""
    return settings().max_examples >= THOROUGH


def examples(thorough: int) -> int:
    """The number in the profile that holds, for a property with so many examples in a thorough run."""
    return max(min(thorough, FEWEST), thorough * settings().max_examples // THOROUGH)
