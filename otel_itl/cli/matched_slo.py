"""Checks that `--slo` has an objective for any model of the input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from otel_itl.core.slo import Objectives
from otel_itl.tools.command_error import CommandError

_MAX_NAMED: Final = 5
"""Models that a message names."""


class UnmatchedSLOError(CommandError):
    """No model of the input has an objective; the message is one sentence."""


def check_slo(slo: Objectives | None, models: Iterable[str]) -> None:
    """Check that `--slo`, if it is given, has an objective for any of these models.

    Raises:
        UnmatchedSLOError: it does not.
    """
    names = sorted(set(models))
    if slo is None or not names or any(slo.for_model(name) for name in names):
        return
    patterns = ", ".join(pattern for pattern, _ in slo.by_model)
    more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
    raise UnmatchedSLOError(
        f"--slo is for {patterns!r}, which is no model of the input: it has {', '.join(names[:_MAX_NAMED])}{more}."
    )
