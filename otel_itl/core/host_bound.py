"""Whether the host decided the figures of a stream: its reader was ready, and got no CPU."""

from __future__ import annotations

from typing import Final

from otel_itl.core.measures import DECIDED_SHARE, Measures

MIN_DELAY_SECONDS: Final = 0.001
"""An uncertainty that is smaller decides no figure that matters."""


def find_host_part(delay: float | None, measures: Measures, figure: str) -> float:
    """Return how much of the distance between a figure's bounds is due to the host (s); 0.0 where that is not known.

    That is what is uncertain because chunks are late, and not because of the caller's holds, as far as the host delayed
    the reader at all: what is beyond that, its event loop or its process did.

    Args:
        delay: seconds in which the reader was ready and did not run; None: not known.
        measures: of the stream.
        figure: a field of `Measures` that is a time.
    """
    bounds = measures.bounds.get(figure)
    return 0.0 if bounds is None or delay is None else min(bounds.width * measures.late_share, delay)


def is_host_bound(delay: float | None, measures: Measures) -> bool:
    """Return whether the host may have decided the p99 or the TTFT of a stream: more than 1 ms and a tenth of either.

    Arguments are those of `find_host_part`.
    """
    return any(
        find_host_part(delay, measures, figure) > max(MIN_DELAY_SECONDS, DECIDED_SHARE * (value or 0.0))
        for figure, value in (("itl_p99", measures.itl_p99), ("time_to_first_token", measures.time_to_first_token))
    )
