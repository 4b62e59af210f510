"""Renders a comparison as JUnit XML: it has a failure or an error if the exit code is not 0."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from otel_itl.tools.compare.gate import deciding_rows, lacks_models, required_rows
from otel_itl.tools.compare.render import words
from otel_itl.tools.compare.results import Comparison, Row
from otel_itl.tools.compare.verdicts import UNKNOWN, Answer


def comparison_to_junit(comparison: Comparison, sentence: str, keys: Sequence[str]) -> str:
    """Return a comparison as JUnit XML: a suite for each model, and a case for each row.

    A row that is slower is a failure, one that is not known an error where it has to be known, else skipped.

    Args:
        comparison: the answers.
        sentence: the answer in one sentence.
        keys: the quantities that decide.
    """
    suites = Element("testsuites", name="otel-itl compare")
    deciding, required = deciding_rows(comparison, keys), required_rows(comparison, keys)
    for model, rows in groupby(comparison.rows, key=lambda row: row.model):
        suite = SubElement(suites, "testsuite", name=_clean(model))
        for row in rows:
            case = SubElement(suite, "testcase", classname=_clean(model), name=row.quantity.title)
            _add_answer(case, row, comparison, decides=row in deciding, is_required=row in required)
    if lacks_models(comparison) or not required:
        suite = SubElement(suites, "testsuite", name="what is compared")
        case = SubElement(suite, "testcase", classname="sides", name="both sides have the same models")
        SubElement(case, "error", message=_clean(sentence))
    for suite in suites:
        suite.set("tests", str(len(suite)))
        for kind in ("failure", "error", "skipped"):
            suite.set(f"{kind}s" if kind != "skipped" else kind, str(len(suite.findall(f"*/{kind}"))))
    indent(suites)
    return tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _add_answer(case: Element, row: Row, comparison: Comparison, *, decides: bool, is_required: bool) -> None:
    """Add to a case what its row answers, if that is anything but fine."""
    if row.answer is Answer.SLOWER and decides:
        SubElement(case, "failure", message=_clean(words.describe_row(row)))
    elif row.answer in UNKNOWN:
        note = f"{row.answer.value}: {words.note_of(row, comparison)}"
        SubElement(case, "error" if is_required else "skipped", message=_clean(note))


def _clean(text: str) -> str:
    """Return a text without the characters that XML cannot hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
