"""A sweep of llama.cpp's `llama-server` with a model of random weights: the knee lies where its slots end."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.real.models import SIZES, write_model
from bench.real.server import find_version, serving
from bench.sweep.cells import milliseconds
from bench.sweep.drive import Manner, drive
from bench.sweep.simulate import Design
from bench.truth.tables import table
from otel_itl.core.slo import SLO
from otel_itl.tools.sweep.knee import SweepResult, analyze
from otel_itl.tools.sweep.prompts import Prompt

KEYS: Final = ("ttft_p50", "ttft_p90", "itl_p50", "itl_p90")
SLOTS: Final = 4
TOKENS: Final = 60
DESIGN: Final = Design(peak=2, levels=(0.5, 1.0, 1.5, 2.0, 3.0, 5.0), warm_up=1.0, steady=15.0)
"""Levels of a closed loop: 1, 2, 3, 4, 6 and 10 callers."""
OBJECTIVE: Final = SLO(ttft=0.2, itl=0.1, target=0.9)
PROMPT: Final = Prompt(
    [{"role": "user", "content": "w0 w1 w2"}],
    TOKENS,
    {
        "temperature": 0.0,
        "extra_body": {"ignore_eos": True, "cache_prompt": False},
    },
)


def sweep_real(server: str) -> SweepResult:
    """Sweep a `llama-server` with four slots, given its path, by callers who ask again when they are answered."""
    size = next(size for size in SIZES if size.name == "slow")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        write_model(size, path)
        with serving(server, path, slots=SLOTS) as url:
            sweep = drive(url, DESIGN, OBJECTIVE, Manner(is_open_loop=False, prompt=PROMPT))
    return analyze(sweep)


def real_text(server: str) -> str:
    """Return the table, with the version of the server."""
    result = sweep_real(server)
    knee = "none" if result.knee is None else f"{result.knee.level * DESIGN.peak:g} streams"
    used = f"`python -m bench.sweep --server PATH`, llama-server {find_version(server)}, `-np {SLOTS}`"
    return f"{used}, {TOKENS} tokens an answer. Knee: {knee}.\n\n{levels_table(result)}"


def levels_table(result: SweepResult) -> str:
    """Return a table with a row for each level."""
    header = ["streams asked for", "streams open", "TTFT p50", "TTFT p90", "ITL p50", "ITL p90", "tokens/s", "standing"]
    rows = []
    for level in result.levels:
        standing = level.void_reason or "-" if level.standing is None else level.standing.value
        values = {key: figure.value for key, figure in level.figures.items()}
        times = [milliseconds(values.get(key)) for key in KEYS]
        tokens = values.get("tokens")
        first = [f"{level.level * DESIGN.peak:g}", f"{level.concurrency:.1f}"]
        rows.append([*first, *times, "-" if tokens is None else f"{tokens:.0f}", standing])
    return table(header, rows)
