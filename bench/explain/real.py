"""Runs of one and of two streams at a time against llama.cpp's `llama-server`, as observations."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import openai

from bench.real.models import SIZES, write_model
from bench.real.server import serving
from otel_itl.tools.explain.observations import Observation, Observations

LEVELS: Final = (1, 2, 1, 2, 1)
STREAMS: Final = 40
"""Streams of a run."""
TOKENS: Final = 60


def measure_runs(server: str) -> Observations:
    """Read the streams of all runs, one run after the other."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        write_model(SIZES[0], path)
        with (
            serving(server, path, slots=max(LEVELS)) as url,
            openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client,
        ):
            numbers, used = count(), list[Observation]()
            for level in LEVELS:
                with ThreadPoolExecutor(level) as threads:
                    used += threads.map(partial(_read, client), [next(numbers) for _ in range(STREAMS)])
    return Observations(used=used, instances={"one"})


def _read(client: Any, number: int) -> Observation:
    """Read one stream, by the clock of this process."""
    start_ns, start = time.time_ns(), time.perf_counter()
    stream = client.chat.completions.create(
        model="model",
        messages=[{"role": "user", "content": f"w{number} w1 w2"}],
        max_tokens=TOKENS,
        temperature=0.0,
        stream=True,
        extra_body={"ignore_eos": True, "cache_prompt": False},
    )
    came = [time.perf_counter() - start for chunk in stream if chunk.choices and chunk.choices[0].delta.content]
    return Observation(
        model="llama.cpp / model",
        session=f"{number}",
        start_ns=start_ns,
        duration=came[-1],
        tokens=len(came),
        ttft=came[0],
        itl=_mean_gap(came),
    )


def _mean_gap(came: Sequence[float]) -> float:
    """Return the mean time between neighbours."""
    gaps = [after - before for before, after in pairwise(came)]
    return sum(gaps) / len(gaps)
