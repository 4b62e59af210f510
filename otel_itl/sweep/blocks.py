"""Cuts the steady parts of a level's rounds into blocks of time, which are resampled as a whole.

Requests that are open at the same time share queues and batches, so that neighbours in time are alike: taken as
independent, they would make every interval too narrow. Whole rounds would be the safest unit, but two or three of them
know nothing of their own spread. A block is at least twice as long as a request, where the round has room for two of
that length: then it shares its requests with its two neighbours alone. Blocks of all rounds of a level are drawn
together, so that differences between rounds widen the interval as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from otel_itl.sweep.attempts import Attempt, Round

MIN_BLOCKS = 2
"""Blocks of a round, however short it is."""
MAX_BLOCKS = 10
_REQUESTS_LONG = 2.0
"""Length of a block in durations of a request."""


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of the steady part of a round."""

    seconds: float
    due: list[Attempt] = field(default_factory=list)
    """Steady attempts that were due in it."""
    ended: list[Attempt] = field(default_factory=list)
    """Attempts of its round that ended in it, whenever they were due."""
    open: list[tuple[Attempt, float]] = field(default_factory=list)
    """Attempts of its round that received tokens in it, each with the share of that time that lies in the block."""


def split_into_blocks(rounds: Iterable[Round], attempts: Sequence[Attempt]) -> list[Block]:
    """Return the blocks of the steady parts of rounds.

    Args:
        rounds: that count, of one level.
        attempts: all of the sweep; warm-up attempts end in the steady part as well.
    """
    return [block for one in rounds for block in _split(one, attempts)]


def _split(one: Round, attempts: Sequence[Attempt]) -> list[Block]:
    """Return the blocks of one round."""
    seconds = one.steady_until - one.steady_from
    own = [attempt for attempt in attempts if (attempt.level, attempt.round) == (one.level, one.round)]
    due = [attempt for attempt in own if attempt.is_steady]
    count = _count_blocks(seconds, due)
    length = seconds / count
    blocks = [Block(length) for _ in range(count)]
    for attempt in due:
        index = int((attempt.scheduled - one.steady_from) / length)
        blocks[min(max(index, 0), count - 1)].due.append(attempt)
    for attempt in own:
        if attempt.ended is None or attempt.ended < one.steady_from:
            continue
        if attempt.ended < one.steady_until:
            index = int((attempt.ended - one.steady_from) / length)
            blocks[min(index, count - 1)].ended.append(attempt)
        _add_open(blocks, attempt, one.steady_from)
    return blocks


def _count_blocks(seconds: float, due: Sequence[Attempt]) -> int:
    """Return the number of blocks of a round: of at least two requests' durations each, where there is room."""
    durations = [
        attempt.ended - attempt.sent for attempt in due if attempt.ended is not None and attempt.sent is not None
    ]
    shortest = _REQUESTS_LONG * median(durations) if durations else seconds
    return min(max(int(seconds / shortest) if shortest > 0 else MAX_BLOCKS, MIN_BLOCKS), MAX_BLOCKS)


def _add_open(blocks: Sequence[Block], attempt: Attempt, start: float) -> None:
    """Add an attempt that received tokens to the blocks in which it did.

    Args:
        blocks: of one round, of equal length.
        attempt: that ended.
        start: when the first block begins, in seconds since the sweep began.
    """
    first = attempt.time_to_first_token
    if first is None or attempt.ended is None:
        return
    began = attempt.scheduled + first
    received = max(attempt.ended - began, 1e-9)
    length = blocks[0].seconds
    for index in range(max(int((began - start) / length), 0), len(blocks)):
        since = start + index * length
        share = (min(attempt.ended, since + length) - max(began, since)) / received
        if share <= 0:
            break
        blocks[index].open.append((attempt, share))
