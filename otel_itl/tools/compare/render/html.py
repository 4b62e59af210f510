"""Renders a comparison as one HTML page without scripts: the answers, and the gaps of both sides with bands."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from otel_itl.tools.compare.comparison import SEED, Comparison, Row
from otel_itl.tools.compare.levels import Percentile
from otel_itl.tools.compare.render import pages, words
from otel_itl.tools.compare.requests import Request
from otel_itl.tools.compare.resampling import draw_weights
from otel_itl.tools.report.render.number_format import format_edge

_MEDIAN = 50
_CAPTION = "A is drawn through, B is dashed; bands are 95 %"
_SPECTRUM_TICKS = (50, 90, 95, 99, 99.5, 99.9, 99.99)
_SHARE_TICKS = (0, 25, 50, 75, 100)
_RESAMPLES = 400
_TAILS = (2.5, 97.5)
_GRID = (*range(1, 90, 2), *range(90, 99), 99, 99.3, 99.5, 99.7, 99.9, 99.95, 99.99)


class _Point(NamedTuple):
    """A percentile with its 95 % band by resampling clusters. Times are seconds."""

    q: float
    value: float
    low: float
    high: float


def comparison_to_html(comparison: Comparison, sentence: str) -> str:
    """Return a comparison as one HTML page, which needs no network and contains no script."""
    return pages.render_page("otel-itl compare", sentence, _parts(comparison))


def _parts(comparison: Comparison) -> Iterator[str]:
    """Yield the page in pieces."""
    for letter, side in comparison.sides.items():
        notes = "".join(
            f'<br><span class="note">{pages.escape_text(note)}</span>' for note in words.describe_errors(side)
        )
        name = f'<strong class="{letter.lower()}">{letter}</strong> {pages.escape_text(side.name)}'
        yield f"<p>{name}: {pages.escape_text(words.describe_side(side))}{notes}</p>"
    if comparison.is_paired:
        yield f"<p>{words.PAIRED}</p>"
    for model, rows in groupby(comparison.rows, key=lambda row: row.model):
        yield f"<h2>{pages.escape_text(model)}</h2>"
        yield pages.render_table(["", *words.HEADINGS], (_cells(row, comparison) for row in rows))
        yield from _pictures(comparison, model)
    if missing := words.describe_missing_models(comparison, pages.escape_text):
        yield f"<p>{missing}</p>"


def _cells(row: Row, comparison: Comparison) -> list[str]:
    """Return the cells of a row as HTML."""
    *cells, verdict = words.cells_of(row)
    note = f' <span class="note">{pages.escape_text(words.note_of(row, comparison))}</span>' if row.why else ""
    return [row.quantity.heading, *cells, f'<span class="{verdict.replace(" ", "-")}">{verdict}</span>{note}']


def _pictures(comparison: Comparison, model: str) -> Iterator[str]:
    """Yield the percentile spectrum and the ECDF of the gaps of one model on both sides."""
    spectra = {
        letter.lower(): _gap_spectrum([one for one in side.requests if one.model == model], SEED)
        for letter, side in comparison.sides.items()
    }
    points = [point for spectrum in spectra.values() for point in spectrum if point.low > 0]
    if not points:
        return
    low, high = min(point.low for point in points), max(point.high for point in points)
    low, high = low / 1.1, high * 1.1
    last = max(point.q for point in points)

    def along(seconds: float) -> float:
        """Return where a latency lies between `low` and `high`, on a logarithmic scale."""
        return math.log(max(seconds, low) / low) / math.log(high / low)

    def tail(q: float) -> float:
        """Return where a percentile lies: as far for 90 to 99 as for 99 to 99.9 (HdrHistogram's axis)."""
        return math.log10(100 / (100 - max(q, _MEDIAN)) / 2) / max(math.log10(100 / (100 - last) / 2), 1e-9)

    latencies = pages.Axis(along, pages.latency_ticks(low, high), format_edge)
    percents = pages.Axis(tail, [q for q in _SPECTRUM_TICKS if q <= last], "{:g} %".format)
    shares = pages.Axis(lambda q: q / 100, _SHARE_TICKS, "{:g} %".format)
    yield '<div class="pictures">'
    yield pages.draw_picture(
        pages.Picture(f"Percentile spectrum of the gaps of {model}", _CAPTION, percents, latencies),
        {
            letter: [((p.q, p.value), (p.q, p.low), (p.q, p.high)) for p in spectrum if p.q >= _MEDIAN]
            for letter, spectrum in spectra.items()
        },
    )
    yield pages.draw_picture(
        pages.Picture(f"Share of the gaps of {model} up to a latency (ECDF)", _CAPTION, latencies, shares),
        {
            letter: [((p.value, p.q), (p.low, p.q), (p.high, p.q)) for p in spectrum]
            for letter, spectrum in spectra.items()
        },
    )
    yield "</div>"


def _gap_spectrum(requests: Sequence[Request], seed: int) -> list[_Point]:
    """Return the percentiles of the gaps of requests with their bootstrap intervals, of which `seed` is.

    Above the median, up to the last one that ten gaps lie beyond; empty without a gap.
    """
    clusters: dict[str, list[float]] = {}
    for request in requests:
        clusters.setdefault(request.cluster, []).extend(request.gaps)
    samples = list(clusters.values())
    count = sum(map(len, samples))
    if not count:
        return []
    random = np.random.default_rng(seed)
    weights = np.vstack([np.ones(len(samples)), draw_weights(len(samples), _RESAMPLES, random)])
    known = [q for q in _GRID if count * (1 - q / 100) >= 10 or q <= 50]  # noqa: PLR2004 - as rows of a comparison
    found = np.stack([Percentile(samples, q).of(weights) for q in known])
    low, high = np.nanpercentile(found[:, 1:], _TAILS, axis=1)
    return [_Point(*point) for point in zip(known, found[:, 0].tolist(), low.tolist(), high.tolist(), strict=True)]
