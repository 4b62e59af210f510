"""How many requests an answer about an objective takes. Imported with the command line: without other packages."""

from __future__ import annotations

import math
from typing import Final

TAIL: Final = 0.025
"""Probability beyond each end of an interval."""


def least_requests(allowed: float) -> int:
    """Return with how many requests at least it can be known that no more than a share of them are over the objective.

    Of fewer, all may be in time by chance. The number holds for gaps, too, although a request has many: requests that
    are slow from end to end could all be missing.
    """
    return math.ceil(math.log(TAIL) / math.log1p(-allowed)) if 0 < allowed < 1 else 1
