"""What a sweep prints: of a simulated server whose tokens take longer the more streams share its batch."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Final

from bench.sweep.service import Law
from bench.sweep.simulate import Design, simulate
from otel_itl.core.slo import SLO
from otel_itl.tools.report.render.terminal import open_terminal
from otel_itl.tools.sweep.knee import analyze
from otel_itl.tools.sweep.render.terminal import print_sweep

LAW: Final = Law(step=0.045, free=3, slope=0.006, spread=0.06, prefill=0.04, tokens=(12, 18), slots=64)
DESIGN: Final = Design(peak=3, levels=(1.0, 1.5, 2.0, 3.0), rounds=3, warm_up=2.0, steady=60.0)
OBJECTIVE: Final = SLO(ttft=0.5, itl=0.12)
COLUMNS: Final = 80


def example_text(design: Design = DESIGN) -> str:
    """Return what is printed, as a block of text."""
    sweep = simulate(LAW, design, OBJECTIVE, 1)
    file = StringIO()
    print_sweep(analyze(replace(sweep, request_count=len(sweep.requests))), open_terminal(file, COLUMNS))
    return f"```text\n{file.getvalue().rstrip()}\n```\n"
