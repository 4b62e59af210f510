"""Prints an explanation to a terminal: for each model its findings in sentences, the largest share first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from otel_itl.tools.explain.findings import Explanation, Finding, ModelFacts
from otel_itl.tools.explain.render.amounts import DASH, format_share_of_variance
from otel_itl.tools.explain.render.words import (
    TARGETS,
    describe_basis,
    describe_finding,
    describe_origin,
    describe_shares,
    describe_silence,
    describe_switch,
    describe_undecided,
    findings_by_model,
    other_switches,
    undecided_of,
)
from otel_itl.tools.report.render.number_format import make_printable, pluralize
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.terminal import Terminal, print_to

if TYPE_CHECKING:
    from rich.console import RenderableType


def print_explanation(explanation: Explanation, terminal: Terminal) -> None:
    """Print an explanation, model by model."""
    print_to(terminal, Group(*_parts(explanation, terminal)))


def _parts(explanation: Explanation, terminal: Terminal) -> Iterator[RenderableType]:
    """Yield the parts of an explanation, with empty lines between them."""
    for facts, findings in findings_by_model(explanation):
        yield _heading(facts)
        if findings:
            yield _findings(findings, explanation, terminal)
        for finding in undecided_of(explanation, facts.model):
            yield _text(describe_undecided(finding, explanation), terminal)
        for switch in other_switches(explanation, facts.model):
            yield _text(describe_switch(switch), terminal)
        if silence := describe_silence(facts, explanation):
            yield _text(silence, terminal)
        yield Text()
    yield Text(make_printable(describe_basis(explanation)), style=STYLES["head"])


def _heading(facts: ModelFacts) -> Text:
    """Return the model, how many streams it has, and how much is explained."""
    shares = describe_shares(facts)
    more = f", {pluralize(facts.streams, 'stream')}" + (f": {shares}" if shares else "")
    return Text.assemble((make_printable(facts.model), STYLES["provider"]), more)


def _findings(findings: Sequence[Finding], explanation: Explanation, terminal: Terminal) -> Table:
    """Return a row for each finding: the share of variance, the latency, and the sentences."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        sentences = f"{describe_finding(finding, explanation)} {describe_origin(finding)}"
        share = format_share_of_variance(finding.share_of_variance)
        table.add_row(f"  {share}", TARGETS[finding.target], _text(sentences, terminal))
    return table


def _text(sentence: str, terminal: Terminal) -> Text:
    """Return a sentence in the characters that the terminal can show."""
    printable = make_printable(sentence)
    return Text(printable.replace(DASH, "-") if terminal.is_plain else printable)
