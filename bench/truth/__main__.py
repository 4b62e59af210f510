"""`python -m bench.truth`: hold what is measured against what was sent, print it, or write it into a page."""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.overhead import machine
from bench.overhead.subjects import SUBJECTS
from bench.page import replace_section
from bench.truth import tables
from bench.truth.figures import Measured
from bench.truth.scenarios import SCENARIOS, Scenario, warm_up
from bench.truth.trial import measured
from otel_itl.testing import ScriptedServer

REPEATS = 5


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the scenarios, and print the tables."""
    options = _options(arguments)
    scenarios = _chosen(options.only)
    results = _run(scenarios, options.repeats)
    ...


if __name__ == "__main__":
    main()
