"""Writes a side to a file, and reads it back: a comparison needs no more of its streams than that.

JSON lines: a header, and a request in each line. Gaps are nanoseconds, each as the difference to the one before.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import MISSING, asdict, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, Final

from otel_itl.core.timeline import SECOND, Outcome
from otel_itl.tools.compare.requests import Request, Side
from otel_itl.tools.report.certainty import Cause, Known, Uncertain
from otel_itl.tools.report.json_text import encode_json
from otel_itl.tools.report.reading.documents import UnreadableSourceError, read_documents
from otel_itl.tools.report.reading.skipped_input import SkippedInput

_KIND: Final = "otel-itl.baseline."
SCHEMA: Final = f"{_KIND}v1"
"""The key of the header, which has how well the figures of the side are known."""
_BOUNDS: Final = ("lowest", "highest")
_BOUNDED: Final = ("time_to_first_token", "gaps", "decode_time")
"""Fields in which the least and the most that a request can be differ from it."""


def write_baseline(side: Side, file: IO[str]) -> None:
    """Write a side."""
    header = {SCHEMA: {title: asdict(known) for title, known in side.known.items()}}
    for line in (header, *map(_encode, side.requests)):
        file.write(encode_json(line).decode() + "\n")


def is_baseline(source: str) -> bool:
    """Return whether a file is a side that was written; a pipe, which could be read once only, is none.

    Raises:
        UnreadableSourceError: it cannot be read.
    """
    if not Path(source).is_file():
        return False
    first = next(read_documents(source, SkippedInput()), None)
    return first is not None and isinstance(first.value, dict) and any(_KIND in key for key in first.value)


def read_baseline(source: str, skipped: SkippedInput) -> Side:
    """Read a side that was written; what is damaged is added to `skipped`.

    Raises:
        UnreadableSourceError: it cannot be read, or is none of this version.
    """
    lines = read_documents(source, skipped)
    header = next(lines).value
    try:
        known = {title: _decode_known(of_figure) for title, of_figure in header[SCHEMA].items()}
        return Side(name=source, requests=[_decode(line.value) for line in lines], saved=known)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UnreadableSourceError(f"{source} is no baseline that this version reads: write it anew.") from error


def _encode(request: Request) -> dict[str, Any]:
    """Return what of a request differs from the defaults, in the types of JSON."""
    encoded = {
        one.name: getattr(request, one.name)
        for one in fields(Request)
        if one.name not in _BOUNDS and (one.default is MISSING or getattr(request, one.name) != one.default)
    }
    encoded |= {"gaps": _encode_gaps(request.gaps), "set_aside": dict(request.set_aside)}
    for end in _BOUNDS:
        if (bound := getattr(request, end)) is not None:
            encoded[end] = {name: getattr(bound, name) for name in _BOUNDED} | {"gaps": _encode_gaps(bound.gaps)}
    return encoded


def _decode(encoded: dict[str, Any]) -> Request:
    """Return a request; raises where it is none."""
    bounds = [encoded.pop(end, None) for end in _BOUNDS]
    request = Request(
        **encoded
        | {
            "gaps": _decode_gaps(encoded["gaps"]),
            "outcome": Outcome(encoded["outcome"]),
            "set_aside": {field: Cause(cause) for field, cause in encoded["set_aside"].items()},
        }
    )
    ends = (replace(request, **one | {"gaps": _decode_gaps(one["gaps"])}) if one else None for one in bounds)
    return replace(request, lowest=next(ends), highest=next(ends))


def _encode_gaps(gaps: Sequence[float]) -> list[int]:
    moments = [round(gap * SECOND) for gap in gaps]
    return [later - earlier for earlier, later in zip([0, *moments], moments, strict=False)]


def _decode_gaps(differences: Sequence[int]) -> array[float]:
    return array("d", [moment / SECOND for moment in accumulate(differences)])


def _decode_known(encoded: dict[str, Any]) -> Known:
    uncertain = (Uncertain(**one | {"cause": Cause(one["cause"])}) for one in encoded["uncertain"])
    return Known(encoded["streams"], tuple(uncertain), encoded["left_out"])
