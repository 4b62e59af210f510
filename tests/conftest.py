"""Shared by all tests: hypothesis profile, a reset of the counted failures, a check of the requirement marks."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import settings

from otel_itl.runtime import runtime
from otel_itl.sdks import installer

pytest_plugins = ("pytester", "tests.plugins.skipped_tests", "tests.plugins.ci_record", "tests.plugins.workers")

# How long an example takes depends on what else the machine does. CI tries the same examples in every run, so that only
# a change of the code can fail it.
settings.register_profile("checked", derandomize="CI" in os.environ, deadline=None)
settings.load_profile("checked")


# A job in the background of a shell ignores SIGINT and SIGQUIT, and one under nohup SIGHUP. Programs that tests start
# would ignore them, too.
for _name, _handler in {
    "SIGINT": signal.default_int_handler,
    "SIGQUIT": signal.SIG_DFL,
    "SIGHUP": signal.SIG_DFL,
}.items():
    if hasattr(signal, _name) and signal.getsignal(getattr(signal, _name)) is signal.SIG_IGN:
        signal.signal(getattr(signal, _name), _handler)


@pytest.fixture(scope="module", autouse=True)
def _frozen() -> Iterator[None]:
    """Keep the garbage collector from looking at what was there before the module, such as every SDK.

    Tests call it to have a stream finalized: looking at all would take longer than such a test.
    """
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def _releases_read_once() -> Iterator[None]:
    """Read the release of each SDK once: what is installed stays so, and `instrument()` reads all of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(installer, "version", cache(installer.version))
        yield


@pytest.fixture(autouse=True)
def _no_failures_from_before() -> None:
    """Clear the process-wide count of contained failures, which an earlier test may have caused on purpose."""
    runtime.errors.counts.clear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a `requirement` mark that names no requirement."""
    for item in items:
        for mark in item.iter_markers("requirement"):
            if not mark.args or not all(re.fullmatch(r"R[1-9]\d*", str(number)) for number in mark.args):
                message = f'{item.nodeid}: a requirement is named like "R12", got {mark.args!r}'
                raise pytest.UsageError(message)
