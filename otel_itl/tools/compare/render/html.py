"""Renders a comparison as one HTML page without scripts: the answers, and the gaps of both sides with bands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby

from otel_itl.tools.compare.comparison import SEED, Comparison
from otel_itl.tools.compare.render.pictures import STYLE, Axis, Picture, draw_picture, escape_text, latency_ticks
from otel_itl.tools.compare.render.words import (
    HEADINGS,
    cells_of,
    describe_errors,
    describe_missing_models,
    describe_side,
    note_of,
)
from otel_itl.tools.compare.spectra import gap_spectrum
from otel_itl.tools.report.render.number_format import format_edge

_MEDIAN = 50
_CAPTION = "A is drawn through, B is dashed; bands are 95 %"
_SPECTRUM_TICKS = (50, 90, 95, 99, 99.5, 99.9, 99.99)
_SHARE_TICKS = (0, 25, 50, 75, 100)


def comparison_to_html(comparison: Comparison, sentence: str) -> str:
    """Return a comparison as one HTML page, which needs no network and contains no script."""
    return "".join(_parts(comparison, sentence))


def _parts(comparison: Comparison, sentence: str) -> Iterator[str]:
    """Yield the page in pieces."""
    yield (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>otel-itl compare</title><style>{STYLE}</style></head><body><h1>{escape_text(sentence)}</h1>"
    )
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        yield (
            f'<p><strong class="{letter.lower()}">{letter}</strong> '
            f"{escape_text(side.name)}: {escape_text(describe_side(side))}"
            + "".join(f'<br><span class="note">{escape_text(note)}</span>' for note in describe_errors(side))
            + "</p>"
        )
    if comparison.is_paired:
        yield "<p>Both sides have the same sessions or requests: each is compared with itself.</p>"
    for model, rows in groupby(comparison.rows, key=lambda row: row.model):
        yield f'<h2>{escape_text(model)}</h2><div class="scroll"><table><tr><th></th>'
        yield "".join(f'<th scope="col">{heading}</th>' for heading in HEADINGS) + "</tr>"
        for row in rows:
            *cells, answer = cells_of(row)
            note = f' <span class="note">{escape_text(note_of(row, comparison))}</span>' if row.why else ""
            yield f"<tr><td>{escape_text(row.quantity.heading)}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}"
            yield f'<td><span class="{answer.replace(" ", "-")}">{answer}</span>{note}</td></tr>'
        yield "</table></div>"
        yield from _pictures(comparison, model)
    if missing := describe_missing_models(comparison, escape_text):
        yield f"<p>{missing}</p>"
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
    marks = latency_ticks(low, high)
    last = max(point.q for point in points)

    def along(seconds: float) -> float:
        """Return where a latency lies between `low` and `high`, on a logarithmic scale."""
        return math.log(max(seconds, low) / low) / math.log(high / low)

    def tail(q: float) -> float:
        """Return where a percentile lies: as far for 90 to 99 as for 99 to 99.9 (HdrHistogram's axis)."""
        return math.log10(100 / (100 - max(q, _MEDIAN)) / 2) / max(math.log10(100 / (100 - last) / 2), 1e-9)

    latencies = Axis([(along(mark), format_edge(mark)) for mark in marks])
    yield '<div class="pictures">'
    percents = Axis([(tail(q), f"{q:g} %") for q in _SPECTRUM_TICKS if q <= last])
    yield draw_picture(
        Picture(f"Percentile spectrum of the gaps of {model}", _CAPTION, percents, latencies),
        {
            letter: [
                (tail(p.q), along(p.value), (tail(p.q), along(p.low)), (tail(p.q), along(p.high)))
                for p in spectrum
                if p.q >= _MEDIAN
            ]
            for letter, spectrum in spectra.items()
        },
    )
    shares = Axis([(share / 100, f"{share} %") for share in _SHARE_TICKS])
    yield draw_picture(
        Picture(f"Share of the gaps of {model} up to a latency (ECDF)", _CAPTION, latencies, shares),
        {
            letter: [
                (along(p.value), p.q / 100, (along(p.low), p.q / 100), (along(p.high), p.q / 100)) for p in spectrum
            ]
            for letter, spectrum in spectra.items()
        },
    )
    yield "</div>"
