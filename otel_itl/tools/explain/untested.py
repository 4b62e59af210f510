"""Says which drivers of a latency were not examined, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from otel_itl.tools.explain.calendar import can_search
from otel_itl.tools.explain.candidates import MIN_KNOWN
from otel_itl.tools.explain.facts import MIN_SPREAD, Facts
from otel_itl.tools.explain.findings import Driver, Target
from otel_itl.tools.explain.trials import Trials

UNKNOWN = "not recorded for enough streams"
STILL = "hardly varies"
FEW_DAYS = "needs five days with four streams each"
FEW_ANSWERS = "too few long answers whose chunks are known"
NO_SILENCE = "too few long silences"
RUNS = (
    "it varies only between hours or whole runs; five runs that alternate can be compared, and otel-itl sweep sets it"
)
FEW_BLOCKS = "too few days, or parts of a short input, on one side of its change"

_FIELDS: Final = {
    Driver.PROMPT: "prompt_tokens",
    Driver.CACHED_PROMPT: "cached_tokens",
    Driver.TOKENS_PER_CHUNK: "tokens_per_chunk",
    Driver.RETRIES: "attempts",
}
_REASONS: Final = {Driver.POSITION: FEW_ANSWERS, Driver.IDLE: NO_SILENCE}
_OF_ITL: Final = {Driver.POSITION, Driver.TOKENS_PER_CHUNK}
_OF_TTFT: Final = {Driver.CACHED_PROMPT}


def find_untested(trials: Trials) -> dict[str, str]:
    """Return why each driver, or attribute by its name, was not examined that could move a latency."""
    facts, tested = trials.facts, {trial.driver for trial in trials.tests}
    apart = _OF_ITL if trials.target is Target.TTFT else _OF_TTFT
    drivers = [one for one in Driver if one not in tested and one not in apart and one is not Driver.ATTRIBUTE]
    attributes = {one.attribute for one in trials.attributes.candidates if one.attribute is not None}
    left_out = sorted(attributes - set(trials.tested_attributes))
    return {
        **{driver: _find_reason(facts, driver, trials.twins) for driver in drivers},
        **{key: _describe_twin(trials.twins[key]) if key in trials.twins else FEW_BLOCKS for key in left_out},
        **trials.attributes.untested,
    }


def _describe_twin(name: str) -> str:
    """Return that something varies together with a driver or an attribute, given its name."""
    words = {driver.value: f"the {driver.words}" for driver in Driver}
    return f"varies together with {words.get(name, name)}"


def _find_reason(facts: Facts, driver: Driver, twins: Mapping[str, str]) -> str:
    """Return why one driver was not examined."""
    if driver in twins:
        return _describe_twin(twins[driver])
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
