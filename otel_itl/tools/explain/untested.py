"""Says which drivers of a latency were not examined, and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from otel_itl.tools.explain.calendar import can_search
from otel_itl.tools.explain.candidates import MIN_KNOWN
from otel_itl.tools.explain.facts import MIN_SPREAD, Facts
from otel_itl.tools.explain.findings import Driver, Target

UNKNOWN = "not recorded for enough streams"
STILL = "hardly varies"
FEW_DAYS = "needs five days with four streams each"
FEW_ANSWERS = "too few long answers whose chunks are known"
NO_SILENCE = "too few long silences"
RUNS = "whole runs at one load; otel-itl compare or sweep compares them"

_FIELDS: Final = {
    Driver.PROMPT: "prompt_tokens",
    Driver.CACHED_PROMPT: "cached_tokens",
    Driver.TOKENS_PER_CHUNK: "tokens_per_chunk",
    Driver.RETRIES: "attempts",
}
_REASONS: Final = {Driver.POSITION: FEW_ANSWERS, Driver.IDLE: NO_SILENCE}
_OF_ITL: Final = {Driver.POSITION, Driver.TOKENS_PER_CHUNK}
_OF_TTFT: Final = {Driver.CACHED_PROMPT}


def find_untested(
    facts: Facts, target: Target, tested: Collection[Driver], twins: Mapping[Driver, Driver]
) -> dict[Driver, str]:
    """Return why each driver was not examined that could move this latency; empty where all were.

    Args:
        facts: the streams.
        target: the latency.
        tested: the drivers that were examined.
        twins: driver that was left out → the one that it varies together with.
    """
    apart = _OF_ITL if target is Target.TTFT else _OF_TTFT
    return {
        driver: _find_reason(facts, driver, twins) for driver in Driver if driver not in tested and driver not in apart
    }


def _find_reason(facts: Facts, driver: Driver, twins: Mapping[Driver, Driver]) -> str:
    """Return why one driver was not examined."""
    if driver in twins:
        return f"varies together with the {twins[driver].words}"
    if driver in _REASONS:
        return _REASONS[driver]
    if driver is Driver.CALENDAR:
        return STILL if can_search(facts) else FEW_DAYS
    if driver is Driver.OWN_LOAD:
        return RUNS if np.ptp(facts.load_mean) > MIN_SPREAD else STILL
    if driver in _FIELDS:
        return STILL if np.mean(~np.isnan(facts.column(_FIELDS[driver]))) >= MIN_KNOWN else UNKNOWN
    values = [one.server if driver is Driver.SERVER_ADDRESS else one.response_model for one in facts.streams]
    return STILL if np.mean([value is not None for value in values]) >= MIN_KNOWN else UNKNOWN
