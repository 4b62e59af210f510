"""Renders a comparison as one HTML page without scripts: the answers, and the gaps of both sides with bands."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from otel_itl.compare.comparison import SEED, Comparison
from otel_itl.compare.render.words import HEADINGS, cells_of, describe_side, note_of, title_of
from otel_itl.compare.spectra import gap_spectrum
from otel_itl.report.render.number_format import format_edge, make_printable

_WIDTH, _HEIGHT = 560.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 16.0, 16.0, 40.0
_MEDIAN = 50
_SPECTRUM_TICKS = (50, 90, 95, 99, 99.5, 99.9, 99.99)
_SHARE_TICKS = (0, 25, 50, 75, 100)

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
.scroll { overflow-x: auto; } .a { color: var(--a); } .b { color: var(--b); }
"""


class _Axis(NamedTuple):
    """One axis of a picture: the share of the way along it for a value, and its labelled values."""

    ticks: Sequence[tuple[float, str]]
    """Share of the way, and label."""


def comparison_to_html(comparison: Comparison, sentence: str) -> str:
    """Return a comparison as one HTML page, which needs no network and contains no script."""
    return "".join(_parts(comparison, sentence))


def _parts(comparison: Comparison, sentence: str) -> Iterator[str]:
    """Yield the page in pieces."""
    yield (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>otel-itl compare</title><style>{_STYLE}</style></head><body><h1>{_text(sentence)}</h1>"
    )
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        yield (
            f'<p><strong class="{letter.lower()}">{letter}</strong> '
            f"{_text(side.name)}: {_text(describe_side(side))}</p>"
        )
    if comparison.is_paired:
        yield "<p>Both sides have the same sessions or requests: each is compared with itself.</p>"
    for model, rows in groupby(comparison.rows, key=lambda row: row.model):
        yield f'<h2>{_text(model)}</h2><div class="scroll"><table><tr><th></th>'
        yield "".join(f'<th scope="col">{heading}</th>' for heading in HEADINGS) + "</tr>"
        for row in rows:
            *cells, answer = cells_of(row)
            note = f' <span class="note">{_text(note_of(row, comparison))}</span>' if row.why else ""
            yield f"<tr><td>{_text(title_of(row.quantity))}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}"
            yield f'<td><span class="{answer.replace(" ", "-")}">{answer}</span>{note}</td></tr>'
        yield "</table></div>"
        yield from _pictures(comparison, model)
    for model, name in comparison.only_in:
        yield f"<p>Not compared: {_text(model)} (only in {_text(name)})</p>"
    yield "</body></html>\n"


def _pictures(comparison: Comparison, model: str) -> Iterator[str]:
    """Yield the percentile spectrum and the ECDF of the gaps of one model on both sides."""
    spectra = {
        letter: gap_spectrum([one for one in side.requests if one.model == model], SEED)
        for letter, side in (("a", comparison.a), ("b", comparison.b))
    }
    points = [point for spectrum in spectra.values() for point in spectrum if point.low > 0]
    if not points:
        return
    low, high = min(point.low for point in points), max(point.high for point in points)
    low, high = low / 1.1, high * 1.1
    marks = _latency_ticks(low, high)
    last = max(point.q for point in points)

    def along(seconds: float) -> float:
        """Return where a latency lies between `low` and `high`, on a logarithmic scale."""
        return math.log(max(seconds, low) / low) / math.log(high / low)

    def tail(q: float) -> float:
        """Return where a percentile lies: as far for 90 to 99 as for 99 to 99.9 (HdrHistogram's axis)."""
        return math.log10(100 / (100 - max(q, _MEDIAN)) / 2) / max(math.log10(100 / (100 - last) / 2), 1e-9)

    latencies = _Axis([(along(mark), format_edge(mark)) for mark in marks])
    yield '<div class="pictures">'
    percents = _Axis([(tail(q), f"{q:g} %") for q in _SPECTRUM_TICKS if q <= last])
    yield _picture(
        f"Percentile spectrum of the gaps of {model}",
        percents,
        latencies,
        {
            letter: [
                (tail(p.q), along(p.value), (tail(p.q), along(p.low)), (tail(p.q), along(p.high)))
                for p in spectrum
                if p.q >= _MEDIAN
            ]
            for letter, spectrum in spectra.items()
        },
    )
    shares = _Axis([(share / 100, f"{share} %") for share in _SHARE_TICKS])
    yield _picture(
        f"Share of the gaps of {model} up to a latency (ECDF)",
        latencies,
        shares,
        {
            letter: [
                (along(p.value), p.q / 100, (along(p.low), p.q / 100), (along(p.high), p.q / 100)) for p in spectrum
            ]
            for letter, spectrum in spectra.items()
        },
    )
    yield "</div>"


_Place = tuple[float, float]


def _picture(title: str, across: _Axis, up: _Axis, lines: dict[str, list[tuple[float, float, _Place, _Place]]]) -> str:
    """Draw lines with their bands.

    Args:
        title: what a screen reader says.
        across: the horizontal axis.
        up: the vertical axis.
        lines: for each side its points: place on both axes, and the two edges of the band.
    """

    def place(x: float, y: float) -> str:
        """Return a point of the picture for shares of the way along both axes."""
        wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return f"{_LEFT + x * wide:.1f},{_HEIGHT - _BOTTOM - y * high:.1f}"

    parts = [
        f'<figure><svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" width="{_WIDTH:g}" role="img" aria-label="{_text(title)}">'
    ]
    for share, label in across.ticks:
        x, y = place(share, 0).split(",")
        parts.append(f'<line x1="{x}" x2="{x}" y1="{_TOP:g}" y2="{y}" stroke="var(--line)"/>')
        parts.append(f'<text x="{x}" y="{float(y) + 18:g}" text-anchor="middle">{_text(label)}</text>')
    for share, label in up.ticks:
        x, y = place(0, share).split(",")
        parts.append(f'<line x1="{x}" x2="{_WIDTH - _RIGHT:g}" y1="{y}" y2="{y}" stroke="var(--line)"/>')
        parts.append(f'<text x="{float(x) - 6:g}" y="{float(y) + 4:g}" text-anchor="end">{_text(label)}</text>')
    for letter, points in lines.items():
        band = [place(*low) for _, _, low, _ in points] + [place(*high) for _, _, _, high in reversed(points)]
        parts.append(f'<polygon points="{" ".join(band)}" fill="var(--{letter})" opacity=".2"/>')
        line = " ".join(place(x, y) for x, y, _, _ in points)
        dashes = ' stroke-dasharray="6 3"' if letter == "b" else ""
        parts.append(f'<polyline points="{line}" fill="none" stroke="var(--{letter})" stroke-width="2"{dashes}/>')
    parts.append(
        f"</svg><figcaption>{_text(title)}: A is drawn through, B is dashed; bands are 95 %.</figcaption></figure>"
    )
    return "".join(parts)


def _latency_ticks(low: float, high: float) -> list[float]:
    """Return round latencies (1, 2 and 5) between two; fewer where there are many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 3 else (1,)  # noqa: PLR2004 - labels stay apart
    marks = [round(step * 10.0**decade, 12) for decade in decades for step in steps]
    return [mark for mark in marks if low <= mark <= high]


def _text(text: str) -> str:
    """Escape a text from the input for HTML."""
    return escape(make_printable(text))
