"""Records which tests each environment of CI ran; the last run runs the others, and fails when a test ran in none.

Two environment variables switch it on. `ITL_TEST_RECORD_DIR` names a folder, to which every process that runs tests
adds files. The run for which `ITL_TEST_RECORD_IS_LAST` is set as well has to collect all tests, and reads all files: it
leaves out what another environment has run, so that each test runs once at least and few run more often.
With several workers, each of them adds files, and the process that started them compares.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Final

import pytest

FOLDER_VARIABLE: Final = "ITL_TEST_RECORD_DIR"
LAST_VARIABLE: Final = "ITL_TEST_RECORD_IS_LAST"
RAN: Final = ".ran"
"""How the files of tests that ran end."""
RAN_LAST: Final = f".last{RAN}"
"""The same, of the last run: when it is repeated for what failed, it has to run that again."""
ADDRESS: Final = re.compile(r"\b0x[0-9a-f]+")


def stable_id(node_id: str) -> str:
    """Return the node id of a test without what differs from process to process: addresses of objects."""
    return ADDRESS.sub("0x…", node_id)


def never_ran(collected: set[str], ran: set[str]) -> list[str]:
    """Return, sorted, the collected node ids that did not run.

    A module that was skipped as a whole is collected by its path; it ran when any test in it ran.
    """
    modules = {node_id.partition("::")[0] for node_id in ran}
    return sorted(node_id for node_id in collected - ran if node_id not in modules)


class RunRecorder:
    """pytest plugin: writes down which tests a process collected and which of them it ran.

    Args:
        folder: where each process leaves files with one node id per line.
        is_last: whether this is the run that compares what it collected with what any run ran.
        is_worker: whether another process has started this one, and compares.
    """

    def __init__(self, folder: Path, *, is_last: bool, is_worker: bool = False) -> None:
        self._folder = folder
        self._is_last = is_last
        self._is_worker = is_worker
        self._collected: set[str] = set()
        self._ran: set[str] = set()
        self._missing: list[str] | None = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that was skipped when it was imported: its tests are not known."""
        if report.skipped:
            self._collected.add(stable_id(report.nodeid))

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """In the last run, leave out what another environment has run."""
        if self._is_last:
            done = self._read(RAN) - self._read(RAN_LAST)
            left_out = [item for item in items if stable_id(item.nodeid) in done]
            if left_out:
                config.hook.pytest_deselected(items=left_out)
                items[:] = [item for item in items if stable_id(item.nodeid) not in done]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note every test that was collected and not deselected."""
        self._collected.update(stable_id(item.nodeid) for item in session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that ran: it was called, or failed before that. A skipped test did not run."""
        is_expected_failure = hasattr(report, "wasxfail")
        if report.failed or (report.when == "call" and (report.passed or is_expected_failure)):
            self._ran.add(stable_id(report.nodeid))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the record; in the last run, compare, and fail the run when a test never ran."""
        self._write(RAN_LAST if self._is_last else RAN, self._ran)
        if self._is_last:
            self._write(".collected", self._collected)
        compares = self._is_last and not self._is_worker
        if compares and exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            self._missing = never_ran(self._read(".collected"), self._read(RAN))
            if self._missing:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the tests that no run ran. pytest calls this before it prints its own last line."""
        if self._missing is not None:
            terminalreporter.write_line(f"tests that no environment ran: {len(self._missing) or 'none'}")
            for node_id in self._missing:
                terminalreporter.write_line(f"  {node_id}")

    def _write(self, suffix: str, node_ids: set[str]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", suffix=suffix, dir=self._folder, encoding="utf-8", delete=False) as file:
            file.write("\n".join(sorted(node_ids)))

    def _read(self, suffix: str) -> set[str]:
        texts = (file.read_text(encoding="utf-8") for file in self._folder.glob(f"*{suffix}"))
        return {line for text in texts for line in text.splitlines()}


def pytest_configure(config: pytest.Config) -> None:
    """Register the recorder where the environment asks for it."""
    if folder := os.environ.get(FOLDER_VARIABLE):
        is_worker = hasattr(config, "workerinput")  # of pytest-xdist
        recorder = RunRecorder(Path(folder), is_last=LAST_VARIABLE in os.environ, is_worker=is_worker)
        config.pluginmanager.register(recorder, "ci_record")
