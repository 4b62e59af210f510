"""What every test shares: failures that were contained before it do not count, and requirement numbers are checked."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import settings

from otel_itl.recording.internal_errors import failures

settings.register_profile("checked", derandomize=True, deadline=None)
if "CI" in os.environ:  # a change fails by what it changes, and not by the examples of the day
    settings.load_profile("checked")


@pytest.fixture(autouse=True)
def _no_failures_from_before() -> None:
    """What an earlier test planted was contained for good: the count of failures is the process's."""
    failures.clear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a `requirement` mark that names no requirement."""
    for item in items:
        for mark in item.iter_markers("requirement"):
            if not mark.args or not all(re.fullmatch(r"R[1-9]\d*", str(number)) for number in mark.args):
                message = f'{item.nodeid}: a requirement is named like "R12", got {mark.args!r}'
                raise pytest.UsageError(message)
