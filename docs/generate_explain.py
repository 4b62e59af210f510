"""Renew the example of docs/explain.md: `python docs/generate_explain.py`.

Four weeks of a fleet are simulated, with drivers that are known, written as telemetry, and explained by the command.
"""  # noqa: INP001 - a script, no package

from __future__ import annotations

import io
import re
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from bench.explain.fleets import Fleet, simulate  # noqa: E402 - found only now

from otel_itl.cli import main as run_command  # noqa: E402 - as above
from otel_itl.explain.findings import Driver, Target  # noqa: E402 - as above
from tests.explain.fleet_files import write_streams  # noqa: E402 - as above

PAGE = ROOT / "docs" / "explain.md"
EXAMPLE = re.compile(r"(<!-- explain:begin -->\n```text\n).*?(\n```\n<!-- explain:end -->)", re.DOTALL)
FLEET = Fleet(
    name="example",
    planted={
        (Driver.PROMPT, Target.ITL): 0.0016,
        (Driver.IDLE, Target.TTFT): 4.0,
        (Driver.CALENDAR, Target.ITL): 0.4,
        (Driver.RESPONSE_MODEL, Target.ITL): 0.5,
        (Driver.OWN_LOAD, Target.ITL): 0.002,
        (Driver.OWN_LOAD, Target.TTFT): 0.05,
    },
    bursts=200,
    weekdays=(0, 1, 2, 3, 4),
)
"""Sizes in the units of their effects: 1.6 ms a token for 1,000 prompt tokens, 4 s after a silence, 40 % at 9-11 h."""
SEED = 7
INSTANCES = 12


def main() -> None:
    """Simulate, explain and write."""
    with tempfile.TemporaryDirectory() as folder:
        streams = simulate(FLEET, np.random.default_rng(SEED)).used
        path = write_streams(Path(folder) / "fleet.jsonl", streams, INSTANCES)
        printed = io.StringIO()
        with redirect_stdout(printed):
            run_command(["report", "--explain", str(path)])
        if len(sys.argv) > 1:
            run_command(["report", "--explain", "--html", sys.argv[1], str(path)])
    text = "$ otel-itl report --explain fleet.jsonl\n" + printed.getvalue().rstrip()
    PAGE.write_text(EXAMPLE.sub(lambda found: found[1] + text + found[2], PAGE.read_text()))


if __name__ == "__main__":
    main()
