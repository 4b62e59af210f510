"""Which requests and which gaps of a sweep are over its objective."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from otel_itl.core.slo import SLO
from otel_itl.core.timeline import Outcome
from otel_itl.tools.compare.levels import Floats
from otel_itl.tools.sweep.attainment import Share, measure_share
from otel_itl.tools.sweep.records import DueRequest

OVER_REQUESTS = "over_requests"
"""Key of the share of requests that were not completed, or whose first token came later than the objective."""
OVER_GAPS = "over_gaps"
"""Key of the share of gaps that were longer than the objective."""
MIN_MEASURED_SHARE = 0.5
"""Share of the requests with a token whose gaps have to be known, for the share of gaps to be measured."""
_EVER = 1e9
"""Longer than any request lasts, in seconds: without a TTFT objective, those are in time that were completed."""


def is_in_time(request: DueRequest, objective: SLO | None) -> bool:
    """Return whether a request was completed, with its first token in time; a caller's own delay counts."""
    if request.measured is None or request.measured.outcome is not Outcome.COMPLETED:
        return False
    first = request.time_to_first_token
    if objective is None or objective.ttft is None:
        return True
    return first is not None and first <= objective.ttft


def read_gaps(request: DueRequest) -> Floats:
    """Return the gaps of a request (s); none where its answer came in one chunk, was buffered, or was held up here."""
    is_known = request.measured is not None and not request.is_buffered and not request.is_held_up
    return np.array(request.measured.gaps if is_known and request.measured is not None else ())


def meets_objective(request: DueRequest, objective: SLO | None) -> bool:
    """Return whether a request was completed within the TTFT and the ITL objective.

    As many gaps may be longer than the ITL objective as its target allows; a request whose gaps are not known does not
    meet it. Without an objective, it was completed.
    """
    if objective is None or objective.itl is None or not is_in_time(request, objective):
        return is_in_time(request, objective)
    gaps = read_gaps(request)
    over = int(np.count_nonzero(gaps > objective.itl))
    return bool(gaps.size) and over <= round((1 - objective.target) * gaps.size, 6)  # in binary 10 % of 10 is below 1


def measure_shares(blocks: Sequence[Sequence[DueRequest]], objective: SLO | None) -> dict[str, Share]:
    """Return the share over each part of an objective that was measured, by its key.

    Args:
        blocks: for each block of time the requests that were due in it.
        objective: None: there is none, and no share.
    """
    if objective is None:
        return {}
    limit = objective.ttft or _EVER
    shares = {OVER_REQUESTS: measure_share([[_read_wait(one, limit) for one in block] for block in blocks], limit)}
    gaps = [[read_gaps(one) for one in block] for block in blocks]
    judged = (one for block in blocks for one in block if not one.is_held_up)
    answered = sum(one.time_to_first_token is not None for one in judged)
    known = sum(bool(one.size) for block in gaps for one in block)
    if objective.itl is not None and known >= MIN_MEASURED_SHARE * answered:
        shares[OVER_GAPS] = measure_share(gaps, objective.itl)
    return {key: share for key, share in shares.items() if share is not None}


def _read_wait(request: DueRequest, limit: float) -> Floats:
    """Return the time to the first token of a request (s); infinity where it was not completed.

    One that was held up here counts where that does not matter: it was in time, or would have been late without it.
    """
    first = request.time_to_first_token
    if first is None or not is_in_time(request, None):
        return np.array([math.inf])
    return np.empty(0) if first > limit >= first - request.held_up else np.array([first])
