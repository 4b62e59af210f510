"""Makes HTML pages without scripts: their frame, their tables, and their lines with bands."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from otel_itl.tools.report.render.number_format import make_printable

_WIDTH, _HEIGHT = 560.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 16.0, 16.0, 40.0

_STYLE = """
:root { color-scheme: light dark; --a: #0072b2; --b: #d55e00; --line: #8884; --dim: #777; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 500; color: var(--dim); }
td { text-align: right; padding: .2rem .6rem; border-top: 1px solid var(--line); }
td:first-child, th:first-child, td:last-child, th:last-child { text-align: left; }
.slower { color: #d55e00; font-weight: 600; } .note { color: var(--dim); }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; }
svg { max-width: 100%; height: auto; } text { fill: currentColor; font: 12px system-ui, sans-serif; }
.scroll { overflow-x: auto; } .limit { stroke: #d55e00; stroke-dasharray: 2 3; }
.a { color: var(--a); } .b { color: var(--b); }
"""
"""Of a page with tables and pictures."""


Place = tuple[float, float]
"""A value on each of the two axes."""


class Axis(NamedTuple):
    """One axis of a picture."""

    scale: Callable[[float], float]
    """Returns which share of the way along the axis a value is."""
    ticks: Sequence[float]
    """Values that are labelled."""
    label: Callable[[float], str]


class Picture(NamedTuple):
    """What a picture shows besides its lines."""

    title: str
    """What a screen reader says."""
    caption: str
    """What lines and bands are."""
    across: Axis
    up: Axis
    limit: float | None = None
    """Value on the axis up of a line across; None: there is none."""


def render_page(title: str, sentence: str, parts: Iterable[str]) -> str:
    """Return a page with a sentence above its parts, which are HTML. It needs no network and contains no script."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{escape_text(sentence)}</h1>"
        f"{''.join(parts)}</body></html>\n"
    )


def render_table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table, given its headings as text and its cells as HTML."""
    head = "".join(f'<th scope="col">{escape_text(heading)}</th>' for heading in headings)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def draw_picture(picture: Picture, lines: Mapping[str, Sequence[tuple[Place, Place, Place]]]) -> str:
    """Draw lines with their bands.

    Args:
        picture: its axes and texts.
        lines: for each side (`a`, `b`) its points, each with the two edges of the band.
    """
    across, up = picture.across, picture.up

    def place(x: float, y: float) -> str:
        """Return a point of the picture for shares of the way along both axes."""
        wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return f"{_LEFT + x * wide:.1f},{_HEIGHT - _BOTTOM - y * high:.1f}"

    def join(places: Iterable[Place]) -> str:
        return " ".join(place(across.scale(x), up.scale(y)) for x, y in places)

    title = escape_text(picture.title)
    parts = [f'<figure><svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" width="{_WIDTH:g}" role="img" aria-label="{title}">']
    for tick in across.ticks:
        x, y = place(across.scale(tick), 0).split(",")
        parts.append(f'<line x1="{x}" x2="{x}" y1="{_TOP:g}" y2="{y}" stroke="var(--line)"/>')
        parts.append(
            f'<text x="{x}" y="{float(y) + 18:g}" text-anchor="middle">{escape_text(across.label(tick))}</text>'
        )
    for tick in up.ticks:
        x, y = place(0, up.scale(tick)).split(",")
        parts.append(f'<line x1="{x}" x2="{_WIDTH - _RIGHT:g}" y1="{y}" y2="{y}" stroke="var(--line)"/>')
        label = escape_text(up.label(tick))
        parts.append(f'<text x="{float(x) - 6:g}" y="{float(y) + 4:g}" text-anchor="end">{label}</text>')
    if picture.limit is not None:
        x, y = place(0, up.scale(picture.limit)).split(",")
        parts.append(f'<line class="limit" x1="{x}" x2="{_WIDTH - _RIGHT:g}" y1="{y}" y2="{y}"/>')
    for letter, points in lines.items():
        band = [*(low for _, low, _ in points), *(high for _, _, high in reversed(points))]
        parts.append(f'<polygon points="{join(band)}" fill="var(--{letter})" opacity=".2"/>')
        line = join(point for point, _, _ in points)
        dashes = ' stroke-dasharray="6 3"' if letter == "b" else ""
        parts.append(f'<polyline points="{line}" fill="none" stroke="var(--{letter})" stroke-width="2"{dashes}/>')
    parts.append(f"</svg><figcaption>{title}: {escape_text(picture.caption)}.</figcaption></figure>")
    return "".join(parts)


def latency_ticks(low: float, high: float) -> list[float]:
    """Return round latencies (1, 2 and 5) between two; fewer where there are many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 3 else (1,)  # noqa: PLR2004 - labels stay apart
    marks = [round(step * 10.0**decade, 12) for decade in decades for step in steps]
    return [mark for mark in marks if low <= mark <= high]


def escape_text(text: str) -> str:
    """Escape a text from the input for HTML."""
    return escape(make_printable(text))
