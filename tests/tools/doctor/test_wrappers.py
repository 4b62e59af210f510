"""Who has wrapped the functions of an SDK: found however that was done; the SDK's own decorators are left out."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

import pytest
import wrapt

from otel_itl.tools.doctor.wrappers import MAX_LISTED, find_wrappers

SOURCE = """
import functools

def own_decorator(function):
    @functools.wraps(function)
    def decorated(*args, **kwargs):
        return function(*args, **kwargs)
    return decorated

class Completions:
    @own_decorator
    def create(self):
        return "created"

    @staticmethod
    def retrieve():
        return "retrieved"

    def parse(self):
        return "parsed"

def stream():
    return "streamed"
"""
OTHER = """
import functools

def by_wrapt(wrapped, instance, args, kwargs):
    return wrapped(*args, **kwargs)

def by_functools(function):
    @functools.wraps(function)
    def observed(*args, **kwargs):
        return function(*args, **kwargs)
    return observed
"""


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """A small SDK, and a tool that wraps its functions."""
    made = []
    for name, source in (("littlesdk", SOURCE), ("sometool.patches", OTHER)):
        module = ModuleType(name)
        module.__file__ = f"/site-packages/{name.replace('.', '/')}.py"
        exec(compile(source, module.__file__, "exec"), vars(module))  # noqa: S102 - the source is in this file
        monkeypatch.setitem(sys.modules, name, module)
        made.append(module)
    return made[0], made[1]


def test_functions_that_only_the_sdk_decorates_are_not_wrapped(modules: tuple[Any, Any]) -> None:
    assert modules[0].Completions().create() == "created"
    assert find_wrappers("littlesdk") == {}


def test_wrapt_wrappers_are_found(modules: tuple[Any, Any]) -> None:
    sdk, tool = modules
    wrapt.wrap_function_wrapper(sdk, "Completions.create", tool.by_wrapt)
    wrapt.wrap_function_wrapper(sdk, "Completions.retrieve", tool.by_wrapt)
    wrapt.wrap_function_wrapper(sdk, "stream", tool.by_wrapt)
    expected = ["Completions.create", "Completions.retrieve", "littlesdk.stream"]
    assert {origin: sorted(functions) for origin, functions in find_wrappers("littlesdk").items()} == {
        "sometool.patches": expected
    }


def test_wrappers_of_plain_python_are_found(modules: tuple[Any, Any]) -> None:
    sdk, tool = modules
    sdk.Completions.parse = tool.by_functools(sdk.Completions.parse)
    assert find_wrappers("littlesdk") == {"sometool.patches": ["Completions.parse"]}


def test_several_wrappers_around_one_function_are_found(modules: tuple[Any, Any]) -> None:
    sdk, tool = modules
    sdk.Completions.parse = tool.by_functools(sdk.Completions.parse)
    wrapt.wrap_function_wrapper(sdk, "Completions.parse", sys.modules[__name__].counting)
    assert set(find_wrappers("littlesdk")) == {"sometool.patches", __name__}


def test_code_that_was_exchanged_is_found(modules: tuple[Any, Any]) -> None:
    sdk, _ = modules
    code = compile("def parse(self):\n    return 1", "/venv/site-packages/tracer/inject.py", "exec").co_consts[0]
    sdk.Completions.parse.__code__ = code
    assert find_wrappers("littlesdk") == {"tracer": ["Completions.parse"]}


def test_our_own_wrappers_and_functools_are_left_out(modules: tuple[Any, Any]) -> None:
    sdk, _ = modules
    sdk.stream = functools.lru_cache(sdk.stream)
    assert find_wrappers("littlesdk") == {}


def test_only_the_first_functions_are_listed(modules: tuple[Any, Any]) -> None:
    sdk, tool = modules
    for number in range(MAX_LISTED + 3):
        setattr(sdk, f"function_{number}", tool.by_functools(sdk.stream))
    assert [len(functions) for functions in find_wrappers("littlesdk").values()] == [MAX_LISTED]


def counting(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)
