"""Renders a comparison as Markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from otel_itl.tools.compare.render import words
from otel_itl.tools.compare.results import Comparison
from otel_itl.tools.report.render.number_format import make_printable


def comparison_to_markdown(comparison: Comparison, sentence: str) -> str:
    """Return a comparison as Markdown, which begins with the answer in one sentence."""
    return "\n".join(_lines(comparison, sentence)) + "\n"


def _lines(comparison: Comparison, sentence: str) -> Iterator[str]:
    """Yield the lines of the Markdown."""
    yield f"**{_escape(sentence)}**"
    yield ""
    for letter, side in comparison.sides.items():
        yield f"- {letter}: `{make_printable(side.name).replace('`', '')}`, {words.describe_side(side)}"
        yield from (f"  - {note}" for note in words.describe_errors(side))
    for model, rows in groupby(comparison.rows, key=lambda row: row.model):
        yield ""
        yield f"| {_escape(model)} | " + " | ".join(words.HEADINGS) + " |"
        yield "|---|" + "--:|" * (len(words.HEADINGS) - 1) + "---|"
        for row in rows:
            *cells, answer = words.cells_of(row)
            note = words.note_of(row, comparison)
            said = f"{answer}: {note}" if note else answer
            yield f"| {row.quantity.heading} | " + " | ".join([*cells, said]) + " |"
    if adjusted := words.describe_compared_prompts(comparison):
        yield ""
        yield from (f"- {_escape(line)}" for line in adjusted)


def _escape(text: str) -> str:
    """Escape what Markdown or HTML would read in a name from the input."""
    printable = make_printable(text).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{letter}" if letter in r"\`*_[]|" else letter for letter in printable)
