"""Etalon's fluidity index: the share of deadlines that the tokens of a stream met.

The first token is due one TTFT objective after the request, each next one an ITL objective after the one before; what a
token comes early is slack for those after it. A token that comes late misses its own deadline and one more for each
further ITL objective that passes, and the slack is gone. The index is 1 - missed / (missed + met).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, compress, count, repeat
from operator import mul, sub

from otel_itl.core.gaps import MAX_TOKENS_PER_CHUNK, split_by_choice
from otel_itl.core.measures import Measures, measure
from otel_itl.core.timeline import OUTPUT, SECOND, Timeline


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How many deadlines the tokens of a stream missed, of how many."""

    missed: int
    total: int

    @property
    def fluidity_index(self) -> float:
        """`1 - missed / total`: 1 is fluid, and is the index of a stream without a token as well."""
        return 1 - self.missed / self.total if self.total else 1.0


def fluidity_index(timeline: Timeline, ttft_objective: int, itl_objective: int, *, measures: Measures) -> float | None:
    """Compute the fluidity index of a stream whose measures are known; None where its arrivals are not.

    Objectives are nanoseconds. `count_deadlines` gives the counts behind the index.
    """
    deadlines = count_deadlines(timeline, ttft_objective, itl_objective, measures=measures)
    return None if deadlines is None else deadlines.fluidity_index


def count_deadlines(
    timeline: Timeline,
    ttft_objective: int,
    itl_objective: int,
    *,
    counted: int = OUTPUT,
    measures: Measures | None = None,
) -> Deadlines | None:
    """Count the deadlines that the tokens of a stream met and missed, in integer nanoseconds.

    Tokens that share a chunk, where the provider counts them, come together. Several choices are walked one by one.

    Args:
        timeline: the stream.
        ttft_objective: nanoseconds to the first token.
        itl_objective: nanoseconds between tokens.
        counted: the flags of chunks that are tokens. Etalon itself counts text alone: `Kind.ANSWER`.
        measures: the measures of the timeline; None: they are computed.

    Returns:
        None where the arrivals are not known well enough to count them, or chunks were left out.

    Raises:
        ValueError: an objective that is not positive.
    """
    if ttft_objective <= 0 or itl_objective <= 0:
        message = f"an objective is a positive number of nanoseconds: got {ttft_objective} and {itl_objective}."
        raise ValueError(message)
    measures = measures or measure(timeline)
    if timeline.unrecorded or any(timeline.skipped):
        return None
    if counted == OUTPUT and _has_no_late_gap(timeline, itl_objective, measures):
        return _count_by_first(measures, ttft_objective, itl_objective)
    if measures.imputed or measures.excluded or measures.is_consumer_bound:
        return None
    is_token = timeline.output_flags if counted == OUTPUT else bytes(bool(kind & counted) for kind in timeline.kinds)
    missed = met = 0
    for selected in split_by_choice(timeline, is_token):
        tokens = [number if 0 < number <= MAX_TOKENS_PER_CHUNK else 1 for number in compress(timeline.tokens, selected)]
        tokens_before = accumulate(tokens, initial=0)
        allowed = map(mul, tokens_before, repeat(itl_objective)) if tokens else count(0, itl_objective)
        lateness = map(sub, compress(timeline.arrived, selected), allowed)
        late_chunks, missed_here = _count_missed(lateness, ttft_objective, itl_objective)
        missed += missed_here
        met += (sum(tokens) if tokens else sum(selected)) - late_chunks
    return Deadlines(missed, missed + met)


def _has_no_late_gap(timeline: Timeline, itl_objective: int, measures: Measures) -> bool:
    """Return whether no token can have come later after its predecessor than the objective (ns).

    False also where the samples are not the gaps between arrivals: with several choices, counted tokens or bursts.
    """
    highest = measures.sample_bounds.highest
    are_gaps = not (timeline.tokens or timeline.choices or measures.burst_ratio)
    return are_gaps and len(highest) > 0 and highest[-1] <= itl_objective


def _count_by_first(measures: Measures, ttft_objective: int, itl_objective: int) -> Deadlines | None:
    """Count the deadlines of a stream whose other tokens come no later, beside their deadlines, than the first.

    None: what the first missed depends on when exactly it came.
    """
    ttft = measures.find_bounds("time_to_first_token") or ()
    (late_chunks, missed), *others = {
        _count_missed([round(moment * SECOND)], ttft_objective, itl_objective) for moment in ttft
    }
    return None if others else Deadlines(missed, missed + measures.output_chunk_count - late_chunks)


def _count_missed(lateness: Iterable[int], ttft_objective: int, itl_objective: int) -> tuple[int, int]:
    """Return how many chunks of one choice came late, and how many deadlines those missed.

    The lateness of a chunk is its arrival less an ITL objective for each token before it (ns). A chunk is late exactly
    if that exceeds the lateness of every chunk before it and the TTFT objective: a late chunk uses up the slack.
    """
    late_chunks = missed = 0
    highest = ttft_objective
    for each in lateness:
        if each > highest:
            late_chunks += 1
            missed += 1 + (each - highest) // itl_objective
            highest = each
    return late_chunks, missed
