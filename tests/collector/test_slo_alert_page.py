"""docs/slo-alert.md: its commands run as they are written, from top to bottom, until its alert fires.

What differs from the page: ports are free ones, durations in the rules are `SHORTENED` times shorter, the model becomes
slow sooner, and metrics are exported more often.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import COLLECTOR, ROOT, Program, free_ports, shorten, wait_until

PAGE = (ROOT / "docs" / "slo-alert.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = [line for language, code in BLOCKS if language == "bash" for line in code.splitlines()]
FILES = {"app.py": ("python", "< 30 else", "< 4 else"), "prometheus.yml": ("yaml", "30s", "500ms")}
"""File of the page → the language of its block, and what is replaced in it."""
EXPORT_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


class Reader:
    """Follows the page in an empty folder; programs that it starts run until `stop`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        grpc, http, health, own, self.prometheus_port = free_ports(5)
        self.ports = {":9090": f":{self.prometheus_port}", ":4318": f":{http}"}
        self.ready = {
            "prometheus": f"http://127.0.0.1:{self.prometheus_port}/-/ready",
            "otelcol-contrib": f"http://127.0.0.1:{health}",
        }
        self.environ = {
            "PATH": os.pathsep.join((str(folder / "bin"), os.environ["PATH"])),
            "PYTHONPATH": str(ROOT),
            "ITL_GRPC_ENDPOINT": f"127.0.0.1:{grpc}",
            "ITL_HTTP_ENDPOINT": f"127.0.0.1:{http}",
            "ITL_HEALTH_ENDPOINT": f"127.0.0.1:{health}",
            "ITL_SELF_PORT": str(own),
            "ITL_REMOTE_WRITE_URL": f"http://127.0.0.1:{self.prometheus_port}/api/v1/write",
            "ITL_SPAN_METRICS_INTERVAL": "1s",
        }
        self.printed: dict[str, str] = {}
        self._programs: list[Program] = []
        (folder / "bin").mkdir()
        for name, command in (("otel-itl", "-m otel_itl"), ("python", "")):
            script = folder / "bin" / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {command} "$@"\n')
            script.chmod(0o700)
        (folder / "bin" / "otelcol-contrib").symlink_to(COLLECTOR)
        for name, (wanted, before, after) in FILES.items():
            (text,) = (code for language, code in BLOCKS if language == wanted and code.startswith(f"# {name}\n"))
            assert before in text
            (folder / name).write_text(text.replace(before, after))

    def follow(self, line: str) -> None:
        """Do what a line of the page says."""
        for before, after in self.ports.items():
            line = line.replace(before, after)
        program, *arguments = shlex.split(line)
        if program == "export":
            name, _, value = arguments[0].partition("=")
            self.environ[name] = "500" if name == EXPORT_INTERVAL else value
        elif program == "prometheus":
            self._start(program, [*shlex.split(line), f"--web.listen-address=127.0.0.1:{self.prometheus_port}"])
        elif program == "otelcol-contrib":
            self._start(program, [str(self.folder / "bin" / program), *arguments])
        elif program == "python":
            self._start("app", [sys.executable, *arguments], self.ready["prometheus"])
        elif program == "promtool" and arguments[0] == "query":
            self.printed[line] = str(wait_until(lambda: self._run(line).strip(), line))
        else:
            self.printed[line] = self._run(line)
        rules = self.folder / "rules.yml"
        if program == "otel-itl" and arguments[0] == "alerts":
            rules.write_text(shorten(rules.read_text()))

    def _start(self, name: str, command: list[str], ready: str = "") -> None:
        self._programs.append(Program(name, command, self.folder, ready or self.ready[name], self.environ))
        self._programs[-1].start()

    def _run(self, line: str) -> str:
        environ = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "ITL_"))}
        ran = subprocess.run(
            ["/bin/sh", "-euc", line],
            cwd=self.folder,
            env=environ | self.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, ""), line
        return ran.stdout

    def stop(self) -> None:
        for program in reversed(self._programs):
            program.stop()


@pytest.fixture(scope="module")
def reader(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """One that has followed the page to its end."""
    pytest.importorskip("openai")
    reading = Reader(tmp_path_factory.mktemp("slo_alert"))
    try:
        for line in COMMANDS:
            if not line.startswith("pip install "):
                reading.follow(line)
        yield reading
    finally:
        reading.stop()


def test_the_alert_of_the_page_fires_with_the_labels_that_it_shows(reader: Reader) -> None:
    (shown,) = (code for language, code in BLOCKS if language == "text" and code.startswith("ALERTS"))
    (printed,) = (text for line, text in reader.printed.items() if "ALERTS" in line)
    assert printed.partition(" => ")[0] == shown.partition(" => ")[0]


def test_the_counts_of_the_page_are_those_of_met_and_missed(reader: Reader) -> None:
    (printed,) = (text for line, text in reader.printed.items() if "slo_tokens_total" in line)
    assert set(re.findall(r'itl_slo_met="(\w+)"', printed)) == {"true", "false"}


def test_promtool_finds_nothing_wrong_with_the_rules(reader: Reader) -> None:
    (printed,) = (text for line, text in reader.printed.items() if "check rules" in line)
    assert re.search(r"SUCCESS: \d+ rules found", printed)
