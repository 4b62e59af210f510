"""Describes an explanation for the page: its sentences, and a picture of each effect as labelled points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from otel_itl.core.timeline import SECOND
from otel_itl.tools.explain.findings import CurvePoint, Driver, Explanation, Finding
from otel_itl.tools.explain.render import words
from otel_itl.tools.explain.render.amounts import format_moment, format_share_of_variance, format_silence

_MICROSECONDS: Final = 1_000_000
_WHOLE_FROM = 100
_AXES: Final = {Driver.CALENDAR: "hour of the day", Driver.IDLE: "silence before the request"}
"""Titles of horizontal axes that are not the driver's name."""


def describe_for_page(explanation: Explanation) -> dict[str, Any]:
    """Return what the page's panel shows: text, and pictures of which the places lie between 0 and 1."""
    return {
        "basis": words.describe_basis(explanation),
        "models": [
            {
                "model": model.facts.model,
                "note": model.note,
                "findings": [_finding(finding, explanation) for finding in model.findings],
                "others": model.others,
            }
            for model in words.describe_models(explanation)
        ],
    }


def _finding(finding: Finding, explanation: Explanation) -> dict[str, Any]:
    """Return a finding: its sentences, its share, and its picture. Times are microseconds, as all over the page."""
    places = _places(finding)
    return {
        "sentence": words.describe_finding(finding, explanation),
        "origin": finding.origin.words,
        "points_to": finding.origin,
        "share": format_share_of_variance(finding.share_of_variance),
        "target": finding.target.words,
        "axis": _axis(finding),
        "line": finding.change is None and finding.idle_threshold is None,
        "points": [
            {
                "label": _label(finding, point),
                "at": round(place, 4),
                "y": round(point.y * _MICROSECONDS),
                "low": round(point.low * _MICROSECONDS),
                "high": round(point.high * _MICROSECONDS),
                "streams": point.streams,
            }
            for point, place in zip(finding.curve, places, strict=True)
        ],
    }


def _axis(finding: Finding) -> str:
    """Return the title of the horizontal axis."""
    if finding.change is not None and finding.change.unix_ns is not None:
        return "time of the request"
    return finding.attribute or _AXES.get(finding.driver, finding.driver.words)


def _places(finding: Finding) -> Sequence[float]:
    """Return where the points lie along the axis, from 0 to 1."""
    positions = [point.x for point in finding.curve]
    low, high = min(positions, default=0.0), max(positions, default=0.0)
    return [(position - low) / (high - low) if high > low else 0.5 for position in positions]


def _label(finding: Finding, point: CurvePoint) -> str:
    """Return the value of the driver at a point, for people."""
    if finding.change is not None:
        if finding.change.unix_ns is not None:
            return format_moment(round(point.x * SECOND))
        return finding.change.after if point.x else finding.change.before
    if finding.idle_threshold is not None:
        threshold = format_silence(finding.idle_threshold)
        return f"{threshold} or more" if point.x >= finding.idle_threshold else f"less than {threshold}"
    if finding.driver is Driver.CALENDAR:
        return f"{point.x:g} h"
    return f"{point.x:,.0f}" if point.x >= _WHOLE_FROM else f"{point.x:.3g}"
