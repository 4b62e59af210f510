"""What every test shares: requirement numbers are checked, so that the table made from them can be trusted."""

from __future__ import annotations

import re

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a `requirement` mark that names no requirement."""
    for item in items:
        for mark in item.iter_markers("requirement"):
            if not mark.args or not all(re.fullmatch(r"R[1-9]\d*", str(number)) for number in mark.args):
                message = f'{item.nodeid}: a requirement is named like "R12", got {mark.args!r}'
                raise pytest.UsageError(message)
