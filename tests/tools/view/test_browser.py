"""The page in a real browser: what it draws, what a click, a key and a link do, and what it lets be read."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsers import ALL, Browser, missing_browser
from made import REQUESTED, document_of, log_of, make_span, make_stream, make_timeline

from otel_itl.core import conventions as names
from otel_itl.core.timeline import Kind, Outcome
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import read_streams
from otel_itl.tools.report.worst_stream import describe_worst
from otel_itl.tools.view.bundle import render_page
from otel_itl.tools.view.document import describe_page, describe_stream

if TYPE_CHECKING:
    from conftest import Client

pytestmark = pytest.mark.skipif(missing_browser() is not None, reason=missing_browser() or "")

EVIL = '<script>document.title = "run"</script><img src=x onerror=alert(1)>'


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a saved page: 60 streams of two models, one of them with stalls and an evil name."""
    folder = tmp_path_factory.mktemp("saved")
    jitter, path = random.Random(3), folder / "spans.jsonl"
    with path.open("w") as file:
        for number in range(60):
            gaps = [jitter.lognormvariate(3, 0.3) for _ in range(40)]
            model, more = f"model-{number % 2}", {}
            if number % 10 == 0:
                gaps[20], more = 2_600, {"session.id": "agent-7"}
            if number == 50:
                model = EVIL
            outcome = Outcome.ERROR if number % 7 == 0 else Outcome.COMPLETED
            timeline = make_timeline(gaps, start_ms=number * 300, outcome=outcome)
            file.write(json.dumps(document_of(make_stream(timeline, model=model, **more))) + "\n")
    page = folder / "page.html"
    streams = [describe_stream(stream) for stream in read_streams([str(path)], SkippedInput())]
    page.write_text(render_page(describe_page(streams, "spans.jsonl", {"made": REQUESTED // 1_000})))
    return page.as_uri()


def shown(browser: Browser) -> int:
    """How many streams pass the filters."""
    time.sleep(0.15)
    count = browser.wait("return !itl.isFilterChanged && String(itl.shown.length)")
    return int(count)


def test_a_saved_page_opens_offline_and_draws_every_stream(browser: Browser, saved: str) -> None:
    browser.complaints()
    browser.open(saved)
    browser.wait(ALL)
    assert (shown(browser), browser.run("return itl.aggregate.count"), browser.complaints()) == (60, 2_400, [])


def test_the_page_computes_the_percentiles_of_the_report(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    ours = browser.run(
        "const all = []; for (const s of itl.streams.all()) { let last = null; const c = s.chunks;"
        " for (let i = 0; i < c.n; i++) { if (last !== null) all.push(c.at[i] - last); last = c.at[i]; } }"
        " all.sort((a, b) => a - b); return [0.5, 0.99, 0.998].map((q) => { const rank = q * (all.length - 1);"
        " const low = Math.floor(rank); return all[low] + (all[low + 1] - all[low]) * (rank - low); })"
    )
    theirs = browser.run("return [0.5, 0.99, 0.998].map((q) => itl.parts[0].sums.samples.quantile(q))")
    assert theirs == pytest.approx(ours, rel=0.012)


def test_a_name_made_of_script_is_shown_as_text(browser: Browser, saved: str) -> None:
    browser.open(f"{saved}#stalled=1")
    browser.wait(ALL)
    cells = browser.run("return [...document.querySelectorAll('#models td')].map((cell) => cell.textContent)")
    images = browser.run("return document.images.length")
    assert (EVIL in cells, images, browser.run("return document.title")) == (True, 0, "otel-itl · spans.jsonl")


def test_the_drawn_pixels_are_where_the_chunks_are(browser: Browser, saved: str) -> None:
    browser.resize(1280, 900)
    browser.open(f"{saved}#axis=request")
    browser.wait(ALL)
    found = browser.run(
        "itl.lanes.window.set(150000, 350000); itl.lanes.isFollowing = false; itl.lanes.draw();"
        " const stream = itl.lanes.rows[0]; const {left, right} = itl.lanes.area;"
        " const scale = itl.lanes.window.scale(left, right); const ratio = itl.lanes.plot.ratio;"
        " const pixels = itl.lanes.buffer; const y = Math.round((24 + 12) * ratio); const at = [...stream.chunks.at];"
        " const expected = at.map((moment) => Math.round(scale(moment) * ratio))"
        "   .filter((x) => x >= left * ratio && x < right * ratio);"
        " const drawn = expected.filter((x) => pixels.data[y * pixels.width + x] !== 0).length;"
        " const between = expected.slice(1).filter((x, i) => x - expected[i] > 12)"
        "   .filter((x) => pixels.data[y * pixels.width + x - 6] === 0).length;"
        " return [expected.length, drawn, between, expected.slice(1).filter((x, i) => x - expected[i] > 12).length]"
    )
    assert (found[0] > 5, found[1] == found[0], found[2] == found[3]) == (True, True, True)


def test_a_filter_selects_and_stands_in_the_address(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    browser.run(
        "const select = document.getElementById('filter-outcome'); select.value = 'error';"
        " select.dispatchEvent(new Event('change'))"
    )
    assert (shown(browser), browser.run("return location.hash")) == (9, "#outcome=error")


def test_a_link_restores_the_view(browser: Browser, saved: str) -> None:
    browser.open(f"{saved}#session=agent-7&stalled=1&theme=light&axis=request&dense=1")
    browser.wait(ALL)
    state = browser.run("return [document.documentElement.dataset.theme, itl.lanes.isDense, itl.lanes.isByRequest]")
    assert (shown(browser), state) == (6, ["light", True, True])


def test_a_brush_in_the_heat_map_selects_the_streams_of_that_time_and_latency(browser: Browser, saved: str) -> None:
    browser.resize(1280, 900)
    browser.open(saved)
    browser.wait(ALL)
    browser.drag("#heat .plot", (0.15, 0.02), (0.98, 0.3))
    assert (shown(browser), browser.run("return Boolean(itl.view.get('low'))")) == (6, True)
    browser.press("\ue00c")
    assert shown(browser) == 60


def test_a_click_in_the_heat_map_selects_the_streams_of_a_column(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    browser.drag("#heat .plot", (0.5, 0.5), (0.5, 0.5))
    assert 0 < shown(browser) < 30


def test_one_stream_opens_by_a_key_with_its_gaps_and_closes_again(browser: Browser, saved: str) -> None:
    browser.open(f"{saved}#stalled=1")
    browser.wait(ALL)
    browser.press("j")
    browser.wait("return !document.getElementById('detail').hidden && document.querySelector('#detail tbody td')")
    gap = browser.run("return document.querySelector('#detail tbody td').textContent")
    stalls = browser.run("return itl.detail.facts.textContent.includes('2.60 s (decode, cause unknown)')")
    browser.press("\ue00c")
    browser.wait("return document.getElementById('detail').hidden")
    assert (gap, stalls) == ("2.60 s", True)


def test_a_gap_of_the_table_zooms_the_timeline_to_single_chunks(browser: Browser, saved: str) -> None:
    browser.open(f"{saved}#stalled=1")
    browser.wait(ALL)
    browser.press("j")
    browser.wait("return document.querySelectorAll('#detail tbody tr').length > 3")
    browser.run("document.querySelectorAll('#detail tbody tr')[3].click()")
    length = browser.run("return itl.detail.window.until - itl.detail.window.from")
    assert length < 100_000


def test_a_stream_is_copied_as_json(browser: Browser, saved: str) -> None:
    browser.open(f"{saved}#stalled=1")
    browser.wait(ALL)
    browser.press("j")
    browser.wait("return itl.detail.stream")
    copied = json.loads(browser.run("return itl.detail.toJson()"))
    assert (copied["outcome"], len(copied["timeline"]["moments_us"])) == ("error", 41) or copied["measures"][
        "output_chunk_count"
    ] == 41


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_both_themes_draw_text_that_can_be_read(browser: Browser, saved: str, theme: str) -> None:
    browser.open(f"{saved}#theme={theme}")
    browser.wait(ALL)
    contrast = browser.run(
        "const light = (color) => { const [r, g, b] = color.match(/\\d+/g).map((part) => { const v = part / 255;"
        " return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });"
        " return 0.2126 * r + 0.7152 * g + 0.0722 * b; };"
        " return ['.tile .label', '.head .note', '.legend', 'h2', '.tile .value', '#status', 'td'].map((selector) => {"
        " const element = document.querySelector(selector); let behind = element;"
        " while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;"
        " const [a, b] = [light(getComputedStyle(element).color), light(getComputedStyle(behind).backgroundColor)];"
        " return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); })"
    )
    assert [round(ratio, 2) for ratio in contrast if ratio < 4.5] == []


def test_the_keys_are_listed_and_switch_the_theme(browser: Browser, saved: str) -> None:
    browser.open(f"{saved}#theme=dark")
    browser.wait(ALL)
    browser.press("?")
    browser.wait("return document.getElementById('help').open")
    listed = browser.run("return [...document.querySelectorAll('#help kbd')].map((key) => key.textContent)")
    browser.run("document.getElementById('help').close()")
    browser.press("t")
    browser.wait("return document.documentElement.dataset.theme === 'light'")
    assert {"?", "j", "k", "s", "t", "0"} <= set(listed)


def test_every_picture_has_a_name_and_a_table_with_its_data(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    browser.run("for (const button of document.querySelectorAll('button[aria-expanded=false]')) button.click()")
    time.sleep(0.2)
    rows = browser.run(
        "return ['lanes', 'heat', 'series', 'spectrum', 'sessions', 'models'].map((id) =>"
        " document.querySelectorAll(`#${id} .tablebox:not([hidden]) tbody tr`).length)"
    )
    unnamed = browser.run("return document.querySelectorAll('canvas:not([aria-label]):not([aria-hidden])').length")
    assert (min(rows) > 0, unnamed) == (True, 0)


def test_a_term_is_explained_by_the_glossary(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    browser.run("document.querySelector('[data-term=ITL]').dispatchEvent(new Event('pointerover', {bubbles: true}))")
    assert browser.run("return document.getElementById('tip').textContent").startswith("ITL: Inter-token latency")


def test_at_390_pixels_nothing_is_wider_than_the_page(browser: Browser, saved: str) -> None:
    browser.resize(390, 844)
    browser.open(saved)
    browser.wait(ALL)
    browser.press("j")
    widths = browser.run("return [document.documentElement.scrollWidth, document.getElementById('detail').scrollWidth]")
    browser.resize(1280, 900)
    assert max(widths) <= 390


def test_at_390_pixels_a_long_status_text_wraps(browser: Browser, serve: Callable[..., Client], tmp_path: Path) -> None:
    path = tmp_path / f"{'spans' * 12}.jsonl"
    path.write_text(json.dumps(document_of(make_stream(make_timeline([20] * 9)))) + "\ngarbage\n" * 12)
    client = serve(sources=(str(path),))
    browser.resize(390, 844)
    browser.open(client.server.url)
    browser.wait("return document.getElementById('status').textContent.includes('12 lines are not JSON')")
    widths = browser.run(
        "return ['html', '.bar', '.filters'].map((selector) => document.querySelector(selector))"
        ".map((element) => Math.max(element.scrollWidth, element.getBoundingClientRect().right))"
    )
    browser.resize(1280, 900)
    assert max(widths) <= 390


def test_a_page_without_a_stream_names_what_was_skipped(
    browser: Browser, serve: Callable[..., Client], tmp_path: Path
) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"name": "something else"}')
    browser.open(serve(sources=(str(path),)).server.url)
    text = "return document.querySelector('#lanes .empty').textContent"
    browser.wait(f"return (() => {{ {text} }})().includes('Skipped so far: 1 line is JSON, but not OTLP.')")


def test_a_file_opens_with_all_of_its_streams_and_is_followed_once_it_grows(
    browser: Browser, serve: Callable[..., Client], tmp_path: Path
) -> None:
    path = tmp_path / "spans.jsonl"
    spans = [make_stream(make_timeline([20] * 9, start_ms=number * 300)) for number in range(60)]
    path.write_text("".join(json.dumps(document_of(span)) + "\n" for span in spans))
    client = serve(sources=(str(path),))
    browser.open(client.server.url)
    browser.wait("return itl.lanes.rows.length === 60")
    follow = "return document.getElementById('follow').getAttribute('aria-pressed')"
    before = browser.run(follow)
    with path.open("a") as file:
        file.write(json.dumps(document_of(make_stream(make_timeline([20] * 9, start_ms=90_000)))) + "\n")
    browser.wait(f"return (() => {{ {follow} }})() === 'true'")
    assert before == "false"


def test_chunks_are_numbered_as_in_the_report_without_pings(
    browser: Browser, serve: Callable[..., Client], tmp_path: Path
) -> None:
    made = make_timeline([20, 20, 20, 900, 20])
    timeline = replace(made, kinds=bytes([Kind.ANSWER, 0, 0, Kind.ANSWER, Kind.ANSWER, Kind.ANSWER]))
    path = tmp_path / "spans.jsonl"
    path.write_text(json.dumps(document_of(make_stream(timeline))))
    (stream,) = read_streams([str(path)], SkippedInput())
    client = serve(sources=(str(path),))
    browser.open(client.server.url)
    browser.wait(ALL)
    browser.press("j")
    cells = "return [...document.querySelectorAll('#detail tbody tr:first-child td')].map((cell) => cell.textContent)"
    gap = describe_worst(stream, None).gap
    assert gap is not None
    assert browser.wait(f"const cells = (() => {{ {cells} }})(); return cells.length && cells")[2] == str(gap.position)


def test_a_tooltip_does_not_stay_over_the_panel_that_opens(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    browser.run("itl.tip.show('a stream', 200, 300)")
    browser.press("j")
    browser.wait("return itl.detail.stream && document.getElementById('tip').hidden")


def test_streams_are_shown_while_they_run_and_a_stall_before_it_ends(
    browser: Browser, serve: Callable[..., Client]
) -> None:
    client = serve()
    browser.complaints()
    browser.open(client.server.url)
    assert browser.run("return document.querySelector('#lanes .empty').textContent").startswith("Waiting for the first")
    now = time.time_ns()
    span = make_span(None, {})

    def progress(chunks: range) -> None:
        values: dict[str, Any] = {names.STREAM_REQUEST_TIME: now, names.REQUEST_MODEL: "live", names.PROGRESS_INDEX: 0}
        values |= {
            names.TOKENS_OFFSETS: [200_000 + 20_000 * chunk for chunk in chunks],
            names.TOKENS_KINDS: [2, len(chunks)],
        }
        client.send(
            log_of(names.PROGRESS_EVENT, now, {**values, names.TOKENS_WAITS: [20_000] * len(chunks)}, span), "logs"
        )

    progress(range(5))
    browser.wait("return itl.shown[0]?.chunks?.n === 5")
    progress(range(5, 9))
    browser.wait("return itl.shown[0].chunks.n === 9 && itl.shown[0].end === undefined")
    stall = {
        names.STALL_START: 0.36,
        names.STALL_DURATION: 2.0,
        names.STALL_CAUSE: "upstream",
        names.STALL_PHASE: "decode",
    }
    client.send(log_of(names.STALL_STARTED_EVENT, now + 2_360_000_000, stall, span), "logs")
    browser.wait("return document.getElementById('tile-stalled').textContent === '1'")
    progress(range(9, 12))
    browser.wait("return document.getElementById('tile-stalled').textContent === '0'")
    assert browser.complaints() == []


def test_the_page_notices_that_its_server_has_gone(browser: Browser, serve: Callable[..., Client]) -> None:
    client = serve()
    browser.open(client.server.url)
    browser.wait("return document.querySelector('.dot.on')")
    client.server.stop()
    browser.wait("return document.getElementById('status').textContent.includes('does not answer')")
    browser.complaints()


def test_the_demo_is_seen_while_it_runs(browser: Browser, tmp_path: Path) -> None:
    output = tmp_path / "demo.jsonl"
    command = [sys.executable, "-m", "otel_itl", "demo", "--view", "--no-open", "--quiet"]
    command += ["--seconds", "4", "--sdk", "openai", "--output", str(output)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as demo:
        url = next(found[0] for line in demo.stderr or () if (found := re.search(r"http://\S+", line)))
        browser.open(url)
        browser.wait("return itl.shown.some((stream) => stream.end === undefined && stream.chunks?.n > 3)", 45)
        browser.wait("return itl.aggregate.count > 50", 45)
        demo.wait(45)
    assert demo.returncode == 0
