"""`python -m bench.view`: the first picture, panning and live streams, each against its limit.

Needs Chromium, its driver and selenium. Ends with 1 where a limit is not kept.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "tools" / "view"))

from browsers import Browser, missing_browser, opened_browser, wait_for
from made import document_of, make_stream, make_timeline

from otel_itl.tools.view.server.serve import ServerOptions, ViewServer

STORED = 10_000
LANES, CHUNKS = 200, 1_000
RATE, SECONDS = 300, 10
FRAMES = 120
PAN = """
const done = arguments[0];
itl.view.set({dense: "1", axis: "request"});
itl.lanes.isFollowing = false;
itl.lanes.window.set(0, 22e6);
const times = [];
let last = performance.now();
const step = (count) => {
  const begin = performance.now();
  itl.lanes.window.pan(count % 2 ? 0.011 : -0.01);
  itl.lanes.draw();
  const drawn = performance.now() - begin;
  requestAnimationFrame(() => {
    times.push([drawn, performance.now() - last]);
    last = performance.now();
    if (count) step(count - 1); else done(times.slice(10));
  });
};
step(FRAMES);
"""


class Figure(NamedTuple):
    """One measured figure, and the limit that it has to keep."""

    name: str
    value: float
    limit: float
    unit: str

    @property
    def is_kept(self) -> bool:
        """Whether the limit is kept."""
        return self.value <= self.limit


def measure(folder: Path) -> Iterator[Figure]:
    """Yield the figures, one measurement after the other."""
    with opened_browser() as browser:
        yield measure_first_picture(browser, folder)
        yield from measure_panning(browser, folder)
    with opened_browser() as browser:
        yield measure_live(browser)


def measure_first_picture(browser: Browser, folder: Path) -> Figure:
    """Measure the time from the navigation to the first drawn lanes, with all streams in the server."""
    path = folder / "stored.jsonl"
    with path.open("w") as file:
        for number in range(STORED):
            file.write(json.dumps(document_of(make_stream(make_timeline([20.0] * 60, start_ms=number * 10)))) + "\n")
    with served(sources=(str(path),), keep=STORED) as server:
        wait_for(lambda: not server.describe()["status"].startswith("reading"), 300, "the end of the file")
        browser.driver.get("about:blank")
        browser.driver.get(server.url)
        script = (
            "if (window.itl && itl.lanes.rows.length && !itl.drawn) itl.drawn = performance.now(); return itl?.drawn"
        )
        first = browser.wait(f"try {{ {script} }} catch {{ return 0 }}", 30)
        browser.wait(f"return itl.streams.byId.size === {STORED}", 60)
    return Figure(f"first picture of {STORED:,} stored streams", first / 1_000, 1.0, "s")


def measure_panning(browser: Browser, folder: Path) -> Iterator[Figure]:
    """Measure the frames while 200 lanes of 1,000 chunks are panned."""
    path = folder / "lanes.jsonl"
    with path.open("w") as file:
        for _ in range(LANES):
            file.write(json.dumps(document_of(make_stream(make_timeline([20.0] * (CHUNKS - 1))))) + "\n")
    with served(sources=(str(path),)) as server:
        browser.resize(1280, 2_200)
        browser.open(server.url)
        browser.wait(f"return itl.streams.byId.size === {LANES} && !itl.aggregate.waiting.length", 30)
        times = browser.driver.execute_async_script(PAN.replace("FRAMES", str(FRAMES)))
    drawing = sorted(drawn for drawn, _ in times)
    yield Figure(f"drawing {LANES} lanes of {CHUNKS:,} chunks, median", drawing[len(drawing) // 2], 1_000 / 60, "ms")
    frames = sorted(frame for _, frame in times)
    yield Figure("frame while panning them, median", frames[len(frames) // 2], 1_000 / 60 * 1.1, "ms")


def measure_live(browser: Browser) -> Figure:
    """Measure how late the last of many streams is on the page, which arrive at a constant rate."""
    timeline = make_timeline([20.0] * 100)
    with served() as server, ThreadPoolExecutor(4) as senders:
        browser.resize(1280, 900)
        browser.open(server.url)
        begun = time.monotonic()
        for batch in range(SECONDS * 10):
            spans = [make_stream(timeline, model=f"m{batch % 7}") for _ in range(RATE // 10)]
            senders.submit(send, server, document_of(*spans))
            time.sleep(max(begun + (batch + 1) / 10 - time.monotonic(), 0))
        senders.shutdown()
        ended = time.monotonic()
        count = RATE * SECONDS
        wait_for(lambda: browser.run("return itl.streams.byId.size") >= count, 60, f"{count} streams on the page")
        return Figure(f"{RATE} streams/s for {SECONDS} s: the last one late by", time.monotonic() - ended, 1.0, "s")


def send(server: ViewServer, document: dict[str, Any]) -> None:
    """Send one OTLP JSON request."""
    body = json.dumps(document).encode()
    request = Request(f"{server.url}v1/traces", body, {"Content-Type": "application/json"})  # noqa: S310 - our server
    with urlopen(request, timeout=30) as response:  # noqa: S310 - likewise
        response.read()


class served:  # noqa: N801 - used as a function
    """A running server for a `with` block, on free ports.

    Args:
        options: of the server.
    """

    def __init__(self, **options: Any) -> None:
        self._server = ViewServer(ServerOptions(**{"port": 0, "grpc_port": None, **options}))

    def __enter__(self) -> ViewServer:
        self._server.start()
        return self._server

    def __exit__(self, *_: object) -> None:
        self._server.stop()


def main() -> int:
    """Measure, print each figure, and return the exit code."""
    reason = missing_browser()
    if reason is not None:
        print(f"python -m bench.view: {reason}", file=sys.stderr)
        return 2
    with TemporaryDirectory() as folder:
        figures = []
        for figure in measure(Path(folder)):
            figures.append(figure)
            state = "" if figure.is_kept else "  NOT KEPT"
            print(f"{figure.name}: {figure.value:.2f} {figure.unit} (limit {figure.limit:.2f} {figure.unit}){state}")
    return 0 if all(figure.is_kept for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
