"""The whole time of a file at a glance: its overview, its order, its axes, and what becomes of them in odd input."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsers import ALL, Browser, missing_browser
from made import REQUESTED, describe, document_of, make_stream, make_timeline, repeat

if TYPE_CHECKING:
    from conftest import Client

PAGE = Path(__file__).parents[3] / "otel_itl" / "tools" / "view" / "page"
needs_browser = pytest.mark.skipif(missing_browser() is not None, reason=missing_browser() or "")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="it needs node")

Save = Callable[..., str]


@needs_browser
def test_a_drag_over_the_overview_shows_that_part_by_time_of_day(browser: Browser, save: Save, tmp_path: Path) -> None:
    browser.open(save(repeat(describe(tmp_path, 20), 40, 30)))
    browser.wait(ALL)
    browser.drag(".overview", (0.5, 0.5), (0.75, 0.5))
    browser.wait("return !itl.lanes.isByRequest && itl.lanes.rows.length > 5 && itl.lanes.rows.length < 20")
    shown = browser.run(
        "const {window: {from, until}, overview: {area, plot, range}} = itl.lanes, all = range.until - range.from;"
        " const share = (moment) => (area.left + (moment - range.from) / all * area.width) / plot.width;"
        " return [share(from), share(until)].map((part) => Math.round(part * 20) / 20)"
    )
    assert shown == [0.5, 0.75]


@needs_browser
def test_a_click_on_the_overview_goes_there(browser: Browser, save: Save, tmp_path: Path) -> None:
    browser.open(save(repeat(describe(tmp_path, 20), 40, 30)))
    browser.wait(ALL)
    browser.drag(".overview", (0.6, 0.5), (0.6, 0.5))
    browser.wait("return !itl.lanes.isByRequest && itl.lanes.rows.length >= 1 && itl.lanes.rows.length <= 3")


@needs_browser
def test_the_longest_gaps_are_on_top_where_they_are_asked_for(browser: Browser, save: Save, tmp_path: Path) -> None:
    gaps = {"a": 30, "b": 900, "c": 60}
    browser.open(save([describe(tmp_path, gap, model=model) for model, gap in gaps.items()]))
    browser.wait(ALL)
    browser.run("document.getElementById('sort').click()")
    browser.wait("return itl.lanes.rows.map(({model}) => model).join() === 'b,c,a' && location.hash === '#sort=gap'")


@needs_browser
def test_what_stalled_is_on_top_of_a_file_by_time_of_day(browser: Browser, save: Save, tmp_path: Path) -> None:
    smooth, stalled = describe(tmp_path, 200), describe(tmp_path, 2_100, model="stalled")
    browser.open(save([stalled, *repeat(smooth, 120, 0.05, since=5)]))
    browser.wait(ALL)
    first = browser.run("return [itl.lanes.isByRequest, itl.lanes.rows[0].model, itl.lanes.rows.length]")
    assert first == [False, "stalled", 121]


@needs_browser
def test_all_of_the_time_fills_the_width(browser: Browser, save: Save, tmp_path: Path) -> None:
    browser.open(save(repeat(describe(tmp_path, 200), 20, 0.1)))
    browser.wait(ALL)
    browser.run("itl.lanes.fit()")
    browser.wait("return !itl.lanes.isFollowing && !itl.isDirty")
    ends = browser.run(
        "const {area, window} = itl.lanes, scale = window.scale(area.left, area.right);"
        " const {from, until} = window.findEnds(itl.shown, false);"
        " return [scale(from) - area.left, area.right - scale(until)].map(Math.round)"
    )
    assert ends == [0, 76]


@needs_browser
def test_one_stream_has_one_figure(browser: Browser, save: Save, tmp_path: Path) -> None:
    browser.open(save([describe(tmp_path, 20)]))
    browser.wait(ALL)
    tiles = browser.run(
        "return ['ttft50', 'ttft99'].map((name) => document.getElementById(`tile-${name}`).textContent)"
    )
    assert tiles == ["~200ms", "–"]  # noqa: RUF001


@needs_browser
def test_streams_of_a_clock_that_is_ahead_are_named(
    browser: Browser, serve: Callable[..., Client], tmp_path: Path
) -> None:
    client, now = serve(), (time.time_ns() - REQUESTED) / 1e6
    for start in (now - 3_000, now + 3_600_000):
        client.send(document_of(make_stream(make_timeline([20] * 9, start_ms=start))))
    browser.open(client.server.url)
    browser.wait("return itl.lanes.note.textContent === '2, 1 of a clock that is ahead: see them since request'")


@needs_browser
@pytest.mark.parametrize("width", [240, 320, 3_840])
def test_no_window_scrolls_sideways(browser: Browser, save: Save, tmp_path: Path, width: int) -> None:
    name = "a-name-that-is-far-too-long/" * 6
    browser.resize(width, 900)
    try:
        browser.open(save([describe(tmp_path, 20, model=name, **{"session.id": name}), describe(tmp_path, 2_500)]))
        browser.wait(ALL)
        assert browser.run("return document.documentElement.scrollWidth - innerWidth") == 0
    finally:
        browser.resize(1280, 900)


SLOW = """
let clock = performance.now(), drawn = 0;
performance.now = () => clock;
window.requestAnimationFrame = () => 0;
itl.charts.push({ draw() { drawn++; clock += 400; } });
itl.aggregate.work = () => true;
for (let frame = 0; frame < 100; frame++) {
  clock += 50;
  itl.needsRefresh = true;
  itl.frame();
}
return drawn;
"""


@needs_browser
def test_charts_of_very_many_streams_leave_time_to_sum_them_up(browser: Browser, save: Save, tmp_path: Path) -> None:
    browser.open(save([describe(tmp_path, 20)]))
    browser.wait(ALL)
    # Of 5 s in frames, and 0.4 s for each time that the charts are drawn.
    assert browser.run(SLOW) <= 4


TICKS = """
import { timeTicks } from "./axis.js";
import { formatTime } from "./format.js";
const day = 86400e6;
const found = [1, 40, 700, 25000].map((days) => timeTicks(0, days * day, 900));
const isEach = ({ step, ticks }) => new Set(ticks.map((tick) => formatTime(tick, step))).size === ticks.length;
console.log(JSON.stringify([found.map(({ ticks }) => ticks.length < 13), found.map(isEach)]));
"""


@needs_node
def test_an_axis_of_days_or_decades_has_few_ticks_and_each_its_own_label(tmp_path: Path) -> None:
    for module in PAGE.glob("*.js"):
        shutil.copy(module, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "ticks.js").write_text(TICKS)
    run = subprocess.run(["node", "ticks.js"], cwd=tmp_path, capture_output=True, check=True, text=True)  # noqa: S607
    assert json.loads(run.stdout) == [[True] * 4, [True] * 4]
