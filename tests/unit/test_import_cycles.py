"""No module of the package imports itself through others, not even for the type checker or inside a function."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.source_tree import MODULES, PACKAGE, imports_of, name_of

Graph = dict[str, set[str]]


def graph_of(files: list[Path], package: Path) -> Graph:
    """Return the modules that each module imports, within the package.

    The package's own `__init__` loads the modules of its public names on demand: these imports are left out.
    """
    names = {name_of(file, package) for file in files}
    return {
        name_of(file, package): {
            found.module
            for found in imports_of(file, package)
            if found.module in names and not (found.is_deferred and name_of(file, package) == package.name)
        }
        for file in files
    }


def cycles(graph: Mapping[str, set[str]]) -> list[str]:
    """Return a chain of imports for each cycle: when the last import of each is removed, none is left."""
    left = {name: set(imported) for name, imported in graph.items()}
    found = []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            chain = list(reversed(error.args[1]))
            found.append(" imports ".join(chain))
            left[chain[-2]].discard(chain[-1])
        else:
            return found


def test_no_module_imports_itself_through_others() -> None:
    assert cycles(graph_of(MODULES, PACKAGE)) == []


def planted(tmp_path: Path, **sources: str) -> list[str]:
    """Return the cycles of a package of these modules."""
    package = tmp_path / "pack"
    package.mkdir()
    for name, source in {"__init__": "", **sources}.items():
        (package / f"{name}.py").write_text(source, encoding="utf-8")
    return cycles(graph_of(sorted(package.glob("*.py")), package))


@pytest.mark.parametrize(
    "back",
    [
        "import pack.first",
        "from pack import first",
        "from .first import f",
        "def f():\n    from pack import first",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack.first import f",
    ],
)
def test_an_import_that_leads_back_is_found(tmp_path: Path, back: str) -> None:
    assert planted(tmp_path, first="import pack.second", second=back) in (
        ["pack.first imports pack.second imports pack.first"],
        ["pack.second imports pack.first imports pack.second"],
    )


def test_every_cycle_is_found(tmp_path: Path) -> None:
    modules = {"a": "import pack.b", "b": "import pack.a", "c": "import pack.d", "d": "import pack.c"}
    assert len(planted(tmp_path, **modules)) == 2


def test_a_chain_of_imports_is_no_cycle(tmp_path: Path) -> None:
    assert planted(tmp_path, a="import pack.b\nimport pack.c", b="import pack.c", c="") == []


def test_what_the_package_loads_on_demand_is_no_cycle(tmp_path: Path) -> None:
    assert planted(tmp_path, __init__="def f():\n    from pack import a", a="from pack import f") == []
