"""What the page shows first, and of how many streams: of long files, of many streams, and of a stall among them."""

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
from made import REQUESTED, describe, document_of, log_of, make_span, make_stream, make_timeline, repeat

from otel_itl.core import conventions as names
from otel_itl.core.timeline import Outcome

if TYPE_CHECKING:
    from conftest import Client

PAGE = Path(__file__).parents[3] / "otel_itl" / "tools" / "view" / "page"
needs_browser = pytest.mark.skipif(missing_browser() is not None, reason=missing_browser() or "")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="it needs node")

Save = Callable[..., str]


OPEN = """
import { countOpen } from "./opened.js";
const streams = Array.from({ length: 30 }, (_, number) => ({ start: number * 1e6, end: 1e6 }));
const together = Array.from({ length: 6 }, () => ({ start: 25e6, end: 10 }));
console.log(JSON.stringify([countOpen(streams, 0, 0, 30e6, 3), countOpen([...streams, ...together], 0, 0, 30e6, 3)]));
"""


@needs_node
def test_streams_one_after_the_other_are_one_open_stream(tmp_path: Path) -> None:
    for module in PAGE.glob("*.js"):
        shutil.copy(module, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "open.js").write_text(OPEN)
    run = subprocess.run(["node", "open.js"], cwd=tmp_path, capture_output=True, check=True, text=True)  # noqa: S607
    assert json.loads(run.stdout) == [[1, 1, 1], [1, 1, 7]]


@needs_browser
def test_figures_and_dots_are_of_all_streams_and_not_of_the_newest(
    browser: Browser, save: Save, tmp_path: Path
) -> None:
    slow, fast = describe(tmp_path, 80), describe(tmp_path, 10)
    browser.open(save([*repeat(slow, 4_200, 0.1), *repeat(fast, 4_100, 0.1, since=4_200)]))
    browser.wait(ALL, 40)
    first = browser.run(
        "const series = itl.charts[1], {context} = series.plot, arc = context.arc.bind(context); let least = Infinity;"
        " context.arc = (x, ...more) => { least = Math.min(least, x); arc(x, ...more); }; series.draw();"
        " delete context.arc; return least - series.area.left"
    )
    median = browser.run("return document.querySelector('#models tbody tr').cells[5].textContent")
    assert (first < 5, round(float(median))) == (True, 80)


@needs_browser
def test_a_click_on_a_row_filters_by_provider_and_model(browser: Browser, save: Save, tmp_path: Path) -> None:
    one, other = (describe(tmp_path, 20, **{names.PROVIDER_NAME: name}) for name in ("one", "other"))
    browser.open(save([*repeat(one, 3, 1), *repeat(other, 2, 1)]))
    browser.wait(ALL)
    browser.run("document.querySelector('#models tbody tr').click()")
    browser.wait("return location.hash === '#provider=one&model=m' && itl.shown.length === 3")


@needs_browser
def test_a_file_over_twenty_minutes_opens_on_its_token_time(browser: Browser, save: Save, tmp_path: Path) -> None:
    browser.open(save(repeat(describe(tmp_path, 20), 40, 30)))
    browser.wait(ALL)
    width = browser.run("const {from, until} = itl.lanes.window; return itl.shown[0].end / (until - from)")
    assert (width > 0.5, browser.run("return itl.lanes.rows.length")) == (True, 40)


@needs_browser
def test_a_file_that_was_just_written_is_shown_as_a_whole(
    browser: Browser, serve: Callable[..., Client], tmp_path: Path
) -> None:
    path, now = tmp_path / "spans.jsonl", (time.time_ns() - REQUESTED) / 1e6
    spans = [make_stream(make_timeline([20] * 9, start_ms=now - 400_000 + number * 4_000)) for number in range(100)]
    path.write_text("".join(json.dumps(document_of(span)) + "\n" for span in spans))
    browser.open(serve(sources=(str(path),)).server.url)
    browser.wait("return itl.lanes.rows.length === 100")


@needs_browser
def test_a_search_finds_every_word_in_names_and_ids(browser: Browser, save: Save, tmp_path: Path) -> None:
    one, other = describe(tmp_path, 20, model="llama"), describe(tmp_path, 20, **{"session.id": "agent-7"})
    browser.open(save([*repeat(one, 3, 1), *repeat(other, 2, 1)]))
    browser.wait(ALL)
    browser.press("/")
    browser.press("Agent test")
    browser.wait("return itl.shown.length === 2 && location.hash === '#text=Agent+test'")


@needs_browser
def test_a_tile_that_counts_streams_shows_those(browser: Browser, save: Save, tmp_path: Path) -> None:
    good = describe(tmp_path, 20)
    bad = good | {"outcome": Outcome.ERROR.value, "id": "bad"}
    cut_off = good | {"outcome": Outcome.TRUNCATED.value, "id": "cut"}
    browser.open(save([*repeat(good, 5, 1), bad, cut_off]))
    browser.wait(ALL)
    browser.run("document.getElementById('tile-failed').parentElement.click()")
    browser.wait("return itl.shown.length === 2")
    browser.run("document.getElementById('tile-failed').parentElement.click()")
    browser.wait("return itl.shown.length === 7")


@needs_browser
def test_a_stalled_stream_is_on_top_within_two_seconds_among_hundreds(
    browser: Browser, serve: Callable[..., Client]
) -> None:
    client, now = serve(), time.time_ns()
    browser.open(client.server.url)
    span = make_span(None, {})
    values = {names.STREAM_REQUEST_TIME: now - 9_000_000_000, names.REQUEST_MODEL: "stuck", names.PROGRESS_INDEX: 0}
    chunks = {names.TOKENS_OFFSETS: [20_000], names.TOKENS_KINDS: [2, 1], names.TOKENS_WAITS: [20_000]}
    client.send(log_of(names.PROGRESS_EVENT, now, values | chunks, span), "logs")
    since = (now - REQUESTED) / 1e6
    many = [make_stream(make_timeline([2] * 9, start_ms=since - number)) for number in range(400)]
    client.send(document_of(*many))
    browser.wait("return itl.streams.byId.size === 401")
    stall = {names.STALL_START: 0.02, names.STALL_DURATION: 8.98, names.STALL_CAUSE: "upstream"}
    began = time.monotonic()
    client.send(log_of(names.STALL_STARTED_EVENT, now, stall | {names.STALL_PHASE: "decode"}, span), "logs")
    browser.wait(
        "return itl.lanes.rows[0]?.model === 'stuck' && document.getElementById('tile-stalled').textContent === '1'"
    )
    assert time.monotonic() - began < 2


@needs_browser
def test_a_tile_shows_by_how_much_its_figure_may_be_wrong(browser: Browser, save: Save, tmp_path: Path) -> None:
    known_to = {"errors": {"time_to_first_token": 0.05}, "why": "the caller was busy"}
    stream = describe(tmp_path, 20) | known_to
    browser.open(save(repeat(stream, 5, 1)))
    browser.wait(ALL)
    tile = browser.run("return document.getElementById('tile-ttft50').textContent")
    cell = browser.run("return document.querySelector('#models tbody tr').cells[3].textContent")
    assert (tile, cell) == ("200ms(-50)", "200 (-50)")


@needs_browser
def test_a_percentile_of_too_few_samples_has_the_mark_of_the_report(
    browser: Browser, save: Save, tmp_path: Path
) -> None:
    browser.open(save(repeat(describe(tmp_path, 20), 4, 1)))
    browser.wait(ALL)
    tiles = ("ttft50", "ttft99", "itl50", "itl99")
    shown = [browser.run(f"return document.getElementById('tile-{tile}').textContent") for tile in tiles]
    cells = browser.run(
        "return [...document.querySelector('#models tbody tr').cells].slice(3, 8).map((cell) => cell.textContent)"
    )
    assert (shown, cells) == (
        ["~200ms", "~200ms", "20.0ms", "~20.0ms"],
        ["~200", "~200", "20.0", "~20.0", "~20.0"],
    )


@needs_browser
def test_a_tile_counts_the_streams_that_are_set_aside(browser: Browser, save: Save, tmp_path: Path) -> None:
    stream = describe(tmp_path, 20)
    unknown = stream | {"left_out": ["ITL"], "why": "the caller was busy", "id": "unknown"}
    browser.open(save([*repeat(stream, 9, 1), unknown]))
    browser.wait(ALL)
    assert browser.run("return document.getElementById('tile-itl50').textContent") == "20.0ms1 of 10 set aside"


@needs_browser
def test_the_share_that_met_the_objective_is_a_range_where_some_are_not_known(
    browser: Browser, save: Save, tmp_path: Path
) -> None:
    stream = describe(tmp_path, 20)
    verdicts = ["missed", "met", "not known", "not known", "not known"]
    judged = [
        stream | {"id": str(number), "slo": {"profile": "chat", "verdict": verdict}}
        for number, verdict in enumerate(verdicts)
    ]
    browser.open(save(judged))
    browser.wait(ALL)
    assert browser.run("return document.getElementById('tile-slo').textContent") == "20–80 %3 not known"  # noqa: RUF001


RULE = """
import { markIfTooFew } from "./samples.js";
const found = [];
for (const share of [0.5, 0.95, 0.99]) for (const samples of [4, 5, 199, 200, 999, 1000]) {
  for (const streams of [4, 5]) found.push(markIfTooFew("", share, samples, streams) === "~");
}
console.log(JSON.stringify(found));
"""


@needs_node
def test_the_rule_of_too_few_samples_is_that_of_the_report(tmp_path: Path) -> None:
    too_few = pytest.importorskip("otel_itl.tools.report.too_few")
    for module in PAGE.glob("*.js"):
        shutil.copy(module, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "rule.js").write_text(RULE)
    run = subprocess.run(["node", "rule.js"], cwd=tmp_path, capture_output=True, check=True, text=True)  # noqa: S607
    cases = [
        (q, samples, streams) for q in (50, 95, 99) for samples in (4, 5, 199, 200, 999, 1_000) for streams in (4, 5)
    ]
    assert json.loads(run.stdout) == [too_few.has_too_few(*case) for case in cases]
