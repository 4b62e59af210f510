"""The page without a mouse, and for those who do not see its pictures: keys, focus, roles, contrast, and axe-core."""

from __future__ import annotations

import json
import os
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

AXE = os.environ.get("ITL_TEST_AXE", "")
needs_axe = pytest.mark.skipif(not AXE, reason="ITL_TEST_AXE does not name axe.min.js: npm pack axe-core")
RUN_AXE = """
const done = arguments[0];
axe.run(document).then(({ violations, passes }) => done({
  passes: passes.length,
  violations: violations.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html.slice(0, 120))]),
}));
"""
ESCAPE, ENTER, DOWN, RIGHT = "\ue00c", "\ue007", "\ue015", "\ue014"


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with streams of two models, some with a session, some with a stall, one that failed."""
    path = tmp_path_factory.mktemp("accessible") / "spans.jsonl"
    with path.open("w") as file:
        for number in range(30):
            gaps = [20.0] * 10 + ([2_500.0] if number % 9 == 0 else []) + [20.0] * 10
            more = {"session.id": f"agent-{number % 3}"} if number % 2 else {}
            timeline = make_timeline(gaps, start_ms=number * 300)
            file.write(json.dumps(document_of(make_stream(timeline, model=f"model-{number % 2}", **more))) + "\n")
    return path


@pytest.fixture(scope="module")
def described(spans: Path) -> list[dict[str, Any]]:
    return [describe_stream(stream) for stream in read_streams([str(spans)], SkippedInput())]


@pytest.fixture(scope="module")
def saved(spans: Path, described: list[dict[str, Any]]) -> str:
    page = spans.parent / "page.html"
    page.write_text(render_page(describe_page(described, "spans.jsonl", {})))
    return page.as_uri()


@pytest.fixture(scope="module")
def compared(spans: Path, described: list[dict[str, Any]]) -> str:
    page = spans.parent / "compared.html"
    both = [stream | {"side": side} for side in (0, 1) for stream in described]
    page.write_text(render_page(describe_page(both, "two", {"sides": ["a", "b"], "headline": "The same."})))
    return page.as_uri()


def check(browser: Browser) -> None:
    """Fail where axe-core finds anything on the page as it is now, under whatever policy it has."""
    browser.driver.set_script_timeout(60)
    browser.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": Path(AXE).read_text()})
    found = browser.driver.execute_async_script(RUN_AXE)
    assert (found["violations"], found["passes"] > 20) == ([], True)


def check_states(browser: Browser, address: str) -> None:
    """Check the page as it opens, with all tables, with one stream, and with the list of its keys."""
    browser.open(address)
    browser.wait(ALL)
    check(browser)
    browser.run("for (const button of document.querySelectorAll('button[aria-expanded=false]')) button.click()")
    check(browser)
    browser.press("j")
    browser.wait("return itl.detail.stream")
    check(browser)
    browser.press("?")
    browser.wait("return document.getElementById('help').open")
    check(browser)


@needs_axe
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_axe_finds_nothing_in_a_saved_page(browser: Browser, saved: str, theme: str) -> None:
    check_states(browser, f"{saved}#theme={theme}")


@needs_axe
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_axe_finds_nothing_in_a_page_with_sides(browser: Browser, compared: str, theme: str) -> None:
    check_states(browser, f"{compared}#theme={theme}")


@needs_axe
def test_axe_finds_nothing_in_a_live_page(browser: Browser, serve: Callable[..., Client], spans: Path) -> None:
    check_states(browser, serve(sources=(str(spans),)).server.url)


@needs_axe
def test_axe_finds_nothing_in_a_page_that_waits(browser: Browser, serve: Callable[..., Client]) -> None:
    browser.open(serve().server.url)
    browser.wait("return document.querySelector('.dot.on')")
    check(browser)


def test_a_focused_row_keeps_its_focus_where_the_page_is_updated(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    browser.run("document.querySelectorAll('#models tbody tr')[1].focus(); itl.streams.version++; itl.refresh();")
    name = "return document.activeElement.cells?.[1].textContent"
    before = browser.run(name)
    browser.run("itl.shown.slice(1, 12).forEach((stream) => itl.streams.put([{ ...stream, id: stream.id + 'x' }]))")
    browser.wait("return itl.shown.length === 41 && !itl.needsRefresh")
    assert (before, browser.run(name)) == ("model-0", "model-0")


def test_a_row_of_a_table_behind_a_picture_keeps_its_focus(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    browser.run("itl.lanes.table.toggle(); document.querySelectorAll('#lanes tbody tr')[3].focus();")
    browser.run("itl.lanes.table.made = -Infinity; itl.lanes.table.update()")
    assert browser.run("return document.activeElement === document.querySelectorAll('#lanes tbody tr')[3]")


def test_opening_a_stream_takes_the_focus_along_and_closing_gives_it_back(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    browser.run("itl.lanes.table.toggle(); document.querySelectorAll('#lanes tbody tr')[3].focus();")
    browser.press(ENTER)
    browser.wait("return document.activeElement.id === 'detail'")
    browser.press(ESCAPE)
    browser.wait("return document.activeElement === document.querySelectorAll('#lanes tbody tr')[3]")


def test_rows_are_options_that_arrow_keys_reach_and_enter_opens(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    browser.run("itl.lanes.scroller.focus()")
    browser.press(DOWN, DOWN)
    option = browser.wait(
        "const list = document.activeElement; const option = list.ownerDocument.getElementById("
        " list.getAttribute('aria-activedescendant')); return option &&"
        " [list.getAttribute('role'), option.getAttribute('role'), option.getAttribute('aria-posinset'),"
        " option.textContent.includes(itl.lanes.rows[1].model)]"
    )
    browser.press(ENTER)
    browser.wait("return itl.detail.stream === itl.lanes.rows[1]")
    assert option == ["listbox", "option", "2", True]


def test_the_brush_is_moved_and_stretched_by_keys(browser: Browser, saved: str) -> None:
    browser.open(saved)
    browser.wait(ALL)
    browser.run("document.querySelector('#heat .plot').focus()")
    browser.press(DOWN, RIGHT)
    said = browser.run("return document.querySelector('#heat [role=status]').textContent")
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "Enter"):
        browser.run(
            "const event = new KeyboardEvent('keydown', { key: arguments[0], shiftKey: true, bubbles: true });"
            " document.activeElement.dispatchEvent(event)",
            key,
        )
    browser.wait("return itl.view.get('low') && itl.view.get('from') < itl.view.get('to')")
    assert said.endswith("samples")


def test_single_keys_can_be_switched_off(browser: Browser, saved: str) -> None:
    browser.open(f"{saved}#theme=dark")
    browser.wait(ALL)
    browser.press("?")
    browser.wait("return document.getElementById('help').open")
    browser.run("document.getElementById('single-keys').click(); document.getElementById('help').close()")
    browser.press("t", "j")
    theme = browser.run("return document.documentElement.dataset.theme")
    assert (theme, browser.run("return itl.view.get('stream')")) == ("dark", "")


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_what_is_drawn_stands_out_and_scrollbars_are_of_the_theme(browser: Browser, saved: str, theme: str) -> None:
    browser.open(f"{saved}#theme={theme}")
    browser.wait(ALL)
    contrasts = browser.run(
        "const light = (color) => { const value = Number.parseInt(color.slice(1), 16);"
        " const [r, g, b] = [value >> 16, (value >> 8) & 255, value & 255].map((part) => { const v = part / 255;"
        " return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });"
        " return 0.2126 * r + 0.7152 * g + 0.0722 * b; };"
        " const { colors } = itl.theme; const against = (name) => {"
        " const [a, b] = [light(colors[name]), light(colors.panel)];"
        " return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); };"
        " const marks = ['wait', 'send', 'span', 'ttft', 'itl-50', 'itl-95', 'stall',"
        " 'side-0', 'side-1', 'side-2', 'side-3', 'side-4', 'side-5', 'side-6', 'side-7'];"
        " return [against('dim') >= 4.5, ...marks.filter((name) => against(name) < 3)]"
    )
    scheme = browser.run("return getComputedStyle(document.documentElement).colorScheme")
    assert (contrasts, scheme) == ([True], theme)
