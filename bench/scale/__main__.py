"""`python -m bench.scale`: measure the cost of a fleet and the error of its percentiles; print it, or write a page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.page import replace_section
from bench.scale import collectors, merging, tables, telemetry

TOKENS = 500


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, simulate, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="also replace the sections of a page")
    options = parser.parse_args(arguments)
    requests, processes, streams = (64, 20, 2) if options.quick else (2_048, 1_000, 10)
    batches = {form: telemetry.batch(form, 64, TOKENS) for form in telemetry.FORMS}
    spent = collectors.measured(requests, TOKENS)
    by_models = {
        (models, form): telemetry.series(models, native=form == "native")
        for models in (1, 5, 20)
        for form in ("native", "classic")
    }
    sections = {
        "traces": tables.traces_table(batches, spent, TOKENS),
        "metrics": tables.series_table(by_models),
        "merging": tables.merging_table(merging.merged(processes, streams), processes),
    }
    for section, text in sections.items():
        print(text)
        if options.write:
            replace_section(options.write, section, text)
    if not spent:
        print("CPU time is measured only with collector/otelcol-itl, which `make collector` builds.")


if __name__ == "__main__":
    main()
