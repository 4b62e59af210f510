"""The overhead benchmark runs and prints every row. How fast anything is, is no matter of tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAIN = ("floor", "**otel_itl**", "official", "OpenLLMetry", "OpenInference")
PEERS = ("openai-v2", "langfuse", "sentry")
"""Others that are compared where the SDK is openai: in the tables of times and bytecodes."""
SETTINGS = (
    "otel_itl, not sampled",
    "otel_itl, exponential",
    "otel_itl, not sampled, exponential",
    "official, not sampled",
    "official, exponential",
    "OpenLLMetry, not sampled",
    "OpenInference, not sampled",
)
FORMS = ("packed", "each", "log", "none")
ROWS = {
    "{sdk}, sync: cost beyond the bare SDK, by part": (*MAIN, *PEERS, *SETTINGS),
    "{sdk}, async: cost beyond the bare SDK, by part": (*MAIN, *PEERS, *SETTINGS),
    "{sdk}: total cost of a stream, by its length": (*MAIN, *PEERS),
    "{sdk}: the real client over loopback": ("uninstrumented", *MAIN, *PEERS),
    "{sdk}: how long the end of a stream of 60 tokens blocks its thread": (
        *MAIN,
        *(f"otel_itl, token_events={form}" for form in FORMS),
    ),
    "{sdk}: CPU time inside otel_itl, by function": (
        "opening a recording",
        "binding the response",
        "finalizing a stream",
        "· building the timeline",
        "· computing the measures",
        "· adding token events to the span",
        "· span.set_attributes",
        "· span.end",
        "recording metrics",
        "encoding token events on export",
    ),
    "{sdk}: memory per chunk": MAIN,
    "{sdk}: memory at scale": ("**otel_itl**",),
    "{sdk}: payload of each form of the token events": tuple(f"`{form}`" for form in FORMS),
}
COUNTED_ROWS = {
    "{sdk}, sync: Python bytecodes": (*MAIN, *PEERS),
    "{sdk}, async: Python bytecodes": (*MAIN, *PEERS),
}


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "bench.overhead", "--quick", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(printed: str) -> dict[str, tuple[str, ...]]:
    """The first column of every table, by its heading."""
    found: dict[str, list[str]] = {}
    for line in printed.splitlines():
        if line.startswith("### "):
            found[line[4:]] = []
        elif line.startswith("| ") and found:
            next(reversed(found.values())).append(line.split("|")[1].strip())
    # Below the header and the line under it.
    return {heading: tuple(labels[2:]) for heading, labels in found.items()}


@pytest.fixture(scope="module", params=["openai", "anthropic"])
def sdk(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    return str(request.param)


@pytest.fixture(scope="module")
def times(sdk: str) -> str:
    return run("--sdk", sdk)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("heading", ROWS)
def test_a_quick_run_prints_every_row_of_a_table(heading: str, sdk: str, times: str) -> None:
    expected = tuple(row for row in ROWS[heading] if sdk == "openai" or row not in PEERS)
    assert rows(times)[heading.format(sdk=sdk)] == expected


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.requirement("R56")
def test_the_payload_of_every_form_is_printed_per_token(times: str, sdk: str) -> None:
    table = times.split(f"### {sdk}: payload of each form of the token events")[1]
    packed = next(line for line in table.splitlines() if line.startswith("| `packed`"))
    _, _, _, per_token, *_ = (cell.strip() for cell in packed.split("|"))
    assert float(per_token) > 0


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_run_says_what_it_measured_and_on_what(times: str, sdk: str) -> None:
    said = times.partition("###")[0]
    assert "`python -m bench.overhead`" in said
    assert f"{sdk} " in said
    assert "opentelemetry-sdk " in said
    assert "cores" in said


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("heading", COUNTED_ROWS)
def test_a_quick_count_prints_every_row_of_a_table(heading: str, counts: str) -> None:
    assert rows(counts)[heading.format(sdk="openai")] == COUNTED_ROWS[heading]


@pytest.fixture(scope="module")
def counts() -> str:
    pytest.importorskip("openai")
    return run("--sdk", "openai", "--instructions", "bytecodes")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_section_of_a_page_is_replaced_and_the_rest_of_it_kept(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    page = tmp_path / "page.md"
    begin, end = "<!-- generated: instructions -->", "<!-- end of generated: instructions -->"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    printed = run("--sdk", "openai", "--instructions", "bytecodes", "--write", str(page))
    assert page.read_text() == f"before\n{begin}\n\n{printed}{end}\nafter\n"
