"""Renew the example of docs/explain.md and its picture: `python docs/generate_explain.py`.

The fleet of `bench/explain/example.py` is written as telemetry, and explained by the command. This needs the extras
`cli`, `explain` and `view`, and for the picture selenium with a Chromium and its driver. The text alone needs no
browser: `python -m bench.explain --example fleet.jsonl`, then `otel-itl report --explain fleet.jsonl`.
"""  # noqa: INP001 - a script, no package

from __future__ import annotations

import io
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "tools" / "view")]

from browsers import opened_browser  # noqa: E402 - as above

from bench.explain.example import write_example  # noqa: E402 - found only now
from otel_itl.cli import main as run_command  # noqa: E402 - as above

PAGE = ROOT / "docs" / "explain.md"
PICTURE = ROOT / "docs" / "images" / "explain.png"
EXAMPLE = re.compile(r"(<!-- explain:begin -->\n```text\n).*?(\n```\n<!-- explain:end -->)", re.DOTALL)


def main() -> None:
    """Simulate, explain, write and draw."""
    with TemporaryDirectory() as folder:
        file, html = Path(folder) / "fleet.jsonl", Path(folder) / "fleet.html"
        write_example(file)
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
