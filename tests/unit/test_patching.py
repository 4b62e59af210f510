"""Wrappers around an SDK's functions: put on when it is there, taken off in any order, each missing one alone."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from importlib import import_module, invalidate_caches
from itertools import count, permutations
from pathlib import Path
from typing import Any

import pytest
import wrapt

from otel_itl.sdks.driver import Around
from otel_itl.sdks.patching import PackagePatches

SOURCE = """
def shout(text):
    return text.upper()


class Client:
    def ask(self, text):
        return f"{text}?"

    @staticmethod
    def still(text):
        return text

    @classmethod
    def named(cls, text):
        return f"{cls.__name__}: {text}"

    async def await_(self, text):
        return f"{text}..."

    def letters(self, text):
        yield from text


class Inheriting(Client):
    pass
"""
_numbers = count()


@pytest.fixture(params=["inside", "around"])
def package(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a package that can be imported and was not; its functions are hooked inside, or all around."""
    if request.param == "around":
        monkeypatch.setattr("otel_itl.sdks.patching._has_exchangeable_code", lambda _: False)
    # A name of its own for each test: import hooks cannot be taken back.
    name = f"sdk_of_test_{next(_numbers)}"
    home = tmp_path / name
    home.mkdir()
    (home / "__init__.py").write_text("from . import _client\n", encoding="utf-8")
    (home / "_client.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    invalidate_caches()
    yield name
    for module in (name, f"{name}._client"):
        sys.modules.pop(module, None)


class Log:
    """A wrapper that takes down what passes, and under which name."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def wrapper(self, name: str) -> Callable[..., Any]:
        def wrap(_: Any, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            self.calls.append(name)
            return wrapped(*args, **kwargs)

        return wrap


@pytest.fixture
def log() -> Log:
    return Log()


def hooks(package: str, log: Log, *paths: str, name: str = "ours") -> PackagePatches:
    targets = tuple(
        Around(f"{package}._client", path, log.wrapper(name), replaces_code=True) for path in paths or ("Client.ask",)
    )
    return PackagePatches(package, targets, None)


def client(package: str) -> Any:
    """The module of the SDK, imported now at the latest."""
    import_module(package)
    return import_module(f"{package}._client")


# --- On and off ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "call", "expected"),
    [
        ("shout", lambda module: module.shout("a"), "A"),
        ("Client.ask", lambda module: module.Client().ask("a"), "a?"),
        ("Client.still", lambda module: module.Client.still("a"), "a"),
        ("Client.named", lambda module: module.Client.named("a"), "Client: a"),
        ("Client.ask", lambda module: module.Inheriting().ask("a"), "a?"),
    ],
)
def test_what_is_wrapped_is_seen_and_does_what_it_did(
    package: str, log: Log, path: str, call: Callable[[Any], str], expected: str
) -> None:
    module = client(package)
    hooks(package, log, path).install()
    assert (call(module), log.calls) == (expected, ["ours"])


@pytest.mark.requirement("R66")
@pytest.mark.parametrize("path", ["shout", "Client.ask", "Client.still", "Client.named", "Client.await_"])
def test_what_was_taken_off_is_the_very_function_again(package: str, log: Log, path: str) -> None:
    module = client(package)
    *owner, name = path.split(".")
    home = functools.reduce(getattr, owner, module)
    before = vars(home)[name]
    installed = hooks(package, log, path)
    installed.install()
    installed.remove()
    assert vars(home)[name] is before


@pytest.mark.requirement("R12")
def test_an_object_that_was_there_before_is_seen(package: str, log: Log) -> None:
    before = client(package).Client()
    hooks(package, log).install()
    before.ask("a")
    assert log.calls == ["ours"]


@pytest.mark.requirement("R66")
def test_a_bound_method_that_somebody_holds_passes_through_after_removal(package: str, log: Log) -> None:
    module = client(package)
    installed = hooks(package, log)
    installed.install()
    held = module.Client().ask
    installed.remove()
    assert (held("a"), log.calls) == ("a?", [])


@pytest.mark.requirement("R66")
def test_installing_twice_is_once(package: str, log: Log) -> None:
    module = client(package)
    installed = hooks(package, log)
    installed.install()
    installed.install()
    module.Client().ask("a")
    assert log.calls == ["ours"]


@pytest.mark.requirement("R66")
def test_removing_twice_is_once(package: str, log: Log) -> None:
    module = client(package)
    installed = hooks(package, log)
    installed.install()
    installed.remove()
    installed.remove()
    assert (module.Client().ask("a"), log.calls) == ("a?", [])


def test_what_was_never_installed_can_be_removed(package: str, log: Log) -> None:
    module = client(package)
    hooks(package, log).remove()
    assert module.Client().ask("a") == "a?"


def test_what_was_removed_can_be_installed_again(package: str, log: Log) -> None:
    module = client(package)
    installed = hooks(package, log)
    for _ in range(3):
        installed.install()
        installed.remove()
    installed.install()
    module.Client().ask("a")
    assert log.calls == ["ours"]


def test_every_target_is_wrapped_and_unwrapped(package: str, log: Log) -> None:
    module = client(package)
    installed = hooks(package, log, "shout", "Client.ask")
    installed.install()
    module.shout("a")
    module.Client().ask("a")
    installed.remove()
    module.shout("a")
    module.Client().ask("a")
    assert log.calls == ["ours", "ours"]


@pytest.mark.requirement("R17")
def test_what_a_wrapped_function_raises_is_the_same_object(package: str, log: Log) -> None:
    module = client(package)
    error = LookupError()

    def failing(_: Any, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        raise error

    PackagePatches(package, (Around(f"{package}._client", "shout", failing, replaces_code=True),), None).install()
    with pytest.raises(LookupError) as raised:
        module.shout("a")
    assert raised.value is error


# --- Beside the wrappers of others ---------------------------------------------------------------------------------


class Other:
    """Another instrumentation around the same function."""

    def __init__(self, package: str, log: Log) -> None:
        self.module, self.log = client(package), log

    def install(self) -> None:
        raise NotImplementedError

    def remove(self) -> None:
        raise NotImplementedError


class WraptOther(Other):
    """One that wraps and unwraps as OpenTelemetry's instrumentations do."""

    def install(self) -> None:
        wrapt.wrap_function_wrapper(self.module, "Client.ask", functools.partial(self.log.wrapper("other"), None))

    def remove(self) -> None:
        function = vars(self.module.Client)["ask"]
        if hasattr(function, "__wrapped__"):
            self.module.Client.ask = function.__wrapped__


class RestoringOther(Other):
    """One that puts back what it found, whatever is there by then."""

    def install(self) -> None:
        found = self.found = vars(self.module.Client)["ask"]
        log = self.log

        @functools.wraps(found)
        def other(*args: Any, **kwargs: Any) -> Any:
            log.calls.append("other")
            return found(*args, **kwargs)

        self.module.Client.ask = other

    def remove(self) -> None:
        self.module.Client.ask = self.found


class OpaqueOther(RestoringOther):
    """As that one, but what it puts there does not say what it wraps."""

    def install(self) -> None:
        super().install()
        del self.module.Client.ask.__wrapped__


OTHERS = [WraptOther, RestoringOther, OpaqueOther]


@pytest.mark.requirement("R65")
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("order", list(permutations(["ours", "other"])))
def test_two_wrappers_see_a_call_once_each(package: str, log: Log, other: type[Other], order: tuple[str, str]) -> None:
    pair = {"ours": hooks(package, log), "other": other(package, log)}
    for name in order:
        pair[name].install()
    assert (client(package).Client().ask("a"), sorted(log.calls)) == ("a?", ["other", "ours"])


@pytest.mark.requirement("R66")
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("put_on", list(permutations(["ours", "other"])))
@pytest.mark.parametrize("taken_off", list(permutations(["ours", "other"])))
def test_taken_off_in_any_order_ours_sees_nothing(
    package: str, log: Log, other: type[Other], put_on: tuple[str, str], taken_off: tuple[str, str]
) -> None:
    pair = {"ours": hooks(package, log), "other": other(package, log)}
    for name in put_on:
        pair[name].install()
    for name in taken_off:
        pair[name].remove()
    assert (client(package).Client().ask("a"), "ours" in log.calls) == ("a?", False)


@pytest.mark.requirement("R66")
@pytest.mark.parametrize("other", OTHERS)
def test_taken_off_under_another_wrapper_that_one_still_sees(package: str, log: Log, other: type[Other]) -> None:
    installed = hooks(package, log)
    installed.install()
    other(package, log).install()
    installed.remove()
    assert (client(package).Client().ask("a"), log.calls) == ("a?", ["other"])


@pytest.mark.requirement("R66")
@pytest.mark.parametrize("other", OTHERS)
def test_taken_off_and_put_on_again_under_another_wrapper_sees_a_call_once(
    package: str, log: Log, other: type[Other]
) -> None:
    installed = hooks(package, log)
    installed.install()
    other(package, log).install()
    installed.remove()
    installed.install()
    client(package).Client().ask("a")
    assert log.calls.count("ours") == 1


@pytest.mark.parametrize("put_on", list(permutations(["a", "b", "c"])))
def test_three_sets_of_hooks_see_a_call_once_each_and_leave_in_any_order(
    package: str, log: Log, put_on: tuple[str, ...]
) -> None:
    sets = {name: hooks(package, log, name=name) for name in "abc"}
    for name in put_on:
        sets[name].install()
    module = client(package)
    module.Client().ask("a")
    seen = sorted(log.calls)
    for name in "abc":
        sets[name].remove()
    log.calls.clear()
    module.Client().ask("a")
    assert (seen, log.calls) == (["a", "b", "c"], [])


# --- Where others hold the function ---------------------------------------------------------------------------------

inside = pytest.mark.parametrize("package", ["inside"], indirect=True)


class ShadowingOther(Other):
    """One that puts an attribute on a subclass, around the function that it found, and leaves that function there."""

    def install(self) -> None:
        self.found = self.module.Inheriting.ask
        wrapt.wrap_function_wrapper(self.module, "Inheriting.ask", functools.partial(self.log.wrapper("other"), None))

    def remove(self) -> None:
        self.module.Inheriting.ask = self.found


@inside
@pytest.mark.requirement("R65")
@pytest.mark.parametrize("order", list(permutations(["ours", "other"])))
def test_a_function_that_another_has_put_on_a_subclass_is_seen(package: str, log: Log, order: tuple[str, str]) -> None:
    pair = {"ours": hooks(package, log), "other": ShadowingOther(package, log)}
    for name in order:
        pair[name].install()
    assert (client(package).Inheriting().ask("a"), log.calls) == ("a?", ["other", "ours"])


@inside
@pytest.mark.requirement("R66")
@pytest.mark.parametrize("order", list(permutations(["ours", "other"])))
def test_a_function_that_another_has_left_on_a_subclass_is_seen(package: str, log: Log, order: tuple[str, str]) -> None:
    pair = {"ours": hooks(package, log), "other": ShadowingOther(package, log)}
    for name in order:
        pair[name].install()
    pair["other"].remove()
    assert (client(package).Inheriting().ask("a"), log.calls) == ("a?", ["ours"])


@inside
@pytest.mark.requirement("R13")
def test_a_bound_method_from_before_is_seen(package: str, log: Log) -> None:
    held = client(package).Client().ask
    hooks(package, log).install()
    assert (held("a"), log.calls) == ("a?", ["ours"])


@inside
def test_a_hooked_function_shows_its_own_signature(package: str, log: Log) -> None:
    module = client(package)
    before = inspect.signature(module.Client.ask)
    installed = hooks(package, log)
    installed.install()
    hooked = inspect.signature(module.Client.ask)
    installed.remove()
    assert (hooked, inspect.signature(module.Client.ask)) == (before, before)


@inside
def test_a_hooked_coroutine_function_is_one(package: str, log: Log) -> None:
    hooks(package, log, "Client.await_").install()
    assert inspect.iscoroutinefunction(client(package).Client.await_)


@inside
def test_a_function_that_was_called_while_it_had_no_hook_has_one_from_then_on(package: str, log: Log) -> None:
    module, asked = client(package), []
    for _ in range(100):  # until the interpreter has specialised the call
        asked.append(module.Client().ask("a"))
        if len(asked) == 99:
            hooks(package, log).install()
    assert (set(asked), log.calls) == ({"a?"}, ["ours"])


def test_a_generator_function_is_hooked_and_makes_generators_still(package: str, log: Log) -> None:
    module = client(package)
    hooks(package, log, "Client.letters").install()
    assert (inspect.isgeneratorfunction(module.Client.letters), list(module.Client().letters("ab")), log.calls) == (
        True,
        ["a", "b"],
        ["ours"],
    )


# --- Before the package is imported --------------------------------------------------------------------------------


@pytest.mark.requirement("R61")
def test_installing_imports_nothing(package: str, log: Log) -> None:
    hooks(package, log).install()
    assert package not in sys.modules


def test_a_package_is_wrapped_when_it_is_imported(package: str, log: Log) -> None:
    hooks(package, log).install()
    client(package).Client().ask("a")
    assert log.calls == ["ours"]


def test_a_package_is_not_wrapped_when_the_hooks_were_removed_before(package: str, log: Log) -> None:
    installed = hooks(package, log)
    installed.install()
    installed.remove()
    client(package).Client().ask("a")
    assert log.calls == []


def test_removing_imports_nothing(package: str, log: Log) -> None:
    installed = hooks(package, log)
    installed.install()
    installed.remove()
    assert package not in sys.modules


@pytest.mark.requirement("R66")
def test_hooks_that_came_and_went_before_the_import_wrap_once(package: str, log: Log) -> None:
    installed = hooks(package, log)
    for _ in range(3):
        installed.install()
        installed.remove()
    installed.install()
    client(package).Client().ask("a")
    assert log.calls == ["ours"]


def test_hooks_that_were_removed_after_the_import_can_be_installed_again(package: str, log: Log) -> None:
    installed = hooks(package, log)
    installed.install()
    module = client(package)
    installed.remove()
    installed.install()
    module.Client().ask("a")
    assert log.calls == ["ours"]


# --- What is missing -----------------------------------------------------------------------------------------------

MISSING = ["Client.never", "never", "Never.ask", "Inheriting.ask"]


@pytest.mark.requirement("R64")
@pytest.mark.parametrize("path", MISSING)
def test_a_missing_function_is_one_warning_that_names_it(
    package: str, log: Log, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    client(package)
    hooks(package, log, path).install()
    said = f"otel_itl does not find {path} in {package}._client: what passes there is not measured."
    assert [(record.name, record.levelno, record.getMessage()) for record in caplog.records] == [
        ("otel_itl", logging.WARNING, said)
    ]


@pytest.mark.requirement("R64")
@pytest.mark.parametrize("path", MISSING)
def test_a_missing_function_leaves_the_others_wrapped(package: str, log: Log, path: str) -> None:
    module = client(package)
    hooks(package, log, path, "Client.ask").install()
    module.Client().ask("a")
    assert log.calls == ["ours"]


@pytest.mark.requirement("R64")
def test_one_warning_names_all_missing_functions(package: str, log: Log, caplog: pytest.LogCaptureFixture) -> None:
    client(package)
    hooks(package, log, *MISSING).install()
    named = f"{', '.join(MISSING)} in {package}._client"
    assert caplog.messages == [f"otel_itl does not find {named}: what passes there is not measured."]


@pytest.mark.requirement("R64")
def test_a_missing_function_is_warned_of_once_however_often_it_is_installed(
    package: str, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    client(package)
    installed = hooks(package, log, "Client.never")
    for _ in range(3):
        installed.install()
        installed.remove()
    assert len(caplog.messages) == 1


@pytest.mark.requirement("R64")
@pytest.mark.parametrize("path", MISSING)
def test_hooks_with_a_missing_function_can_be_removed(package: str, log: Log, path: str) -> None:
    module = client(package)
    installed = hooks(package, log, path, "Client.ask")
    installed.install()
    installed.remove()
    module.Client().ask("a")
    assert log.calls == []


@pytest.mark.requirement("R64")
def test_a_missing_module_is_one_warning(package: str, log: Log, caplog: pytest.LogCaptureFixture) -> None:
    client(package)
    installed = PackagePatches(
        package, (Around(f"{package}._never", "Client.ask", log.wrapper("ours"), replaces_code=True),), None
    )
    installed.install()
    installed.remove()
    assert caplog.messages == [
        f"otel_itl does not find Client.ask in {package}._never: what passes there is not measured."
    ]


@pytest.mark.requirement("R16")
def test_a_module_that_fails_to_load_does_not_reach_the_application(
    package: str, log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    module = client(package)
    (tmp_path / package / "_broken.py").write_text("raise RuntimeError('at import')", encoding="utf-8")
    broken = Around(f"{package}._broken", "Client.ask", log.wrapper("ours"), replaces_code=True)
    whole = Around(f"{package}._client", "Client.ask", log.wrapper("ours"), replaces_code=True)
    PackagePatches(package, (broken, whole), None).install()
    module.Client().ask("a")
    assert (log.calls, len(caplog.messages)) == (["ours"], 1)


def test_what_a_subclass_inherits_is_not_wrapped_into_it(package: str, log: Log) -> None:
    # A wrapper on the subclass would stay in front of whatever happens to the base class.
    module = client(package)
    hooks(package, log, "Inheriting.ask").install()
    assert "ask" not in vars(module.Inheriting)
