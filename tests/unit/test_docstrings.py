"""Every definition over five lines has a docstring, and that of a function begins with what the function does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import otel_itl

PACKAGE = Path(otel_itl.__file__).parent
SOURCES = {str(file.relative_to(PACKAGE)): file.read_text(encoding="utf-8") for file in sorted(PACKAGE.rglob("*.py"))}
MAX_UNDOCUMENTED_LINES = 5
MAX_CLOSURE_LINES = 12
"""A function inside a documented one may do without a docstring up to this length."""
NO_VERBS = {
    *("a", "all", "an", "any", "as", "at", "each", "every", "for", "from", "how", "if", "in", "it", "its", "no", "of"),
    *("one", "some", "that", "the", "this", "to", "what", "when", "where", "whether", "which", "who", "whose", "with"),
}
"""First words of sentences that are not in the imperative. Ruff (D401) knows verbs in other moods."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def undocumented(source: str) -> list[str]:
    """The names of the definitions that lack a docstring.

    A magic method may lack one: it means what Python defines, and the class has what its constructor takes.
    """
    return [name for node, name, limit in _definitions(ast.parse(source), "", is_closure=False) if _lacks(node, limit)]


def _definitions(
    parent: ast.AST, prefix: str, *, is_closure: bool
) -> Iterator[tuple[Function | ast.ClassDef, str, int]]:
    """Each definition, its name, and how long it may be without a docstring."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, Function | ast.ClassDef):
            yield node, prefix + node.name, MAX_CLOSURE_LINES if is_closure else MAX_UNDOCUMENTED_LINES
            has_closures = isinstance(node, Function) and (is_closure or ast.get_docstring(node) is not None)
            yield from _definitions(node, f"{prefix}{node.name}.", is_closure=has_closures)
        else:
            yield from _definitions(node, prefix, is_closure=is_closure)


def _lacks(node: Function | ast.ClassDef, limit: int) -> bool:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    is_exempt = is_magic_name(node.name) or "overload" in _decorators(node)
    return lines > limit and not is_exempt and not ast.get_docstring(node)


def is_magic_name(name: str) -> bool:
    """Whether a name is one that Python gives its meaning."""
    return name.startswith("__") and name.endswith("__")


def _decorators(node: Function | ast.ClassDef) -> set[str]:
    return {part.id for one in node.decorator_list for part in ast.walk(one) if isinstance(part, ast.Name)}


def not_imperative(source: str) -> list[str]:
    """The first lines of the docstrings of functions, properties apart, that begin with no verb."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, Function)]
    lines = [
        (ast.get_docstring(node) or "").partition("\n")[0] for node in found if "property" not in _decorators(node)
    ]
    return [line for line in lines if line.partition(" ")[0].lower() in NO_VERBS]


def test_every_definition_over_five_lines_has_a_docstring() -> None:
    found = {file: undocumented(source) for file, source in SOURCES.items()}
    assert {file: names for file, names in found.items() if names} == {}


def test_the_docstring_of_a_function_begins_with_a_verb() -> None:
    found = {file: not_imperative(source) for file, source in SOURCES.items()}
    assert {file: lines for file, lines in found.items() if lines} == {}


LINES = "\n".join(f"    a{number} = {number}" for number in range(5))
SHORT_LINES = "\n".join(f"        a{number} = {number}" for number in range(11))
LONG_LINES = f"{SHORT_LINES}\n        b = 1"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (f"def f():\n{LINES}", "f"),
        (f"async def f():\n{LINES}", "f"),
        (f"class A:\n{LINES}", "A"),
        (f"class A:\n    def f(self):\n{SHORT_LINES}", "A.f"),
        (f"def f():\n    '''Do.'''\n    def g():\n{LONG_LINES}", "f.g"),
        (f"if a:\n  def f():\n{LINES}", "f"),
    ],
)
def test_a_definition_without_a_docstring_is_found(source: str, name: str) -> None:
    assert name in undocumented(source)


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    return 1",
        f"def f():\n    '''Do.'''\n{LINES}",
        f"def f():\n    '''Do.'''\n    def g():\n{SHORT_LINES}",
        f"class A:\n    '''A.'''\n    def __init__(self):\n{LONG_LINES}",
    ],
)
def test_a_short_documented_or_magic_definition_is_let_through(source: str) -> None:
    assert undocumented(source) == []


@pytest.mark.parametrize("line", ["The end of it.", "Whether it ended.", "What it was.", "A step."])
def test_a_first_line_without_a_verb_is_found(line: str) -> None:
    assert not_imperative(f"def f():\n    '''{line}\n\n    More.\n    '''") == [line]


@pytest.mark.parametrize(
    "source", ["def f():\n    '''Return it.'''", "class A:\n    @property\n    def f(self):\n        '''The end.'''"]
)
def test_a_verb_and_a_property_are_let_through(source: str) -> None:
    assert not_imperative(source) == []
