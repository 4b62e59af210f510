"""Reads the server's own Prometheus metrics while a round runs: its latencies, its queue and its cache.

A histogram is the difference between two readings in the steady part of a round, so that the server's figures are of
about the same requests as those of the sweep. Gauges are read about once a second.
"""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from math import inf
from typing import Any, Final, NamedTuple

from otel_itl.tools.command_error import CommandError

READ_SECONDS: Final = 1.0
"""Between two readings."""
_TIMEOUT: Final = 5.0
_MAX_BYTES: Final = 16 * 1024 * 1024
HISTOGRAMS: Final = {
    "ttft": ("vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds"),
    "itl": (
        *("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
        *("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
    ),
    "queue": ("vllm:request_queue_time_seconds", "sglang:queue_time_seconds"),
}
"""Quantity → the names that servers give it: the newest first, as a server may have both."""
GAUGES: Final = {
    "running": ("vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing"),
    "waiting": ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred"),
    "cache": (
        *("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        *("sglang:token_usage", "llamacpp:kv_cache_usage_ratio"),
    ),
}
_QUANTITY_OF: Final = {
    name: quantity for table in (HISTOGRAMS, GAUGES) for quantity, names in table.items() for name in names
}
_LINES: Final = re.compile(
    rb"^(?:%s)(?:_bucket)?[{ ][^\n]*$" % b"|".join(re.escape(name.encode()) for name in _QUANTITY_OF), re.MULTILINE
)
_HTTP_SCHEMES: Final = ("http://", "https://")


class Reading(NamedTuple):
    """What the server has shown at a moment."""

    moment: float
    """On the clock of the sweep, when the answer was there."""
    lines: Sequence[bytes]
    """Its samples that are of interest, in Prometheus' text format."""


@dataclass(slots=True)
class ServerFigures:
    """What a server has measured of a level. Times are seconds; None: it does not show it."""

    percentiles: dict[str, float | None] = field(default_factory=dict)
    """`ttft_p50`, `ttft_p99`, … → by the buckets of the server; infinite, where it falls beyond the last one."""
    means: dict[str, float | None] = field(default_factory=dict)
    """Gauge → its mean; the cache's is a share."""
    largest: dict[str, float | None] = field(default_factory=dict)
    """Gauge → the largest reading."""
    readings: int = 0

    @property
    def is_empty(self) -> bool:
        """None of the quantities was found."""
        return all(value is None for value in (*self.percentiles.values(), *self.means.values()))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow none: nothing is sent to any other address than the one that was given."""


class MetricsReader:
    """Reads the metrics of a server, in a thread, so that no stream waits for it.

    Args:
        url: of the metrics, such as http://localhost:8000/metrics.

    Raises:
        CommandError: it is no URL, or what parses the metrics is not installed.
    """

    def __init__(self, url: str) -> None:
        if not url.startswith(_HTTP_SCHEMES):
            raise CommandError(
                f"--server-metrics {url} is not accepted: it takes a URL, as http://localhost:8000/metrics."
            )
        _load_parser()
        self._url = url
        self._opener = urllib.request.build_opener(_NoRedirect)
        self.problem: str | None = None
        """Why the last reading that failed did, in one clause; None: none has failed."""

    async def watch(self, readings: list[Reading]) -> None:
        """Add readings to a list, until the task is cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            try:
                text = await asyncio.to_thread(self._fetch)
            except Exception as error:  # noqa: BLE001 - whatever it is, the sweep goes on without
                self.problem = f"{type(error).__name__}: {error}"
            else:
                readings.append(Reading(clock(), _LINES.findall(text)))
            await asyncio.sleep(READ_SECONDS)

    def _fetch(self) -> bytes:
        """Return the metrics as text."""
        with self._opener.open(self._url, timeout=_TIMEOUT) as response:
            content: bytes = response.read(_MAX_BYTES)
            return content


def summarize(rounds: Iterable[Sequence[Reading]], model: str, tail: float) -> ServerFigures:
    """Return what a server has measured in some rounds.

    Args:
        rounds: for each the readings in its steady part.
        model: only samples with this `model_name` count, where there is one.
        tail: the percentile that is computed beside the median.
    """
    gauges: dict[str, list[float]] = defaultdict(list)
    buckets: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    figures = ServerFigures()
    for readings in rounds:
        parsed = [_parse(reading.lines, model) for reading in readings]
        figures.readings += len(parsed)
        for one in parsed:
            for quantity in GAUGES.keys() & one.keys():
                # The cache of the fullest engine, and the requests of all.
                gauges[quantity].append((max if quantity == "cache" else sum)(one[quantity].values()))
        for quantity in HISTOGRAMS.keys() & parsed[0].keys() & parsed[-1].keys() if parsed else ():
            first, last = parsed[0][quantity], parsed[-1][quantity]
            grown = {bound: count - first.get(bound, 0.0) for bound, count in last.items()}
            if min(grown.values()) >= 0:  # else the server began anew
                for bound, count in grown.items():
                    buckets[quantity][bound] += count
    for quantity in HISTOGRAMS:
        for q in (50.0, tail):
            figures.percentiles[f"{quantity}_p{q:g}"] = _find_percentile(buckets[quantity], q)
    for quantity in GAUGES:
        values = gauges[quantity]
        figures.means[quantity] = sum(values) / len(values) if values else None
        figures.largest[quantity] = max(values, default=None)
    return figures


def _parse(lines: Sequence[bytes], model: str) -> dict[str, dict[Any, float]]:
    """Return the samples by quantity: of a histogram its counts by upper bound, of a gauge its values by labels."""
    samples = []
    for line in lines:
        with suppress(ValueError):  # one sample that is no number spoils no other
            for family in _load_parser()(line.decode("utf-8", "replace")):
                samples.extend(family.samples)
    found: dict[str, dict[Any, float]] = {}
    for names in (*HISTOGRAMS.values(), *GAUGES.values()):
        name = next((one for one in names if any(_name_of(sample) == one for sample in samples)), None)
        if name is None:
            continue
        named = [sample for sample in samples if _name_of(sample) == name]
        of_model = [sample for sample in named if sample.labels.get("model_name") == model]
        values: dict[Any, float] = defaultdict(float)
        for number, sample in enumerate(of_model or named):
            values[float(sample.labels["le"]) if "le" in sample.labels else number] += sample.value
        found[_QUANTITY_OF[name]] = values
    return found


def _name_of(sample: Any) -> str:
    return str(sample.name).removesuffix("_bucket")


def _find_percentile(counts: Mapping[float, float], q: float) -> float | None:
    """Return a percentile of a histogram, evenly within its bucket, as Prometheus' `histogram_quantile` does.

    Args:
        counts: upper bound → how many are at most that.
        q: the percentile.

    Returns:
        None: nothing was counted; infinity: it lies beyond the last bound.
    """
    bounds = sorted(counts)
    ordered = [counts[bound] for bound in bounds]
    if not ordered or ordered[-1] <= 0:
        return None
    rank = ordered[-1] * q / 100
    number = next(number for number, count in enumerate(ordered) if count >= rank)
    if bounds[number] == inf:
        return inf
    low, below = (bounds[number - 1], ordered[number - 1]) if number else (0.0, 0.0)
    return low + (bounds[number] - low) * (rank - below) / (ordered[number] - below)


def _load_parser() -> Any:
    """Return what parses Prometheus' text format.

    Raises:
        CommandError: it is not installed.
    """
    try:
        return import_module("prometheus_client.parser").text_string_to_metric_families
    except ImportError as error:
        raise CommandError("prometheus_client is not installed: pip install 'otel-itl[sweep]'.") from error
