"""Makes the columns of the attributes that an application gives its streams: tenant, region, version, template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from otel_itl.tools.explain.candidates import (
    MIN_CHANGED_SHARE,
    MIN_KNOWN,
    Candidate,
    Replacement,
    Trial,
    find_replacements,
    make_trial,
)
from otel_itl.tools.explain.facts import Facts
from otel_itl.tools.explain.findings import ABSENT, ELSEWHERE, Change, Driver
from otel_itl.tools.explain.robust import Estimate

MAX_VALUES: Final = 20
"""Values of an attribute that are compared."""
MAX_MOMENTS: Final = 3
"""Changes of an attribute from one value to the next, above which they are no deployments."""
MIN_STREAMS: Final = 8
"""Streams with a value, below which it is not compared."""
MIN_ALIKE: Final = 0.8
"""Correlation of an attribute's value with a window of the week from which the effect may be of either."""
MANY: Final = "too many values"
STILL: Final = "hardly varies"
ABSENT_EVERYWHERE: Final = "not recorded"


@dataclass(slots=True)
class Attributes:
    """The candidates of all attributes, and why others have none."""

    candidates: list[Candidate] = field(default_factory=list)
    untested: dict[str, str] = field(default_factory=dict)
    """Attribute that varies, or was asked for → why it is not examined."""


def find_attributes(facts: Facts, only: str | None = None) -> Attributes:
    """Make a candidate for each value of each attribute, beside all other values of it, or for each change of it.

    A stream without an attribute has a value of its own, `ABSENT`.

    Args:
        facts: the streams.
        only: the attribute that was asked for, which is named with a reason where it cannot be examined.
    """
    found = Attributes()
    for key in sorted({key for one in facts.streams for key in one.attributes} | ({only} if only else set())):
        values = [one.attributes.get(key, ABSENT) for one in facts.streams]
        if key in facts.many_valued:
            found.untested[key] = MANY
            continue
        reason = _add_candidates(found, facts, key, values)
        if reason == MANY or (reason and key == only):
            found.untested[key] = ABSENT_EVERYWHERE if set(values) == {ABSENT} else reason
    found.untested |= dict.fromkeys(sorted(facts.many_valued & ({only} if only else facts.many_valued)), MANY)
    return found


def _add_candidates(found: Attributes, facts: Facts, key: str, values: list[str]) -> str | None:
    """Add the candidates of one attribute; returns why there are none."""
    enough = max(MIN_STREAMS, MIN_CHANGED_SHARE * len(values))
    common = [value for value, count in Counter(values).most_common() if count >= enough]
    covered = sum(value in common for value in values)
    if covered < MIN_KNOWN * len(values) or len(common) > MAX_VALUES:
        return MANY
    if len(common) < 2:  # noqa: PLR2004 - a value and another
        return STILL
    moments = find_replacements(Driver.ATTRIBUTE, values, [one.start_ns for one in facts.streams], enough)
    if moments and moments[0].change.unix_ns is not None:
        if len(moments) > MAX_MOMENTS:
            return MANY
        replacements = moments
    else:
        # Of two values, the one is all that the other is not.
        replacements = [_set_apart(value, values) for value in (common if len(common) > 2 else common[1:])]  # noqa: PLR2004
    found.candidates += [
        Candidate(driver=Driver.ATTRIBUTE, column=one.is_after.astype(np.float64), replacement=one, attribute=key)
        for one in replacements
    ]
    return None


def _set_apart(value: str, values: list[str]) -> Replacement:
    """Compare a value with all others."""
    is_it = np.array([one == value for one in values])
    return Replacement(Driver.ATTRIBUTE, Change(ELSEWHERE, value, None), ~is_it, is_it)


def leave_out_values(
    left: Sequence[Candidate], found: Sequence[Estimate], chosen: int
) -> tuple[list[Candidate], list[Trial]]:
    """Leave out the candidate that was chosen, and the other values of its attribute.

    One value of an attribute is compared with all others. Beside it, a second one would be compared with those that are
    left, and its sentence would be of other streams than it says.

    Returns:
        The candidates that stay, and the tests of those that do not: they name nothing, and count as examined.
    """
    name = left[chosen].attribute
    is_out = [number != chosen and one.attribute == name and not one.has_moment for number, one in enumerate(left)]
    stay = [one for number, one in enumerate(left) if number != chosen and not is_out[number]]
    tests = [make_trial(one, of_one) for one, of_one, out in zip(left, found, is_out, strict=True) if out]
    return stay, [replace(one, p=1.0) for one in tests]


def name_twins(window: Trial, attributes: Sequence[Candidate]) -> Trial:
    """Return the test of a window of the week, with the attributes of which a value varies together with it."""
    inside = window.candidate.column
    alike = {
        one.name
        for one in attributes
        if np.std(one.column) > 0 and abs(float(np.corrcoef(one.column, inside)[0, 1])) >= MIN_ALIKE
    }
    return replace(window, candidate=replace(window.candidate, twins=(*window.candidate.twins, *sorted(alike))))
