"""Draws the pictures of docs/view.md from a run of the demo: `python docs/draw_view.py`, with Chromium and selenium."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "tools" / "view"))

from browsers import Browser, missing_browser, opened_browser  # noqa: E402 - after the path

IMAGES = ROOT / "docs" / "images"
STALLED = "return itl.shown.some((stream) => stream.end === undefined && stream.stalls?.some((stall) => stall.open))"
OLD_ENOUGH = "return itl.streams.byId.size > 28"


def draw(folder: Path) -> None:
    """Run the demo with its page, and draw it while a stream is stalled, and at its end."""
    file = folder / "demo.jsonl"
    command = [
        sys.executable,
        "-m",
        "otel_itl",
        "demo",
        "--view",
        "--no-open",
        "--seconds",
        "24",
        "--output",
        str(file),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as demo:  # noqa: S603 - ourselves
        url = next(found[0] for line in demo.stderr or () if (found := re.search(r"http://\S+", line)))
        with opened_browser() as browser:
            browser.resize(1280, 800)
            browser.open(f"{url}#theme=dark")
            browser.wait(OLD_ENOUGH, 90)
            browser.run("itl.lanes.isFollowing = true")
            browser.wait(STALLED, 60)
            time.sleep(0.1)
            save(browser, "view-live.png")
            demo.wait(90)
    page = folder / "demo.html"
    subprocess.run([sys.executable, "-m", "otel_itl", "report", "--html", str(page), str(file)], check=True)  # noqa: S603 - ourselves
    with opened_browser() as browser:
        for name, size, hash_ in (
            ("view-overview.png", (1280, 1640), "theme=light"),
            ("view-phone.png", (390, 844), "theme=dark"),
        ):
            browser.resize(*size)
            browser.open(f"{page.as_uri()}#{hash_}")
            browser.wait("return itl.frames > 40 && !itl.aggregate.waiting.length")
            save(browser, name)
        browser.resize(1280, 800)
        browser.open(f"{page.as_uri()}#theme=dark")
        chosen = "const stream = itl.streams.all().find((one) => one.stalls?.length); itl.view.set({stream: stream.id})"
        browser.run(chosen)
        browser.run("itl.lanes.reveal(itl.detail.stream ?? itl.streams.byId.get(itl.view.get('stream')))")
        browser.wait("return itl.frames > 40")
        save(browser, "view-stream.png")


def save(browser: Browser, name: str) -> None:
    """Save what the page shows as a picture."""
    IMAGES.mkdir(exist_ok=True)
    browser.driver.save_screenshot(str(IMAGES / name))


if __name__ == "__main__":
    reason = missing_browser()
    if reason is not None:
        sys.exit(f"docs/draw_view.py: {reason}")
    with TemporaryDirectory() as made:
        draw(Path(made))
