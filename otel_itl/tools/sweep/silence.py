"""Finds where an endpoint stopped answering for the rest of a sweep: what came from then on shows no capacity."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import Final

from otel_itl.tools.sweep.brakes import INTERRUPTED, RoundEnd
from otel_itl.tools.sweep.failures import NO_TOKEN
from otel_itl.tools.sweep.records import DueRequest, Round, Sweep

MIN_UNANSWERED: Final = 5
"""Requests at the end of a sweep none of which was answered: fewer may have failed by chance."""
STOPPED: Final = "the endpoint stopped answering"


def void_silence(sweep: Sweep) -> Sweep:
    """Return a sweep whose rounds are void from the one on in which the endpoint stopped answering, if it did.

    Any HTTP status is an answer. Where as many requests of that round have failed in this way before, it is not the end
    of an endpoint but one that fails under load.
    """
    sent = sorted((one for one in sweep.requests if one.sent is not None and one.ended is not None), key=_moment)
    lost = list(takewhile(_is_unanswered, reversed(sent)))
    if not MIN_UNANSWERED <= len(lost) < len(sent):
        return sweep
    first = next(number for number, one in enumerate(sweep.rounds) if lost[-1] in one.requests)
    began = sweep.rounds[first]
    if sum(map(_is_unanswered, began.requests)) >= 2 * sum(one in lost for one in began.requests):
        return sweep
    reason = (
        f"{STOPPED} in round {first + 1} of {len(sweep.rounds)}, at {began.level:g}x: "
        f"the last {len(lost)} requests failed ({lost[0].failure_with_detail})"
    )
    changed = [_void(one, reason) for one in sweep.rounds[first:]]
    changed[0] = replace(changed[0], end=RoundEnd.SILENT, reason=STOPPED)
    stopped = INTERRUPTED if sweep.is_interrupted else reason
    return replace(sweep, rounds=[*sweep.rounds[:first], *changed], stop_reason=stopped)


def _void(one: Round, reason: str) -> Round:
    """Return a round that counts for nothing."""
    return replace(one, void_reason=reason, is_failing=False, is_driver_bound=False)


def _moment(request: DueRequest) -> float:
    return request.sent or 0.0


def _is_unanswered(request: DueRequest) -> bool:
    """Return whether the connection of a request failed."""
    return request.error not in {None, NO_TOKEN} and request.status is None
