"""The percentile of ordered values, by the one method that every figure of ours uses."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(ordered: Sequence[float], q: float) -> float:
    """Compute the `q`-th percentile (0 to 100) of ascending values, by linear interpolation between closest ranks.

    Equal to `numpy.percentile(values, q)` to the last bit; vLLM, SGLang and AIPerf use that method as well.

    Raises:
        ValueError: no values, or `q` outside 0 to 100.
    """
    if not ordered or not 0 <= q <= 100:  # noqa: PLR2004 - percent
        message = f"percentile needs at least one value and a q from 0 to 100: got {len(ordered)} values and q={q}."
        raise ValueError(message)
    rank = (len(ordered) - 1) * (q / 100)
    below = int(rank)
    low = ordered[below]
    fraction = rank - below
    if not fraction:
        return low
    high = ordered[below + 1]
    difference = high - low
    if fraction < 0.5:  # noqa: PLR2004 - as numpy does, so that the result is monotonic in q
        return low + difference * fraction
    return high - difference * (1 - fraction)
