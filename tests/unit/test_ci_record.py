"""The record of which tests ran in which environment of CI, and the check at the end of its last run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.ci_record import FOLDER_VARIABLE, LAST_VARIABLE, never_ran, stable_id

MODULE = """
    import os
    import pytest

    def test_anywhere():
        pass

    @pytest.mark.skipif("FIRST" not in os.environ, reason="needs the first environment")
    def test_in_the_first_environment():
        pass

    @pytest.mark.skipif("FIRST" in os.environ, reason="needs the last environment")
    def test_in_the_last_environment():
        pass

    @pytest.mark.skipif(True, reason="needs what no environment has")
    def test_nowhere():
        pass
"""


@pytest.fixture
def records(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the records, which the inner runs of pytest share."""
    folder = pytester.path / "records"
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    monkeypatch.delenv(LAST_VARIABLE, raising=False)
    return folder


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-p", "tests.plugins.ci_record", *arguments)


def run_last(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.RunResult:
    monkeypatch.setenv(LAST_VARIABLE, "1")
    return run(pytester)


def recorded(records: Path) -> list[str]:
    return sorted(line for file in records.glob("*.ran") for line in file.read_text(encoding="utf-8").split("\n"))


def test_a_run_records_the_tests_that_passed_or_failed(pytester: pytest.Pytester, records: Path) -> None:
    pytester.makepyfile(
        test_it=MODULE
        + """
    def test_fails():
        assert False

    @pytest.mark.xfail(strict=True)
    def test_fails_as_expected():
        assert False
    """
    )
    run(pytester)
    assert recorded(records) == [
        "test_it.py::test_anywhere",
        "test_it.py::test_fails",
        "test_it.py::test_fails_as_expected",
        "test_it.py::test_in_the_last_environment",
    ]


def test_nothing_is_recorded_without_the_variable(
    pytester: pytest.Pytester, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_it=MODULE)
    monkeypatch.delenv(FOLDER_VARIABLE)
    run(pytester)
    assert recorded(records) == []


@pytest.fixture
def after_two_runs(pytester: pytest.Pytester, records: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.RunResult:
    """The last run of two environments; `test_nowhere` ran in neither."""
    pytester.makepyfile(test_it=MODULE)
    with monkeypatch.context() as first:
        first.setenv("FIRST", "1")
        run(pytester)
    return run_last(pytester, monkeypatch)


def test_a_test_that_ran_in_no_environment_is_printed_above_the_last_line(after_two_runs: pytest.RunResult) -> None:
    *_, heading, listed, last = after_two_runs.outlines
    assert [heading, listed] == ["tests that no environment ran: 1", "  test_it.py::test_nowhere"]
    assert "1 passed, 1 skipped" in last


def test_what_another_environment_ran_is_left_out_of_the_last_run(after_two_runs: pytest.RunResult) -> None:
    after_two_runs.assert_outcomes(passed=1, skipped=1, deselected=2)


def test_what_failed_in_the_last_run_is_run_again_when_that_is_repeated(
    pytester: pytest.Pytester, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_it="def test_fails(): assert False")
    run_last(pytester, monkeypatch)
    run_last(pytester, monkeypatch).assert_outcomes(failed=1)


def test_a_test_that_ran_in_no_environment_fails_the_last_run(after_two_runs: pytest.RunResult) -> None:
    assert after_two_runs.ret == pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def after_all_ran(pytester: pytest.Pytester, records: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.RunResult:
    """The last run of two environments that ran every test between them."""
    pytester.makepyfile(test_it=MODULE.partition("@pytest.mark.skipif(True")[0])
    with monkeypatch.context() as first:
        first.setenv("FIRST", "1")
        run(pytester)
    return run_last(pytester, monkeypatch)


def test_a_list_without_tests_is_printed_as_none(after_all_ran: pytest.RunResult) -> None:
    assert "tests that no environment ran: none" in after_all_ran.outlines


def test_a_last_run_without_missing_tests_passes(after_all_ran: pytest.RunResult) -> None:
    assert after_all_ran.ret == pytest.ExitCode.OK


def test_a_module_that_is_skipped_in_every_environment_is_missing_by_its_path(
    pytester: pytest.Pytester, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_it=MODULE.partition("@pytest.mark")[0])
    pytester.makepyfile(test_absent="import pytest\npytest.importorskip('no_such_package')\ndef test_it(): pass")
    assert "  test_absent.py" in run_last(pytester, monkeypatch).outlines


def test_a_module_that_is_skipped_in_the_last_run_alone_ran() -> None:
    assert never_ran({"a.py", "b.py::test"}, {"a.py::test", "b.py::test"}) == []


def test_the_address_of_an_object_is_no_part_of_a_node_id() -> None:
    assert stable_id("a.py::test[<X object at 0x7f3e73194d70>]") == "a.py::test[<X object at 0x…>]"
