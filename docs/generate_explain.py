"""Renew the example of docs/explain.md and its picture: `python docs/generate_explain.py`, with Chromium and selenium.

Four weeks of a fleet are simulated, with drivers that are known, written as telemetry, and explained by the command.
"""  # noqa: INP001 - a script, no package

from __future__ import annotations

import io
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "view")]

from browsers import opened_browser  # noqa: E402 - as above

from bench.explain.fleets import Fleet, simulate  # noqa: E402 - found only now
from otel_itl.cli import main as run_command  # noqa: E402 - as above
from otel_itl.explain.findings import Driver, Target  # noqa: E402 - as above
from tests.explain.fleet_files import write_streams  # noqa: E402 - as above

PAGE = ROOT / "docs" / "explain.md"
PICTURE = ROOT / "docs" / "images" / "explain.png"
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
)
"""Sizes in the units of their effects: 1.6 ms a token for 1,000 prompt tokens, 4 s after a silence, 40 % at 9-11 h."""
SEED = 2
INSTANCES = 12


def main() -> None:
    """Simulate, explain, write and draw."""
    with TemporaryDirectory() as folder:
        file, html = Path(folder) / "fleet.jsonl", Path(folder) / "fleet.html"
        write_streams(file, simulate(FLEET, np.random.default_rng(SEED)).used, INSTANCES)
        printed = io.StringIO()
        with redirect_stdout(printed):
            run_command(["report", "--explain", str(file)])
        run_command(["report", "--explain", "--html", str(html), str(file)])
        draw(html)
    text = "$ otel-itl report --explain fleet.jsonl\n" + printed.getvalue().rstrip()
    PAGE.write_text(EXAMPLE.sub(lambda found: found[1] + text + found[2], PAGE.read_text()))


def draw(html: Path) -> None:
    """Save the panel of the page as a picture."""
    with opened_browser() as browser:
        browser.resize(1280, 1100)
        browser.open(f"{html.as_uri()}#theme=light")
        browser.wait("return itl.frames > 40 && !itl.aggregate.waiting.length && !itl.needsRefresh")
        browser.run("document.querySelector('.bar').style.position = 'static'")
        browser.driver.find_element("id", "explain").screenshot(str(PICTURE))


if __name__ == "__main__":
    main()
