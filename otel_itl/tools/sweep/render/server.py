"""The rows of the server's own metrics, and what could not be read of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from otel_itl.tools.compare.quantities import Unit
from otel_itl.tools.report.render.number_format import ABSENT, format_three_digits
from otel_itl.tools.sweep.knee import SweepResult
from otel_itl.tools.sweep.render.words import NEVER, format_value
from otel_itl.tools.sweep.results import LevelResult

_TITLES: Final = {"ttft": "TTFT", "itl": "ITL", "queue": "queue"}
_GAUGES: Final = {"running": "running", "waiting": "waiting", "cache": "cache, %"}


def describe_server(levels: Sequence[LevelResult]) -> Iterator[tuple[str, list[str]]]:
    """Yield the title and the cells of a row for each quantity that the server shows at one of the levels."""
    known = [level.server for level in levels if level.server is not None]
    for key in known[0].percentiles if known else ():
        if any(one.percentiles[key] is not None for one in known):
            name, percentile = key.split("_")
            cells = [None if level.server is None else level.server.percentiles[key] for level in levels]
            yield f"server {_TITLES[name]} {percentile}, ms", [_seconds(value) for value in cells]
    for key, title in _GAUGES.items():
        if any(one.means[key] is not None for one in known):
            scale = 100 if key == "cache" else 1
            means = [None if level.server is None else level.server.means[key] for level in levels]
            yield f"server {title}", [ABSENT if one is None else format_three_digits(scale * one) for one in means]


def note_server(result: SweepResult) -> Iterator[str]:
    """Yield what could not be read of the server's metrics, a sentence."""
    known = [level.server for level in result.levels if level.server is not None]
    if result.sweep.metrics_problem is not None and not any(one.readings for one in known):
        yield f"The server's metrics could not be read: {result.sweep.metrics_problem}."
    elif known and all(one.is_empty for one in known):
        yield "The server's metrics have none of the names of vLLM, SGLang and llama.cpp."
    elif any(value is not None for one in known for value in one.percentiles.values()):
        yield "The server's percentiles are of its histograms: as exact as their buckets."


def _seconds(value: float | None) -> str:
    """Return a latency in ms; one beyond the last bucket is `never`, as it may be of any length."""
    if value is None:
        return ABSENT
    return NEVER if value == float("inf") else format_value(value, Unit.SECONDS)
