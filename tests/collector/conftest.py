"""The real programs, started once: what is not on the machine skips the tests that need it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fleet import Fleet, missing
from load import HOLD_SECONDS, KEEP_PERCENT, emitted, played, steady, truths

__all__ = ["emitted", "played", "steady", "truths"]


@pytest.fixture(scope="session")
def programs() -> None:
    """Nothing; without the programs the test is skipped."""
    if reason := missing():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def fleet(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("fleet"), KEEP_PERCENT, HOLD_SECONDS) as running:
        yield running
