"""The page with several sides: the same pictures hold all of them, and each figure is of one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsers import ALL, Browser, missing_browser
from made import document_of, make_stream, make_timeline

from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import read_streams
from otel_itl.tools.view.bundle import render_page
from otel_itl.tools.view.document import describe_page, describe_stream

if TYPE_CHECKING:
    from conftest import Client

pytestmark = pytest.mark.skipif(missing_browser() is not None, reason=missing_browser() or "")

DAY_MS = 86_400_000


def write_side(path: Path, gap: float, since_ms: float) -> Path:
    """Twelve streams of a side, a day apart from those of another one, two of them in a session."""
    with path.open("w") as file:
        for number in range(12):
            more = {"session.id": "agent"} if number < 2 else {}
            timeline = make_timeline([gap] * 20, first=10 * gap, start_ms=since_ms + number * 400)
            file.write(json.dumps(document_of(make_stream(timeline, **more))) + "\n")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("sides")
    return [write_side(folder / "a.jsonl", 20, 0), write_side(folder / "b.jsonl", 40, DAY_MS)]


@pytest.fixture(scope="module")
def saved(files: list[Path]) -> str:
    """The address of a saved page with two sides, as compare writes it."""
    streams: list[dict[str, Any]] = []
    for side, path in enumerate(files):
        streams += [describe_stream(stream) | {"side": side} for stream in read_streams([str(path)], SkippedInput())]
    page = files[0].parent / "page.html"
    more = {"sides": ["before", "after"], "headline": "B is slower."}
    page.write_text(render_page(describe_page(streams, "a and b", more)))
    return page.as_uri()


def test_every_tile_has_the_figure_of_each_side(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    tiles = [browser.run(f"return document.getElementById('tile-{key}').textContent") for key in ("streams", "itl50")]
    assert tiles == ["before12after12", "before20.0msafter40.0ms"]


def test_what_is_said_of_the_sides_stands_above_the_pictures(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    assert browser.run("return document.getElementById('headline').innerText") == "B is slower."


def test_times_of_each_side_count_from_its_own_begin(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    lengths = browser.run("return itl.parts.map(({range}) => Math.round((range.until - range.from) / 1e6))")
    filled = browser.run("return itl.charts[0].bands.map(({columns}) => columns.filter(Boolean).length > 20)")
    assert (lengths, filled) == ([6, 6], [True, True])


def test_rows_are_of_each_side_in_turn_from_their_requests_on(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    rows = browser.run("return itl.lanes.rows.slice(0, 4).map(({side}) => side)")
    assert (rows, browser.run("return itl.lanes.isByRequest")) == ([0, 1, 0, 1], True)


def test_a_model_and_a_session_have_a_row_for_each_side(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    rows = browser.run(
        "return [...document.querySelectorAll('#models tbody tr')].map((row) =>"
        " [row.cells[0].textContent, row.cells[6].textContent]).sort()"
    )
    cards = browser.run("return itl.charts[3].sessions.map(({side, requests}) => [side, requests.length])")
    assert (rows, cards) == ([["after", "40.0"], ["before", "20.0"]], [[0, 2], [1, 2]])


def test_a_side_is_a_filter_in_the_address(browser: Browser, saved: str) -> None:
    browser.open(f"{saved}#side=after")
    browser.wait(ALL)
    assert browser.run("return [...new Set(itl.shown.map(({side}) => side))]") == [1]


def test_a_brush_in_the_band_of_a_side_selects_of_that_side(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    browser.drag("#heat .plot", (0.15, 0.7), (0.98, 0.9))
    browser.wait("return itl.view.get('side') === 'after' && itl.shown.every(({side}) => side === 1)")


def test_files_are_compared_while_they_are_followed(
    browser: Browser, serve: Callable[..., Client], files: list[Path]
) -> None:
    client = serve(sources=tuple(map(str, files)), compares=True)
    browser.open(client.server.url)
    browser.wait("return document.getElementById('tile-itl50').textContent === 'a.jsonl20.0msb.jsonl40.0ms'")
    assert browser.complaints() == []
