"""The lines about skipped tests that a run of pytest ends with."""

from __future__ import annotations

import pytest

from tests.plugins.skipped_tests import cause_of, summary_lines

PACKAGE = "another package or another release of one"
PROGRAM = "a program that is not on this machine"
SYSTEM = "another Python or operating system"


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("Skipped: could not import 'rich': No module named 'rich'", PACKAGE),
        ("Skipped: openai 1.40.0 has no responses API", PACKAGE),
        ("Skipped: there is no opentelemetry-instrument beside this Python", PACKAGE),
        ("Skipped: a reason that is not listed", PACKAGE),
        ("Skipped: not on this machine: prometheus, promtool", PROGRAM),
        ("Skipped: interpreters with a lock of their own are new in Python 3.12", SYSTEM),
        ("Skipped: this system has no fork", SYSTEM),
        ("Skipped: this machine is too busy to tell: 3.1 ms", "a machine that is less busy"),
    ],
)
def test_the_reason_of_a_skip_shows_what_the_test_needs(reason: str, cause: str) -> None:
    assert cause_of(reason) == cause


def test_the_skips_of_a_run_are_three_lines_with_the_largest_cause_first() -> None:
    reasons = ["this system has no fork", "openai has no x", "anthropic has no y", "not on this machine: amtool"]
    assert summary_lines(reasons) == [
        f"skipped: 4 tests; 2 need {PACKAGE}, 1 need {SYSTEM}, 1 need {PROGRAM}",
        "run them: bash .ci/run",
        "list every reason: python -m pytest -rs",
    ]


def test_a_run_without_skips_has_no_lines_about_them() -> None:
    assert summary_lines([]) == []


def test_the_lines_stand_directly_above_the_last_line_of_pytest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        def test_passes():
            pass

        def test_needs_a_package():
            pytest.importorskip("no_such_package")
    """)
    *_, first, second, third, last = pytester.runpytest_inprocess("-p", "tests.plugins.skipped_tests").outlines
    assert [first, second, third] == summary_lines(["could not import 'no_such_package'"])
    assert "1 passed, 1 skipped" in last
