"""The panel of the page with what drives the latency: its sentences, its pictures, and the tables behind them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsers import Browser, missing_browser, opened_browser
from made import REQUESTED

from otel_itl.tools.explain.findings import Change, Target
from otel_itl.tools.explain.render.page import describe_for_page
from otel_itl.tools.view.bundle import render_page
from otel_itl.tools.view.document import describe_page
from tests.tools.explain.made_explanations import (
    AT,
    CURVE,
    IDLE,
    PROMPT,
    TUESDAY,
    make_explanation,
    make_facts,
    make_switch,
)

pytestmark = pytest.mark.skipif(missing_browser() is not None, reason=missing_browser() or "")

EVIL = '<img src=x onerror="document.title = 1">'


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A saved page with three findings and a change, one name of which tries to be a script."""
    facts = make_facts(explained={Target.ITL: 0.5})
    switches = (make_switch(Change("gpt-4o", EVIL, AT)),)
    explanation = make_explanation(IDLE, TUESDAY, PROMPT, models=(facts,), switches=switches)
    document = describe_page([], "x", {"made": REQUESTED // 1_000}) | {"explanation": describe_for_page(explanation)}
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(render_page(document))
    with opened_browser() as browser:
        browser.resize(1280, 900)
        browser.complaints()
        browser.open(path.as_uri())
        browser.wait("return itl.frames > 3 && !itl.needsRefresh")
        yield browser


def test_each_finding_is_a_sentence_with_its_share_the_largest_first(page: Browser) -> None:
    shown = page.run("return [...document.querySelectorAll('#explain li > p')].map((line) => line.textContent)")
    assert [line.replace("\N{EN DASH}", "-") for line in shown] == [
        "41 % of TTFT: After 10 minutes of silence the first token takes 4.0 s longer (3.1 to 4.8). Points upstream.",
        (
            "30 % of ITL: Tuesday 9-11 h is 40 % slower (31 to 50) from token to token at the same load of your own 12 "
            "processes. Points upstream."
        ),
        "22 % of ITL: Each further 1,000 prompt tokens cost 0.8 ms a token (0.7 to 0.9). It comes with the request.",
    ]


def test_a_name_made_of_script_is_text_in_a_sentence(page: Browser) -> None:
    images, text = page.run("return [document.images.length, document.getElementById('explain').textContent]")
    assert (images, f"gpt-4o answered as {EVIL} instead of gpt-4o" in text, page.complaints()) == (0, True, [])


def test_the_picture_of_an_effect_has_its_points_where_the_latencies_are(page: Browser) -> None:
    found = page.run(
        "const effect = itl.charts.at(-1).effects[2]; effect.draw(); const {area, plot, finding} = effect;"
        " const pixel = (x, y) => [...plot.context.getImageData(x * plot.ratio, y * plot.ratio, 1, 1).data];"
        " const color = itl.theme.colors['series-a']; const hex = ([r, g, b]) => '#' + [r, g, b]"
        "   .map((part) => part.toString(16).padStart(2, '0')).join('');"
        " const last = finding.points.at(-1); const x = Math.round(effect.placeX(last)) - 1;"
        " for (let y = area.top; y < area.top + area.height; y++)"
        "   if (hex(pixel(x, y)) === color) return [true, finding.points.length, last.y];"
        " return [false, 0, 0];"
    )
    assert found == [True, len(CURVE), 23_000]


def test_the_table_behind_a_picture_has_its_data(page: Browser) -> None:
    page.run("document.querySelectorAll('#explain li button')[2].click()")
    rows = page.run(
        "return [...document.querySelectorAll('#explain li')][2].querySelectorAll('tr').length && "
        "[...[...document.querySelectorAll('#explain li')][2].querySelectorAll('tr')]"
        ".map((row) => [...row.children].map((cell) => cell.textContent))"
    )
    assert rows == [
        ["prompt tokens", "ITL", "from", "to", "streams"],
        ["0", "20.0 ms", "19.0 ms", "21.0 ms", "40"],
        ["4,000", "23.0 ms", "22.0 ms", "24.0 ms", "60"],
    ]


def test_a_page_without_an_explanation_has_no_such_panel(page: Browser, tmp_path: Path) -> None:
    path = tmp_path / "plain.html"
    path.write_text(render_page(describe_page([], "x", {"made": REQUESTED // 1_000})))
    page.open(path.as_uri())
    assert page.run("return document.getElementById('explain').hidden") is True
