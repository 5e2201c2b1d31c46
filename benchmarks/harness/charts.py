"""Draws numbers as SVG text: bars, and curves on logarithmic axes. It knows no benchmark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, MARGIN = 720, 16
BAR, GAP = 18, 6
LABELS = 130
LEGEND, PLOT_HEIGHT = 130, 300

#: Colours that colour-blind people can tell apart (Okabe and Ito); the first is for the subject of the chart.
COLOURS = ("#d55e00", "#0072b2", "#56b4e9", "#cc79a7", "#009e73", "#8a8a8a", "#e69f00", "#4d4d4d")

Curve = Sequence[tuple[float, float]]


def bars(title: str, groups: Mapping[str, Mapping[str, float]], form: str, colours: Mapping[str, str]) -> str:
    """A bar for each value, in groups; all on one scale that begins at 0."""
    parts: list[str] = []
    longest = max((value for values in groups.values() for value in values.values()), default=0) or 1
    room = WIDTH - 2 * MARGIN - LABELS - 80
    y = 52
    for group, values in groups.items():
        if len(groups) > 1:
            parts.append(text(MARGIN, y + 12, group, weight="bold"))
            y += 22
        for name, value in values.items():
            x, length = MARGIN + LABELS, max(1.0, value / longest * room)
            parts.append(text(x - 8, y + 13, name, anchor="end"))
            parts.append(f'<rect x="{x}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colours[name]}"/>')
            parts.append(text(x + length + 6, y + 13, f"{value:{form}}"))
            y += BAR + GAP
        y += 8
    return picture(title, y + 4, parts)


def curves(title: str, axes: tuple[str, str], lines: Mapping[str, Curve], colours: Mapping[str, str]) -> str:
    """A curve for each name; both axes are logarithmic: a level curve is a cost that does not grow."""
    points = [point for line in lines.values() for point in line]
    if not points:
        return picture(title, 60, [])
    left, top = MARGIN + 64, 52
    right, bottom = WIDTH - MARGIN - LEGEND, top + PLOT_HEIGHT
    xs, ys = Scale([x for x, _ in points], left, right), Scale([y for _, y in points], bottom, top)
    parts: list[str] = []
    for value in xs.ticks():
        parts.append(rule(xs.at(value), top, xs.at(value), bottom))
        parts.append(text(xs.at(value), bottom + 16, short(value), anchor="middle"))
    for value in ys.ticks():
        parts.append(rule(left, ys.at(value), right, ys.at(value)))
        parts.append(text(left - 8, ys.at(value) + 4, short(value), anchor="end"))
    for row, (name, line) in enumerate(lines.items()):
        colour = colours[name]
        placed = [(xs.at(x), ys.at(y)) for x, y in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in placed]
        parts.append(f'<rect x="{right + 18}" y="{top + 20 * row}" width="12" height="12" fill="{colour}"/>')
        parts.append(text(right + 36, top + 20 * row + 10, name))
    parts.append(text((left + right) / 2, bottom + 36, axes[0], anchor="middle"))
    parts.append(text(left, top - 8, axes[1]))
    return picture(title, bottom + 48, parts)


class Scale:
    """A logarithmic scale from values to positions, with a little room at both ends."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self._low, self._high = math.log10(min(values)) - 0.05, math.log10(max(values)) + 0.05
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        """The position of a value."""
        part = (math.log10(value) - self._low) / (self._high - self._low)
        return self._start + part * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Powers of ten; also 2 and 5 times these where there would be too few."""
        decades = range(math.floor(self._low), math.ceil(self._high) + 1)
        steps = (1,) if self._high - self._low > 2.5 else (1, 2, 5)
        found = [step * 10.0**decade for decade in decades for step in steps]
        return [value for value in found if self._low <= math.log10(value) <= self._high]


def short(value: float) -> str:
    """The label of a tick.

    >>> short(20000.0), short(0.5), short(1e6)
    ('20k', '0.5', '1M')
    """
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


def text(x: float, y: float, content: str, *, anchor: str = "start", weight: str = "normal") -> str:
    """A piece of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(content)}</text>'


def rule(x1: float, y1: float, x2: float, y2: float) -> str:
    """A line of the grid."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>'


def picture(title: str, height: float, parts: Sequence[str]) -> str:
    """The whole file, on a white ground: the page around it may be dark."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'height="{height:.0f}" font-family="sans-serif" font-size="12" role="img">'
    )
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    heading = f'<text x="{MARGIN}" y="26" font-size="15" font-weight="bold">{escape(title)}</text>'
    return "\n".join((head, f"<title>{escape(title)}</title>", ground, heading, *parts, "</svg>", ""))
