"""Describes a series of runs for apache-otava, which finds the run from which on a figure has changed."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Final

import numpy as np

from otel_itl.core.moments import format_time
from otel_itl.tools.compare.quantities import QUANTITIES, Quantity, Unit
from otel_itl.tools.compare.requests import Request, Side

_PER_UNIT: Final = {Unit.SECONDS: 1_000.0, Unit.SHARE: 100.0, Unit.PER_THOUSAND_TOKENS: 1.0}
"""Seconds are written as milliseconds, shares as percent."""


CONFIGURATION_MARK: Final = "# Made by otel-itl compare --otava."
"""The first line of a configuration, which may be replaced by another one."""


def make_series(runs: Sequence[Side], path: Path) -> tuple[str, str]:
    """Make the two files that `otava analyze streams` reads.

    Args:
        runs: in order of time.
        path: where the table will be.

    Returns:
        The table in CSV, with a row for each run and a column for each figure of each model, and the configuration in
        YAML, which names the file of the table.
    """
    models = sorted({request.model for side in runs for request in side.requests})
    columns = {
        f"{_slug(model)}.{quantity.key}": (model, quantity)
        for model in models
        for quantity in QUANTITIES
        if not quantity.needs_objective
    }
    file = StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["time", "run", *columns])
    for side in runs:
        figures = [_figure(side.requests, model, quantity) for model, quantity in columns.values()]
        writer.writerow([format_time(side.first_unix_ns), side.name, *figures])
    return file.getvalue(), _configuration(path, columns)


def _figure(requests: Sequence[Request], model: str, quantity: Quantity) -> str:
    """Return a figure of one run as text; empty where the run has no sample."""
    of_model = [[request] for request in requests if request.model == model]
    if not of_model:
        return ""
    value = quantity.level(of_model, None).shown(np.ones(len(of_model))) * _PER_UNIT[quantity.unit]
    return f"{value:.6g}" if np.isfinite(value) else ""


def _slug(model: str) -> str:
    """Return a model's name for a column: letters, digits, points, hyphens and underscores."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in model.replace(" / ", "."))


def _configuration(path: Path, columns: dict[str, tuple[str, Quantity]]) -> str:
    """Return otava's configuration in YAML; a higher value is worse for all figures."""
    metrics = "".join(f"      {name}:\n        column: {name}\n        direction: -1\n" for name in columns)
    return (
        f"{CONFIGURATION_MARK}\n"
        "tests:\n"
        "  streams:\n"
        "    type: csv\n"
        f"    file: {str(path.resolve())!r}\n"
        "    time_column: time\n"
        "    attributes: [run]\n"
        f"    metrics:\n{metrics}"
    )
