"""No object of a module or class changes at run time but the one `Runtime`: what changes belongs to an instance."""

from __future__ import annotations

import ast
import itertools
import random
import threading
import weakref
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from tests.source_tree import MODULES, PACKAGE, absolute, name_of, parse

EXEMPT: Final = {"otel_itl.runtime.runtime"}
"""The composition root: the one object at the top of a module that changes."""

KEPT_BY_OPENTELEMETRY: Final = {"_instance"}
"""Attributes that OpenTelemetry's base classes keep on ours: `BaseInstrumentor` makes one instance of each class."""

CHANGING_METHODS: Final = frozenset({
    *("add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "intersection_update"),
    *("pop", "popitem", "popleft", "remove", "reverse", "setdefault", "sort", "update", "__setitem__", "__delitem__"),
})  # fmt: skip
CHANGING_FUNCTIONS: Final = frozenset({"next", "setattr", "delattr", "heappush", "heappop", "heapreplace", "heapify"})
"""Functions that change their first argument."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


# --- what the code changes -------------------------------------------------------------------------------------------


def changes_in(file: Path, package: Path = PACKAGE) -> list[str]:
    """Return the statements in functions that change an object of a module or of a class, as `line: what`."""
    tree = parse(file)
    own = {name: f"{name_of(file, package)}.{name}" for name in _bound_names(tree.body)}
    names = own | dict(_imported_names(tree, file, package))
    return [f"{line}: {what}" for line, what in _changes(tree, names, set(), is_in_function=False)]


def _bound_names(statements: list[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements bind, also inside `if` and `try`, but not inside functions and classes."""
    for statement in statements:
        for node in _walk_scope(statement):
            match node:
                case ast.Name(id=name, ctx=ast.Store()):
                    yield name
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    yield name


def _walk_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and the nodes below it that are in the same scope."""
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _walk_scope(child)


def _imported_names(tree: ast.Module, file: Path, package: Path) -> Iterator[tuple[str, str]]:
    """Yield each name that is imported from the package, and what it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = absolute(node.module, node.level, file, package)
            if base.partition(".")[0] == package.name:
                yield from ((alias.asname or alias.name, f"{base}.{alias.name}") for alias in node.names)


def _changes(
    node: ast.AST, names: Mapping[str, str], local: set[str], *, is_in_function: bool
) -> Iterator[tuple[int, str]]:
    """Yield the changes of `names` in a piece of code.

    Args:
        node: the piece.
        names: the objects that must not change, by the names they have in the module.
        local: names that are local to the functions around it.
        is_in_function: module code may build its own objects while it is loaded.
    """
    if isinstance(node, Function):
        local = local | _local_names(node)
        is_in_function = True
    if is_in_function:
        for target, what in _changed_by(node):
            root = _root(target)
            if root == "cls" or (root in names and root not in local and names[root] not in EXEMPT):
                yield target.lineno, f"{what} {ast.unparse(target)}"
        if isinstance(node, ast.Global):
            yield node.lineno, f"global {', '.join(node.names)}"
    for child in ast.iter_child_nodes(node):
        yield from _changes(child, names, local, is_in_function=is_in_function)


def _local_names(function: Function) -> set[str]:
    """Return the parameters of a function and the names that it binds."""
    arguments = function.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    names = {parameter.arg for parameter in parameters if parameter is not None} - {"cls"}
    return names if isinstance(function, ast.Lambda) else names | set(_bound_names(function.body))


def _changed_by(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield the expressions whose objects a statement or a call changes."""
    match node:
        case ast.Attribute(value=value, ctx=ast.Store() | ast.Del()):
            yield value, "assigns to an attribute of"
        case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
            yield value, "assigns to an item of"
        case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in CHANGING_METHODS:
            yield value, f"calls {method}() of"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]) if (
            name in CHANGING_FUNCTIONS
        ):
            yield first, f"calls {name}() with"


def _root(expression: ast.expr) -> str:
    """Return the name at the beginning of `name.attribute[item].attribute`; '' for anything else."""
    while isinstance(expression, ast.Attribute | ast.Subscript):
        expression = expression.value
    return expression.id if isinstance(expression, ast.Name) else ""


def test_no_function_changes_an_object_of_a_module() -> None:
    changes = {name_of(file): changes_in(file) for file in MODULES}
    assert {name: found for name, found in changes.items() if found} == {}


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    global X\n    X = 1",
        "X = {}\ndef f():\n    X['a'] = 1",
        "X = {}\ndef f():\n    del X['a']",
        "X = [0]\ndef f():\n    X[0] += 1",
        "X = []\ndef f():\n    X.append(1)",
        "X = {}\nasync def f():\n    X.setdefault('a', 1)",
        "X = {}\ndef f():\n    X['a'].add(1)",
        "X = []\nclass A:\n    def f(self):\n        X.clear()",
        "X = []\nf = lambda: X.pop()",
        "class A:\n    seen = []\ndef f():\n    A.seen.append(1)",
        "class A:\n    count = 0\ndef f():\n    A.count += 1",
        "class A:\n    @classmethod\n    def f(cls):\n        cls.count = 1",
        "X = count()\ndef f():\n    return next(X)",
        "X = []\ndef f():\n    heappush(X, 1)",
        "from otel_itl.recording.watchdog import watchdog\ndef f():\n    watchdog.due = 1",
        "from otel_itl.recording import open_streams\ndef f():\n    open_streams.SWEEP_SECONDS = 1",
        "X = []\ndef f():\n    def g():\n        X.append(1)",
    ],
)
def test_a_function_that_changes_an_object_of_a_module_is_found(tmp_path: Path, source: str) -> None:
    assert len(planted(tmp_path, source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "X = {}\nX['a'] = 1",
        "X = {}\ndef f(X):\n    X['a'] = 1",
        "X = {}\ndef f():\n    X = {}\n    X['a'] = 1",
        "X = []\ndef f():\n    for X in [[]]:\n        X.append(1)",
        "X = ContextVar('x')\ndef f():\n    X.set(1)",
        "X = {}\ndef f():\n    return X.get('a'), X['a'], len(X)",
        "class A:\n    def f(self):\n        self.x = 1\n        self.y.append(1)",
        "from otel_itl.runtime import runtime\ndef f():\n    runtime.config = 1",
    ],
)
def test_a_function_that_changes_its_own_objects_is_let_through(tmp_path: Path, source: str) -> None:
    assert planted(tmp_path, source) == []


def planted(tmp_path: Path, source: str) -> list[str]:
    """Return the changes in a module of a package with the name of ours."""
    file = tmp_path / "otel_itl" / "planted.py"
    file.parent.mkdir()
    file.write_text(source, encoding="utf-8")
    return changes_in(file, file.parent)


# --- what a loaded module holds --------------------------------------------------------------------------------------

CHANGEABLE: Final = (
    *(list, dict, set, bytearray, array, deque, threading.Event, threading.Condition, threading.Thread),
    *(threading.Semaphore, threading.Barrier, threading.local, type(threading.Lock()), type(threading.RLock())),
    *(weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet, itertools.count, random.Random),
)


def is_changeable(value: object) -> bool:
    """Return whether an object can change: a container, a lock, an instance of a class of ours that is not frozen."""
    kind = type(value)
    if isinstance(value, CHANGEABLE):
        return True
    if not kind.__module__.startswith("otel_itl") or isinstance(value, type | tuple | str | int | Enum):
        return False
    return not (is_dataclass(kind) and kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def changeable_objects(module: ModuleType, tree: ast.Module) -> list[str]:
    """Return the names at the top of a module, and of its classes, whose objects can change at run time.

    Left out are imported names, `__all__`, tables that are declared `Final` (a checker reports who assigns to them, and
    `changes_in` who changes them), and the exempt ones.
    """
    constants = {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and "Final" in ast.unparse(node.annotation)
    }
    found = [
        name
        for name in sorted({*_bound_names(tree.body)} - constants - {"__all__"})
        if is_changeable(vars(module).get(name)) and f"{module.__name__}.{name}" not in EXEMPT
    ]
    for name, value in vars(module).items():
        if isinstance(value, type) and value.__module__ == module.__name__ and not issubclass(value, Enum):
            found += [
                f"{name}.{attribute}" for attribute in _changeable_attributes(value) if attribute not in constants
            ]
    return found


def _changeable_attributes(kind: type[Any]) -> Iterator[str]:
    for name, value in vars(kind).items():
        is_made_by_python = name.startswith(("__", "_abc_")) or (issubclass(kind, tuple) and name[0] == "_")
        if not is_made_by_python and name not in KEPT_BY_OPENTELEMETRY and is_changeable(value):
            yield name


def test_no_module_holds_an_object_that_can_change() -> None:
    held: list[str] = []
    missing: set[str | None] = set()
    for file in MODULES:
        if file.stem == "__main__":
            continue
        try:
            module = import_module(name_of(file))
        except ImportError as error:
            if (error.name or "otel_itl").startswith("otel_itl"):
                raise
            missing.add(error.name)
        else:
            held += [f"{module.__name__}.{name}" for name in changeable_objects(module, parse(file))]
    assert held == []
    if missing:
        pytest.skip(f"{missing} not installed: modules that need it were not looked at")


@pytest.mark.parametrize(
    "source",
    [
        "X = []",
        "X: dict[str, int] = {}",
        "from collections import Counter\nX = Counter()",
        "from threading import Lock\nX = Lock()",
        "from weakref import WeakKeyDictionary\nX = WeakKeyDictionary()",
        "from itertools import count\nX = count()",
        "class A: pass\nX = A()",
        "from dataclasses import dataclass\n@dataclass\nclass A: pass\nX = A()",
        "class A:\n    seen = []",
    ],
)
def test_an_object_that_can_change_is_found(source: str) -> None:
    assert len(changeable_objects(loaded(source), ast.parse(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from typing import Final\nX: Final = {'a': 1}",
        "from typing import ClassVar, Final\nclass A:\n    X: Final = {'a': 1}",
        "__all__ = ['X']",
        "X = (1, 2)\nY = frozenset({1})\nZ = 'text'",
        "from contextvars import ContextVar\nX = ContextVar('x')",
        "import logging\nlogger = logging.getLogger('x')",
        "from functools import cache\n@cache\ndef f(): pass",
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass A: pass\nX = A()",
        "from typing import NamedTuple\nclass A(NamedTuple):\n    x: int = 1\nX = A()",
        "from enum import Enum\nclass A(Enum):\n    X = 1\nX = A.X",
        "class A: pass\nX = A",
        "import os\nX = dict[str, int]",
    ],
)
def test_an_object_that_cannot_change_is_let_through(source: str) -> None:
    assert changeable_objects(loaded(source), ast.parse(source)) == []


def loaded(source: str) -> ModuleType:
    """Return a module of the package with this source."""
    module = ModuleType("otel_itl.planted")
    exec(source, vars(module))  # noqa: S102 - the source is in this file
    return module
