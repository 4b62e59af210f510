"""Whether the host, or other threads of the process, decided the figures of a stream: its reader did not run."""

from __future__ import annotations

from math import ceil
from typing import Final

from otel_itl.core.measures import Measures

MIN_DELAY_SECONDS: Final = 0.001
"""A smaller delay per tail gap decides no figure that matters."""
MIN_SHARE_OF_P99: Final = 0.05
"""Likewise a smaller share of the p99."""
TAIL: Final = 0.01
"""The share of the gaps that the p99 depends on."""


def is_host_bound(delay: float | None, measures: Measures) -> bool:
    """Return whether a delay by the host may have decided the p99 of a stream.

    How the delay is spread over the gaps is not known. If all of it were in the slowest hundredth of them, which the
    p99 shows, each of those would hold `delay / max(1, ceil(0.01 * n))`. The stream is host-bound if that is more than
    1 ms and more than 5 % of the p99. Example: 120 ms of delay, 240 gaps, p99 50 ms: 3 gaps of 40 ms each, host-bound.

    Args:
        delay: seconds in which the reader was ready and did not run; None: not known, which is no bound.
        measures: of the stream.
    """
    if delay is None:
        return False
    tail_gaps = max(1, ceil(TAIL * len(measures.itl_samples)))
    return delay / tail_gaps > max(MIN_DELAY_SECONDS, MIN_SHARE_OF_P99 * (measures.itl_p99 or 0.0))


def is_process_bound(delay: float | None, measures: Measures) -> bool:
    """Return whether other threads of the process may have decided the p99 of a stream: its reader waited for the GIL.

    Args:
        delay: seconds that a thread of the process typically waited for its turn; None: not known, which is no bound.
        measures: of the stream.
    """
    return delay is not None and delay > max(MIN_DELAY_SECONDS, MIN_SHARE_OF_P99 * (measures.itl_p99 or 0.0))
