"""The page as files: its modules join to one script, its words are the glossary's, and streams are data in it."""

from __future__ import annotations

import base64
import json
import random
import re
import shutil
import subprocess
import zlib
from io import StringIO
from pathlib import Path

import pytest
from made import document_of, make_stream, make_timeline

from otel_itl.tools.report.certainty import format_with_error
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import read_streams
from otel_itl.tools.report.render.perfetto import write_perfetto
from otel_itl.tools.view.bundle import join_modules, read_glossary, render_page
from otel_itl.tools.view.document import describe_page, describe_stream

ROOT = Path(__file__).parents[3]
MODULES = sorted((ROOT / "otel_itl" / "tools" / "view" / "page").glob("*.js"))
UNSAFE = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|https?://")


@pytest.fixture
def html(tmp_path: Path) -> str:
    """A page with one stream, of which every name tries to be a script."""
    evil = '</script><script>alert("x")</script>'
    path = tmp_path / "spans.jsonl"
    path.write_text(json.dumps(document_of(make_stream(make_timeline([20] * 5), model=evil, **{"session.id": evil}))))
    streams = [describe_stream(stream) for stream in read_streams([str(path)], SkippedInput())]
    return render_page(describe_page(streams, evil, {}))


def document_in(html: str) -> dict[str, object]:
    """The document that a page holds, read as the page reads it."""
    found = re.search(r'id="data">([^<]*)<', html)
    assert found is not None
    document: dict[str, object] = json.loads(zlib.decompress(base64.b64decode(found[1])))
    return document


@pytest.mark.parametrize("module", MODULES, ids=[path.name for path in MODULES])
def test_a_module_makes_no_html_of_text_and_loads_nothing(module: Path) -> None:
    assert UNSAFE.findall(module.read_text()) == []


@pytest.mark.parametrize("module", MODULES, ids=[path.name for path in MODULES])
def test_a_module_is_small_and_begins_with_its_purpose(module: Path) -> None:
    text = module.read_text()
    assert (text.startswith("/* "), len(text.splitlines()) < 400) == (True, True)


def test_no_two_modules_have_a_name_in_common() -> None:
    declared = re.findall(r"^(?:async )?(?:const|let|class|function) (\w+)", join_modules(), re.MULTILINE)
    assert sorted({name for name in declared if declared.count(name) > 1}) == []


def test_every_module_is_in_the_single_file() -> None:
    firsts = [path.read_text().splitlines()[0] for path in MODULES]
    script = join_modules()
    assert [first for first in firsts if first not in script] == []


def test_the_terms_of_the_page_are_those_of_the_glossary() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    rows = dict(re.findall(r"^\| ([^|`]+?) \| (.+?) \|$", text, re.MULTILINE))
    assert {term: plain(rows[term]) for term in read_glossary()} == read_glossary()


def plain(sentence: str) -> str:
    """A sentence of the glossary without links and code marks."""
    without_notes = re.sub(r"\s*\(\[[^\]]*\]\([^)]*\)\)|; \[[^\]]*\]\([^)]*\)", "", sentence)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", without_notes).replace("`", "")


def test_every_term_that_the_page_explains_is_in_its_glossary() -> None:
    used = {term for path in MODULES for term in re.findall(r'(?:term|"data-term"): "([^"]+)"', path.read_text())}
    assert sorted(used - read_glossary().keys()) == []


ERRORS = [
    (0.655, 0.12, None),
    (1.86, 0.12, None),
    (0.0239, 0.00103, None),
    (2.0, 1.001, None),
    (0.0996, 0.0995, None),
    (0.957, 0.957, None),
    (1.234, 1.2339, None),
    (0.2, None, None),
    (30.0, 0.005, None),
    (0.012, None, 0.0013),
    (0.012, 0.0005, 0.0013),
]


@pytest.mark.skipif(shutil.which("node") is None, reason="it needs node")
def test_a_figure_is_shown_with_its_error_as_in_the_report() -> None:
    source = (ROOT / "otel_itl" / "tools" / "view" / "page" / "format.js").read_text().replace("export ", "")
    arguments = [[None if part is None else part * 1e6 for part in parts] for parts in ERRORS]
    script = f"{source}\nconsole.log(JSON.stringify({json.dumps(arguments)}.map((one) => formatWithError(...one))));"
    shown = json.loads(subprocess.run(["node", "-e", script], capture_output=True, check=True, text=True).stdout)  # noqa: S607
    assert shown == [format_with_error(*parts) for parts in ERRORS]


BOUNDS = """
import { Samples } from "./samples.js";
const samples = new Samples();
const chunks = { n: 3, at: [200000, 220000, 240000], codes: [2, 2, 2], shares: null, choices: null, holds: [] };
samples.addStream({ chunks });
samples.addStream({ chunks, low: [801, 2], high: [921, 2] });
const { below, above } = samples.errors(0.99);
console.log(JSON.stringify([Math.round(below / 1000), Math.round(above / 1000)]));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="it needs node")
def test_percentiles_of_many_streams_have_what_they_may_be_less_and_more_by(tmp_path: Path) -> None:
    # Of four samples of 20 ms, two may be 10 ms (bin 801) or 40 ms (bin 921).
    for name in ("samples.js", "packed.js", "streams.js"):
        (tmp_path / name).write_text((MODULES[0].parent / name).read_text())
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "bounds.js").write_text(BOUNDS)
    run = subprocess.run(["node", tmp_path / "bounds.js"], capture_output=True, check=True, text=True)  # noqa: S607
    assert json.loads(run.stdout) == [0, 20]


DRAWING = """
import { drawLaneBase } from "./lanedraw.js";
const drawn = [];
const context = { globalAlpha: 1, fillRect(x, y, width) { drawn.push([this.fillStyle, this.globalAlpha, x, width]); } };
const colors = { track: "track", wait: "wait", send: "send" };
const figures = { measures: { time_to_first_token: 0.5 }, errors: { time_to_first_token: 0.12 } };
const stream = { start: 0, end: 600000, headers: 100000, ...figures };
const lane = { left: 0, right: 600, top: 0, height: 8 };
drawLaneBase(context, colors, "", stream, lane, (us) => us / 1000, 0);
console.log(JSON.stringify(drawn));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="it needs node")
def test_the_wait_for_the_first_token_has_a_lighter_cap_where_it_may_have_come_earlier(tmp_path: Path) -> None:
    for module in MODULES:
        shutil.copy(module, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "drawing.js").write_text(DRAWING)
    done = subprocess.run(["node", "drawing.js"], cwd=tmp_path, capture_output=True, check=True, text=True)  # noqa: S607
    bar, cap = json.loads(done.stdout)[1:5:3]
    assert (bar, cap) == (["wait", 1, 0, 500], ["wait", 0.4, 380, 120])


def test_names_made_of_script_are_data_in_the_page(html: str) -> None:
    assert ('alert("x")' in html, document_in(html)["name"]) == (False, '</script><script>alert("x")</script>')


def test_a_saved_page_may_load_and_send_nothing(html: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    directives = dict(part.split(" ", 1) for part in policy[1].split("; "))
    kept = {name: directives[name] for name in ("default-src", "connect-src", "base-uri", "form-action")}
    assert kept == dict.fromkeys(kept, "'none'")


def test_a_page_with_a_thousand_streams_is_under_two_megabytes(tmp_path: Path) -> None:
    jitter = random.Random(1)
    path = tmp_path / "spans.jsonl"
    with path.open("w") as file:
        for number in range(1_000):
            gaps = [jitter.lognormvariate(3, 0.4) for _ in range(400)]
            file.write(json.dumps(document_of(make_stream(make_timeline(gaps, start_ms=number * 40)))) + "\n")
    streams = [describe_stream(stream) for stream in read_streams([str(path)], SkippedInput())]
    size = len(render_page(describe_page(streams, "x", {})))
    assert (len(streams), size < 2_000_000) == (1_000, True)


def test_a_trace_for_perfetto_has_slices_for_waits_tokens_and_stalls_and_counts_open_streams(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_text(json.dumps(document_of(make_stream(make_timeline([20, 20, 2_500, 20]), **{"session.id": "s"}))))
    trace = StringIO()
    write_perfetto(read_streams([str(path)], SkippedInput()), trace)
    events = json.loads(trace.getvalue())["traceEvents"]
    slices = {event["name"]: event["dur"] for event in events if event["ph"] == "X"}
    expected = {
        "test m": 2_765_000,
        "wait for the first token": 200_000,
        "answer": 2_560_000,
        "stall (cause unknown)": 2_500_000,
    }
    assert slices == expected
    assert [event["args"]["open"] for event in events if event["ph"] == "C"] == [1, 0]
    assert "session s" in [event["args"].get("name") for event in events if event["ph"] == "M"]


def test_a_trace_for_perfetto_has_a_process_for_each_model_and_lanes_for_what_overlaps(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    spans = [make_stream(make_timeline([20], start_ms=number * 100), model=f"m{number % 2}") for number in range(2_000)]
    path.write_text("\n".join(json.dumps(document_of(span)) for span in reversed(spans)))
    trace = StringIO()
    write_perfetto(read_streams([str(path)], SkippedInput()), trace)
    events = json.loads(trace.getvalue())["traceEvents"]
    named = sorted(event["args"]["name"] for event in events if event["name"] == "process_name")
    # Each stream takes 225 ms, and the next one of its model begins after 200 ms.
    lanes = {(event["pid"], event["tid"]) for event in events if event["ph"] == "X" and event["tid"] % 10 == 1}
    assert (named, len(lanes)) == (["otel-itl", "test m0", "test m1"], 4)
