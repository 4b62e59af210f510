"""The files of `collector/` that a command hands out: part of the package where it is installed from a wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent
_SOURCE: Final = _HERE.parents[2] / "collector"
"""Where they stand in a checkout, which the wheel is made from."""


def find_file(name: str) -> Path:
    """Return the path of a file, or of a folder, given by its name in `collector/`."""
    packaged = _HERE / name
    return packaged if packaged.exists() else _SOURCE / name
