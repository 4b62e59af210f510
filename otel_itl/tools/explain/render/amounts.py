"""Formats sizes with their intervals: one unit for all three numbers, and the digits that the interval warrants."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from typing import Final, NamedTuple

from otel_itl.core.timeline import SECOND
from otel_itl.tools.explain.findings import Effect, Unit, Window

DASH: Final = "\N{EN DASH}"
"""Dash of a range of hours."""

_MAX_DECIMALS = 4
_SECONDS_FROM = 1.0
_MINUTE, _HOUR, _DAY_HOURS = 60, 3_600, 24
_MINUTES_FROM, _HOURS_FROM = 2 * _MINUTE, 2 * _HOUR
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MIN_RUN = 3
"""Weekdays in a row that are named by the first and the last."""


class Amount(NamedTuple):
    """A size without its sign, and its interval, as text."""

    size: str
    """With the unit: `0.8 ms`."""
    interval: str
    """In the same unit: `0.7 to 0.9`."""
    is_negative: bool
    """The latency falls instead of rising."""


def format_amount(effect: Effect) -> Amount:
    """Format an effect in milliseconds, seconds or percent."""
    if effect.unit is Unit.SHARE:
        factor, unit = 100.0, "%"
    else:
        largest = max(abs(effect.estimate), abs(effect.low), abs(effect.high))
        factor, unit = (1.0, "s") if largest >= _SECONDS_FROM else (1_000.0, "ms")
    is_negative = effect.estimate < 0
    sign = -factor if is_negative else factor
    ends = sorted((effect.low * sign, effect.high * sign))
    decimals = _decimals((ends[1] - ends[0]) / 2, effect.estimate * sign)
    low, high = (_format(end, decimals) for end in ends)
    return Amount(f"{_format(effect.estimate * sign, decimals)} {unit}", f"{low} to {high}", is_negative)


def format_share_of_variance(share: float) -> str:
    """Format a share of variance in whole percent: `41 %`, `< 1 %`."""
    percent = round(share * 100)
    return f"{percent} %" if percent else "< 1 %"


def format_silence(seconds: float) -> str:
    """Format a time without streams in the unit that people use for it: `90 seconds`, `10 minutes`, `2 hours`."""
    if seconds >= _HOURS_FROM:
        return f"{seconds / _HOUR:.3g} hours"
    if seconds >= _MINUTES_FROM:
        return f"{seconds / _MINUTE:.3g} minutes"
    return f"{seconds:.3g} second" + ("" if seconds == 1 else "s")


def format_window(window: Window) -> str:
    """Format a window of the week: `Tuesday 9-11 h` (with a dash), `Monday to Friday 9-11 h`, `Every day 9-11 h`."""
    days = _format_weekdays(sorted(window.weekdays))
    if window.first_hour == 0 and window.end_hour == _DAY_HOURS:
        return days
    return f"{days} {window.first_hour}{DASH}{window.end_hour} h"


def format_moment(unix_ns: int) -> str:
    """Format a moment to the minute: `2026-11-03 14:20 UTC`."""
    return datetime.fromtimestamp(unix_ns // SECOND, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def _format_weekdays(days: list[int]) -> str:
    """Name weekdays: all, a run, or each."""
    if len(days) == len(_WEEKDAYS):
        return "Every day"
    if len(days) >= _MIN_RUN and days[-1] - days[0] == len(days) - 1:
        return f"{_WEEKDAYS[days[0]]} to {_WEEKDAYS[days[-1]]}"
    *others, last = (_WEEKDAYS[day] for day in days)
    return f"{', '.join(others)} and {last}" if others else last


def _decimals(half_width: float, estimate: float) -> int:
    """Return the decimals with which half the interval has a digit; without an interval, two digits of the estimate."""
    if half_width > 0:
        decimals = -math.floor(math.log10(half_width))
    else:
        decimals = 1 - math.floor(math.log10(estimate)) if estimate > 0 else 0
    return min(max(decimals, 0), _MAX_DECIMALS)


def _format(number: float, decimals: int) -> str:
    """Format a number without a minus before zero."""
    return f"{round(number, decimals) + 0.0:,.{decimals}f}"
