"""Draws docs/architecture/rooms.svg: the rooms of the package in their layers, and the way of one call.

    python docs/architecture/draw.py            # draw it anew
    python docs/architecture/draw.py --check    # exit code 1 where the picture is not that of this tree

The layers are read from the import contract in pyproject.toml: the picture says what import-linter holds. The
stations are those of ways.py; a test makes these calls, and compares the order in which functions are entered.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

from ways import ROOMS, WAYS, Way

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PICTURE = HERE / "rooms.svg"

WIDTH = 980
MARGIN = 16
FONT = "font-family='ui-sans-serif, system-ui, Segoe UI, Helvetica, Arial, sans-serif'"
MONO = "font-family='ui-monospace, SFMono-Regular, Menlo, Consolas, monospace'"
INK, QUIET, LINE, PAPER = "#1b1f24", "#57606a", "#8c959f", "#ffffff"
TINTS = ("#ddf4ff", "#fff1d6", "#dafbe1")  # of the three ways
ROW, GAP = 46, 8


def layers() -> list[list[str]]:
    """The rooms of each layer, the highest first, as the import contract lists them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (rooms,) = (contract for contract in contracts if contract["type"] == "layers")
    return [[room.strip() for room in layer.split("|")] for layer in rooms["layers"]]


def picture() -> str:
    """The whole picture as SVG."""
    body: list[str] = []
    top = MARGIN + 18
    body.append(_text(MARGIN, top, "Rooms: imports go down, never up, and never in a circle", bold=True, size=15))
    top += 14
    for layer in layers():
        width = (WIDTH - 2 * MARGIN - GAP * (len(layer) - 1)) / len(layer)
        for place, room in enumerate(layer):
            body += _room(MARGIN + place * (width + GAP), top, width, room)
        top += ROW + GAP
    top += 22
    body.append(_text(MARGIN, top, "The way of one call", bold=True, size=15))
    top += 12
    width = (WIDTH - 2 * MARGIN - GAP * (len(WAYS) - 1)) / len(WAYS)
    bottoms = [
        _way(body, MARGIN + place * (width + GAP), top, width, way, TINTS[place]) for place, way in enumerate(WAYS)
    ]
    height = max(bottoms) + MARGIN
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height:g}' width='{WIDTH}' {FONT}>"
    paper = f"<rect width='{WIDTH}' height='{height:g}' fill='{PAPER}'/>"
    arrow = (
        "<defs><marker id='a' viewBox='0 0 8 8' refX='6' refY='4' markerWidth='7' markerHeight='7' orient='auto'>"
        f"<path d='M0 0L8 4L0 8z' fill='{QUIET}'/></marker></defs>"
    )
    return "\n".join([head, paper, arrow, *body, "</svg>", ""])


def _room(left: float, top: float, width: float, name: str) -> list[str]:
    return [
        _box(left, top, width, ROW, "#f6f8fa"),
        _text(left + 10, top + 19, name, bold=True, size=13, family=MONO),
        _text(left + 10, top + 36, ROOMS[name], size=11.5, fill=QUIET),
    ]


def _way(body: list[str], left: float, top: float, width: float, way: Way, tint: str) -> float:
    body.append(_text(left, top + 14, way.title, bold=True, size=13.5))
    top += 24
    for number, station in enumerate(way.stations, 1):
        if number > 1:
            middle = left + width / 2
            body.append(
                f"<line x1='{middle:.1f}' y1='{top - 13:g}' x2='{middle:.1f}' y2='{top - 2:g}' "
                f"stroke='{QUIET}' stroke-width='1.4' marker-end='url(#a)'/>"
            )
        body += [
            _box(left, top, width, 58, tint),
            _text(left + 9, top + 17, f"{number}  {station.function}", bold=True, size=11.5, family=MONO),
            _text(left + 9, top + 33, station.file, size=11, family=MONO, fill=QUIET),
            _text(left + 9, top + 49, station.does, size=11.5),
        ]
        top += 58 + 14
    return top


def _box(left: float, top: float, width: float, height: float, fill: str) -> str:
    place = f"x='{left:.1f}' y='{top:g}' width='{width:.1f}' height='{height:g}'"
    return f"<rect {place} rx='6' fill='{fill}' stroke='{LINE}'/>"


def _text(
    left: float, top: float, text: str, *, bold: bool = False, size: float = 12, family: str = "", fill: str = INK
) -> str:
    weight = "600" if bold else "400"
    look = f"font-size='{size:g}' fill='{fill}' font-weight='{weight}' {family}"
    return f"<text x='{left:.1f}' y='{top:g}' {look}>{escape(text)}</text>"


def main() -> int:
    """Draw, or compare; the exit code."""
    drawn = picture()
    if "--check" in sys.argv[1:]:
        if PICTURE.read_text(encoding="utf-8") == drawn:
            return 0
        sys.stderr.write("rooms.svg is not that of this tree: python docs/architecture/draw.py\n")
        return 1
    PICTURE.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
