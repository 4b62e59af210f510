"""Prints an explanation to a terminal: for each model its findings in sentences, the largest share first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from otel_itl.tools.explain.findings import Explanation, Finding
from otel_itl.tools.explain.render import words
from otel_itl.tools.explain.render.amounts import DASH, format_share_of_variance
from otel_itl.tools.report.render.number_format import make_printable
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.terminal import Terminal, print_to


def print_explanation(explanation: Explanation, terminal: Terminal) -> None:
    """Print an explanation, model by model."""
    print_to(terminal, Group(*_parts(explanation, terminal)))


def _parts(explanation: Explanation, terminal: Terminal) -> Iterator[RenderableType]:
    """Yield the parts of an explanation, with empty lines between them."""
    for model in words.describe_models(explanation):
        yield Text.assemble((make_printable(model.facts.model), STYLES["provider"]), f", {model.note}")
        if model.findings:
            yield _findings(model.findings, explanation, terminal)
        yield from (_text(sentence, terminal) for sentence in model.others)
        yield Text()
    yield Text(make_printable(words.describe_basis(explanation)), style=STYLES["head"])


def _findings(findings: Sequence[Finding], explanation: Explanation, terminal: Terminal) -> Table:
    """Return a row for each finding: the share of variance, the latency, and the sentences."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        sentences = f"{words.describe_finding(finding, explanation)} {finding.origin.words}"
        share = format_share_of_variance(finding.share_of_variance)
        table.add_row(f"  {share}", finding.target.words, _text(sentences, terminal))
    return table


def _text(sentence: str, terminal: Terminal) -> Text:
    """Return a sentence in the characters that the terminal can show."""
    printable = make_printable(sentence)
    return Text(printable.replace(DASH, "-") if terminal.is_plain else printable)
