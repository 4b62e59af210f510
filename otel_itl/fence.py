"""The fence around our own code: a failure of ours is counted and logged once, and never reaches the application."""

from __future__ import annotations

import logging
from collections import Counter
from traceback import extract_tb

logger = logging.getLogger("otel_itl")

failures: Counter[str] = Counter()
"""How many failures were contained, by where they happened."""


def contained(where: str, error: BaseException) -> None:
    """Count a failure of ours and log the first of its kind.

    The text of the exception stays out of the log: it may quote what the user wrote.
    """
    failures[where] += 1
    if failures[where] > 1:
        return
    frames = extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"
    logger.warning(
        "otel_itl failed in %s (%s at %s): the stream goes on, this measurement may be incomplete. Logged once.",
        where,
        type(error).__qualname__,
        place,
    )
