"""`otel-itl report --explain`: what it prints in each form, what it refuses, and what it needs."""

from __future__ import annotations

import base64
import json
import random
import re
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="the extra `explain` is not installed")
pytest.importorskip("rich", reason="the extra `tools` is not installed")

from otel_itl.cli import main
from otel_itl.core.timeline import SECOND
from otel_itl.tools.explain.observations import Observation
from tests.tools.explain.fleet_files import write_streams

MONDAY = 1_772_409_600
"""Unix time of 2026-03-02, 0:00 UTC."""
PROMPTS = (200, 1_000, 2_000, 4_000, 8_000)
COST = 0.002
"""Seconds a token for 1,000 prompt tokens; a token without any takes 20 ms."""
SENTENCE = re.compile(r"Each further 1,000 prompt tokens cost 2\.\d+ ms a token \(([\d.]+) to ([\d.]+)\)\.")


def make_streams(number: int, cost: float = COST, model: str = "openai / gpt-4o") -> list[Observation]:
    """Streams over eight days, ten minutes apart by day, whose latency varies at random and with the prompt."""
    chance = random.Random(5)  # noqa: S311 - no secret
    streams = []
    for index in range(number):
        prompt = PROMPTS[chance.randrange(len(PROMPTS))]
        start = MONDAY + (index % 8) * 86_400 + 30_000 + index // 8 * 600
        streams.append(
            Observation(
                model=model,
                session=f"session-{index // 8}-{index % 8}",
                start_ns=start * SECOND,
                duration=1.0,
                tokens=40,
                ttft=0.3 * chance.lognormvariate(0, 0.05),
                itl=(0.02 + cost * prompt / 1_000) * chance.lognormvariate(0, 0.05),
                prompt_tokens=prompt,
                server="10.0.0.1:443",
            )
        )
    return streams


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The telemetry of three processes, whose prompts drive the latency."""
    folder = tmp_path_factory.mktemp("fleet")
    return str(write_streams(folder / "fleet.jsonl", make_streams(120), instances=3))


@pytest.mark.filterwarnings("error")
def test_a_driver_is_a_sentence_with_its_size_and_its_share(fleet: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["report", "--explain", fleet])
    shown = capsys.readouterr()
    printed = " ".join(shown.out.split())
    found = SENTENCE.search(printed)
    assert found is not None, printed
    assert (code, shown.err, float(found[1]) <= 2.0 <= float(found[2])) == (0, "", True)
    assert "It comes with the request." in printed
    assert "Over 120 streams of 3 processes, hours in UTC." in printed


def test_a_latency_that_nothing_drives_is_one_line(fleet: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", "--explain", fleet])
    printed = " ".join(capsys.readouterr().out.split())
    silence = re.findall(r"Nothing that was examined explains [^;]*;", printed)
    assert silence == ["Nothing that was examined explains TTFT, over 120 streams;"]


def test_json_has_its_own_schema(fleet: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["report", "--explain", "--json", "--zone", "Europe/Berlin", fleet])
    data = json.loads(capsys.readouterr().out)
    (finding,) = data["findings"]
    assert (code, data["schema"], data["zone"], data["instances"], data["own_load"]) == (
        0,
        "otel-itl.explain.v1",
        "Europe/Berlin",
        3,
        "all processes",
    )
    assert (finding["driver"], finding["target"], finding["points_to"]) == ("prompt_tokens", "itl", "request")
    assert set(data["skipped_input"].values()) == {0}


def test_a_page_has_the_streams_and_what_drives_them(
    fleet: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    code = main(["report", "--explain", "--html", str(page), fleet])
    packed = re.search(r'id="data">([^<]*)<', page.read_text())
    assert packed is not None
    document = json.loads(zlib.decompress(base64.b64decode(packed[1])))
    (model,) = document["explanation"]["models"]
    (finding,) = model["findings"]
    assert (code, "120 streams on a page" in capsys.readouterr().out, len(document["streams"])) == (0, True, 120)
    points = {point["label"]: point["y"] for point in finding["points"]}
    assert SENTENCE.fullmatch(finding["sentence"])
    assert points == pytest.approx({f"{prompt:,}": 20_000 + 2 * prompt for prompt in PROMPTS}, rel=0.04)


def test_the_load_of_one_process_is_that_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_streams(tmp_path / "one.jsonl", make_streams(80))
    main(["report", "--explain", "--json", str(file)])
    assert json.loads(capsys.readouterr().out)["own_load"] == "this input"


def test_an_input_of_minutes_has_one_line_of_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    streams = [replace(one, start_ns=MONDAY * SECOND + 20 * i * SECOND) for i, one in enumerate(make_streams(80))]
    code = main(["report", "--explain", "--json", str(write_streams(tmp_path / "short.jsonl", streams))])
    printed = capsys.readouterr()
    sentence = (
        "otel-itl report: all requests lie within 27 minutes: effects of the hour, of the weekday and of silences "
        "cannot be seen in them.\n"
    )
    assert (code, printed.err, json.loads(printed.out)["streams"]) == (0, sentence, 80)


def test_too_few_streams_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_streams(tmp_path / "few.jsonl", make_streams(12))
    code = main(["report", "--explain", str(file)])
    printed = capsys.readouterr()
    sentence = (
        "otel-itl report: --explain needs 60 streams of one model, and five days of them for hours and weekdays: "
        "openai / gpt-4o has 12 streams.\n"
    )
    assert (code, printed.out, printed.err) == (1, "", sentence)


def test_a_file_without_streams_is_refused_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.jsonl").write_text("{}\n")
    code = main(["report", "--explain", str(tmp_path / "other.jsonl")])
    assert (code, capsys.readouterr().err.splitlines()[-1].startswith("otel-itl report: no usable stream")) == (
        2,
        True,
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--explain", "--as", "vllm"],
            "--explain does not go with --as: it goes with --zone, --by,",
        ),
        (["--explain", "--slo", "chat"], "--explain does not go with --slo: it goes with"),
        (["--explain", "--perfetto", "out"], "--explain does not go with --perfetto: it goes with"),
        (["--explain", "--json", "--html", "out"], "--explain does not go with --json and --html together: it goes"),
        (["--zone", "UTC"], "--zone belongs to --explain: leave it out, or add --explain."),
        (
            ["--explain", "--zone", "Berlin"],
            "'Berlin' is not a time zone: it takes a name such as Europe/Berlin or UTC",
        ),
        (["--explain", "--zone", "/etc"], "'/etc' is not a time zone: it takes a name such as Europe/Berlin or UTC"),
    ],
)
def test_what_does_not_go_together_is_refused(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["report", *arguments, "file.jsonl"])
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    assert (code, sentence in capsys.readouterr().err) == (2, True)


def test_an_input_is_not_written_over(fleet: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path(fleet).read_bytes()
    code = main(["report", "--explain", "--html", fleet, fleet])
    assert (
        code,
        "is an input, and is left as it is" in capsys.readouterr().err,
        Path(fleet).read_bytes() == before,
    ) == (
        2,
        True,
        True,
    )


def test_without_the_extra_it_says_how_to_install_it(
    fleet: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("otel_itl.cli.commands._is_installed", lambda module: module not in {"numpy", "scipy"})
    code = main(["report", "--explain", fleet])
    sentence = "otel-itl needs numpy, scipy for this: pip install 'otel-itl[tools]'\n"
    assert (code, capsys.readouterr().err) == (2, sentence)


def test_a_report_without_it_loads_none_of_its_libraries(fleet: str) -> None:
    program = (
        "import sys; from otel_itl.cli import main; main(['report', '--json', sys.argv[1]]); "
        "print(sorted({'numpy', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program, fleet], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
