"""How long an endpoint asks its clients to wait: the response headers `Retry-After` and `retry-after-ms`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from math import isfinite


def read_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds to wait; None: the headers ask for none, or are malformed.

    Args:
        headers: headers of a response; names in lower case, or found in any case.
        now: Unix time in seconds, for `Retry-After` as a date.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(TypeError, ValueError):
            seconds = float(headers.get(name, "")) * unit
            if isfinite(seconds):
                return max(seconds, 0.0)
    with suppress(TypeError, ValueError, OverflowError):
        return max(parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now, 0.0)
    return None
