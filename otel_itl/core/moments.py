"""Parses and formats points in time."""

from __future__ import annotations

from datetime import datetime, timezone

from otel_itl.core.timeline import SECOND


def parse_time(text: str) -> int:
    """Parse a time in ISO 8601, or in Unix seconds, to Unix nanoseconds; without a zone it is local time.

    Raises:
        ValueError: it is neither.
    """
    try:
        return round(float(text) * SECOND)
    except ValueError:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(moment.astimezone(timezone.utc).timestamp() * SECOND)


def format_time(unix_ns: int) -> str:
    """Format a Unix time as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(unix_ns // SECOND, timezone.utc).isoformat().replace("+00:00", "Z")
