"""Python as it is where `pip install 'otel-itl[EXTRAS]'` alone was run: without what else this environment has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
_SITE = """
import sys

from importlib.machinery import PathFinder

class Installed(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in ABSENT else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Installed
"""


def leave_out_all_but(extras: Iterable[str], folder: Path) -> Path:
    """Write a `sitecustomize` into a folder for PYTHONPATH, which hides what the extras do not bring.

    What the extras bring is looked up in this environment, where all of it has to be installed. Returns the folder.
    """
    kept = _distributions(extras)
    absent = [module for module, owners in packages_distributions().items() if kept.isdisjoint(map(_canonical, owners))]
    (folder / "sitecustomize.py").write_text(f"ABSENT = {set(absent) - {'otel_itl'}!r}\n{_SITE}", encoding="utf-8")
    return folder


def _distributions(extras: Iterable[str]) -> set[str]:
    """Return the names of all distributions that an install with these extras brings."""
    import tomllib  # not in Python 3.10

    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    waiting = [Requirement(each) for each in project["dependencies"]]
    waiting += [Requirement(f"otel-itl[{extra}]") for extra in extras]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        name = _canonical(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            if name == "otel-itl":
                waiting += [Requirement(each) for each in optional.get(extra, [])]
            else:
                waiting += _requirements(requirement.name, extra)
    return {name for name, _ in seen}


def _requirements(name: str, extra: str) -> list[Requirement]:
    """Return what an installed distribution requires in this environment, with one of its extras."""
    try:
        found = [Requirement(each) for each in requires(name) or ()]
    except PackageNotFoundError:
        return []
    return [each for each in found if each.marker is None or each.marker.evaluate({"extra": extra})]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
