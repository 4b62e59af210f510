"""Several workers: modules run side by side, those that need the machine for themselves come last, one by one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.plugins.ci_record import FOLDER_VARIABLE, LAST_VARIABLE
from tests.plugins.workers import ALONE

ROOT = Path(__file__).parents[2]
MODULE = """
    import os, time
    import pytest

    @pytest.mark.parametrize("number", range({tests}))
    def test_it(number, request):
        began = time.monotonic()
        time.sleep(0.02)
        with open({log!r}, "a") as log:
            print(request.module.__name__, os.environ["PYTEST_XDIST_WORKER"], began, time.monotonic(), file=log)
"""


class Ran(NamedTuple):
    """One test that ran: when it began and ended, in seconds."""

    module: str
    worker: str
    began: float
    ended: float


def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, **tests: int) -> tuple[pytest.RunResult, list[Ran]]:
    """Run modules of so many tests with two workers; names with `alone` are in a folder of `ALONE`."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the workers start in half the time
    monkeypatch.setenv(FOLDER_VARIABLE, str(pytester.path / "records"))
    log = pytester.path / "log"
    for name, count in tests.items():
        folder = pytester.path / ("tests/gateways" if name.startswith("alone") else "tests/unit")
        folder.mkdir(parents=True, exist_ok=True)
        text = MODULE.format(tests=count, log=str(log)).replace("\n    ", "\n")
        (folder / f"test_{name}.py").write_text(text, encoding="utf-8")
    plugins = ("-p", "xdist", "-p", "tests.plugins.workers", "-p", "tests.plugins.ci_record")
    result = pytester.runpytest_subprocess(*plugins, "-n", "2", "tests")
    rows = (line.split() for line in log.read_text(encoding="utf-8").splitlines())
    return result, [Ran(module, worker, float(began), float(ended)) for module, worker, began, ended in rows]


@pytest.mark.parametrize(
    ("shared", "alone"),
    [({}, {"alone_1": 1}), ({"a": 1}, {"alone_1": 1, "alone_2": 3}), ({"a": 9, "b": 1}, {"alone_1": 5, "alone_2": 1})],
    ids=str,
)
def test_a_module_that_needs_the_machine_for_itself_overlaps_no_other_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, shared: dict[str, int], alone: dict[str, int]
) -> None:
    _, ran = run(pytester, monkeypatch, **alone, **shared)
    last = [test for test in ran if "alone" in test.module]
    overlapping = [(a, b) for a in last for b in ran if a is not b and a.began < b.ended and b.began < a.ended]
    assert (len(ran), overlapping) == (sum(shared.values()) + sum(alone.values()), [])


def test_other_modules_are_spread_as_a_whole_and_the_workers_records_are_one(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LAST_VARIABLE, "1")
    result, ran = run(pytester, monkeypatch, a=4, b=4, alone_1=2)
    spread = {(test.module, test.worker) for test in ran if "alone" not in test.module}
    assert (len(spread), len({worker for _, worker in spread})) == (2, 2)
    assert result.outlines[-2] == "tests that no environment ran: none"
    assert "10 passed" in result.outlines[-1]


def test_every_module_that_needs_the_machine_for_itself_is_there() -> None:
    assert [path for path in ALONE if not (ROOT / path).exists()] == []
