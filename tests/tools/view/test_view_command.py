"""`otel-itl view`, `run --view` and `report --html`: what they refuse, and what they do around a program."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from made import document_of, make_stream, make_timeline

from otel_itl.cli import main

pytest.importorskip("starlette", reason="the extra `view` is not installed")

OTEL_ITL = [sys.executable, "-m", "otel_itl"]
QUIET_ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}


@pytest.fixture
def spans(tmp_path: Path) -> Path:
    path = tmp_path / "spans.jsonl"
    path.write_text(json.dumps(document_of(make_stream(make_timeline([20] * 5)))))
    return path


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["view", "missing.jsonl"], "otel-itl view: missing.jsonl does not exist."),
        (["view", "--port", "x"], "'x' is not a port: it takes a whole number from 0 to 65535"),
        (["view", "--grpc-port", "x"], "'x' is not a port, or off: it takes a whole number from 0 to 65535"),
        (["view", "--keep", "0"], "'0' is not a number of streams: it takes a whole number from 1 to 1000000"),
        (["view", "--compare"], "otel-itl view: --compare takes two files or more: each is a side."),
        (["view", "--listen", "nowhere.invalid", "--no-open"], "otel-itl view: nowhere.invalid port 4318 cannot be"),
        (["report", "--html", "o.html", "--json", "x"], "otel-itl report: --html goes with no other option"),
        (
            ["report", "--html", "-", "missing.jsonl"],
            "otel-itl report: '-' is not the name of a file: name the output.",
        ),
        (["report", "--html", "o.html", "missing.jsonl"], "otel-itl report: missing.jsonl does not exist."),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (main(arguments), sentence in capsys.readouterr().err) == (2, True)


def test_a_port_in_use_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = main(["view", "--port", str(port), "--grpc-port", "off", "--no-open"])
    sentence = f"otel-itl view: port {port} is in use: give --port another one, or 0 for any that is free.\n"
    assert (code, capsys.readouterr().err) == (2, sentence)


def test_a_grpc_port_in_use_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("grpc", reason="grpcio is not installed")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = main(["view", "--port", "0", "--grpc-port", str(port), "--no-open"])
    remedies = "give --grpc-port another one, 0 for any that is free, or off.\n"
    sentence = f"otel-itl view: port {port} for OTLP over gRPC is in use: {remedies}"
    assert (code, capsys.readouterr().err) == (2, sentence)


def test_a_binary_file_is_refused_before_a_page_is_opened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "garbage.bin"
    path.write_bytes(bytes(range(256)))
    assert (main(["view", "--no-open", str(path)]), f"{path} is binary: " in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize("option", ["--html", "--perfetto"])
def test_an_input_is_never_overwritten(option: str, spans: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = spans.read_bytes()
    assert (main(["report", option, str(spans), str(spans)]), spans.read_bytes() == before) == (2, True)
    assert "is an input, and is left as it is" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--html", "--perfetto"])
def test_a_place_that_cannot_be_written_is_one_sentence(
    option: str, spans: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = spans.parent / "missing" / "out"
    assert main(["report", option, str(output), str(spans)]) == 2
    assert capsys.readouterr().err == f"otel-itl report: {output} cannot be written to (No such file or directory).\n"


def test_input_without_a_stream_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, output = tmp_path / "empty.jsonl", tmp_path / "out.html"
    empty.write_text('{"resourceSpans": []}\n')
    assert (main(["report", "--html", str(output), str(empty)]), output.exists()) == (2, False)
    assert f"no usable stream in {empty}: " in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--html", "--perfetto"])
def test_the_output_is_named_with_its_number_of_streams(
    option: str, spans: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = spans.parent / "out"
    assert main(["report", option, str(output), str(spans)]) == 0
    assert capsys.readouterr().out.startswith(f"{output}: 1 stream")


def test_a_program_that_is_run_with_a_page_sends_progress_and_keeps_its_exit_code(tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text("import os, sys; print(os.environ['OTEL_ITL_PROGRESS']); sys.exit(7)")
    command = [*OTEL_ITL, "run", "--view", "--no-open", "--quiet", str(program)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=QUIET_ENVIRONMENT, timeout=50, check=False
    )
    assert (done.returncode, done.stdout, "http://127.0.0.1:" in done.stderr) == (7, "0.25\n", True)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_signal_reaches_the_program_past_the_page(tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text("import time\nprint('ready', flush=True)\nfor _ in range(1_200): time.sleep(0.05)")
    command = [*OTEL_ITL, "run", "--view", "--no-open", "--quiet", str(program)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path, env=QUIET_ENVIRONMENT
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        run.send_signal(signal.SIGTERM)
        assert run.wait(30) == -signal.SIGTERM
