"""Options: arguments win over variables, which win over defaults; a wrong argument raises, a wrong variable warns."""

from __future__ import annotations

import logging
import re
from dataclasses import FrozenInstanceError, fields
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from otel_itl.config import OPTIONS, PREFIX, Config, load

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
OTHERS = {
    "token_events": ("each", "log"),
    "sdks": (["openai"], ["anthropic"]),
    "standard_names": ("inference", "operation"),
    "model_limit": (7, 9),
    "chunk_events": (["a"], ["b", "c"]),
}
"""Option → two values that are not its default, or at least not each other."""
LOADED = {
    "token_events": ("each", "log"),
    "sdks": (("openai",), ("anthropic",)),
    "standard_names": ("inference", "operation"),
    "model_limit": (7, 9),
    "chunk_events": (("a",), ("b", "c")),
}
ARGUMENTS: list[tuple[str, Any, str]] = [
    ("token_events", "every", "one of packed, each, log, none"),
    ("token_events", "PACKED", "one of packed, each, log, none"),
    ("token_events", "", "one of packed, each, log, none"),
    ("token_events", None, "one of packed, each, log, none"),
    ("token_events", 1, "one of packed, each, log, none"),
    ("token_events", ["packed"], "one of packed, each, log, none"),
    ("sdks", "mistral", "some of openai, anthropic"),
    ("sdks", ["openai", "mistral"], "some of openai, anthropic"),
    ("sdks", [], "some of openai, anthropic"),
    ("sdks", "", "some of openai, anthropic"),
    ("sdks", None, "some of openai, anthropic"),
    ("sdks", 3, "some of openai, anthropic"),
    ("sdks", ["openai", 3], "some of openai, anthropic"),
    ("standard_names", "legacy", "one of operation, inference"),
    ("standard_names", None, "one of operation, inference"),
    ("model_limit", 0, "a whole number from 1"),
    ("model_limit", -5, "a whole number from 1"),
    ("model_limit", 1.5, "a whole number from 1"),
    ("model_limit", 3.0, "a whole number from 1"),
    ("model_limit", float("nan"), "a whole number from 1"),
    ("model_limit", float("inf"), "a whole number from 1"),
    ("model_limit", Decimal("Infinity"), "a whole number from 1"),
    ("model_limit", True, "a whole number from 1"),
    ("model_limit", "many", "a whole number from 1"),
    ("model_limit", "", "a whole number from 1"),
    ("model_limit", None, "a whole number from 1"),
    ("chunk_events", [], "names, as a list or separated by commas"),
    ("chunk_events", "", "names, as a list or separated by commas"),
    ("chunk_events", " , ", "names, as a list or separated by commas"),
    ("chunk_events", None, "names, as a list or separated by commas"),
    ("chunk_events", 3, "names, as a list or separated by commas"),
    ("chunk_events", [3], "names, as a list or separated by commas"),
    ("chunk_events", ["a", 3], "names, as a list or separated by commas"),
    ("chunk_events", [""], "names, as a list or separated by commas"),
]
"""Option, a value that it does not take, what the message says that it takes."""
VARIABLES = [
    ("token_events", "every", "one of packed, each, log, none", "'packed'"),
    ("sdks", "openai,mistral", "some of openai, anthropic", "('openai', 'anthropic')"),
    ("sdks", ",", "some of openai, anthropic", "('openai', 'anthropic')"),
    ("standard_names", "legacy", "one of operation, inference", "'operation'"),
    ("model_limit", "0", "a whole number from 1", "100"),
    ("model_limit", "ten", "a whole number from 1", "100"),
    ("model_limit", "1e3", "a whole number from 1", "100"),
    ("model_limit", "1.5", "a whole number from 1", "100"),
    ("model_limit", "9" * 5_000, "a whole number from 1", "100"),
    ("chunk_events", ",", "names, as a list or separated by commas", "()"),
]
"""Option, text that its variable does not take, what the warning says that it takes, the default that it names."""


def variable(option: str) -> str:
    return f"OTEL_ITL_{option.upper()}"


def text(value: Any) -> str:
    return ",".join(value) if isinstance(value, (list, tuple)) else str(value)


# --- Precedence ----------------------------------------------------------------------------------------------------


def test_without_arguments_and_variables_there_are_the_defaults() -> None:
    expected = Config(
        token_events="packed",
        sdks=("openai", "anthropic"),
        standard_names="operation",
        model_limit=100,
        chunk_events=(),
    )
    assert load({}, {}) == expected


@pytest.mark.parametrize("option", OPTIONS)
def test_an_argument_wins_over_the_default(option: str) -> None:
    assert getattr(load({option: OTHERS[option][0]}, {}), option) == LOADED[option][0]


@pytest.mark.parametrize("option", OPTIONS)
def test_a_variable_wins_over_the_default(option: str) -> None:
    assert getattr(load({}, {variable(option): text(OTHERS[option][0])}), option) == LOADED[option][0]


@pytest.mark.parametrize("option", OPTIONS)
def test_an_argument_wins_over_a_variable(option: str) -> None:
    loaded = load({option: OTHERS[option][0]}, {variable(option): text(OTHERS[option][1])})
    assert getattr(loaded, option) == LOADED[option][0]


def test_the_variables_are_those_of_the_process_unless_others_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_ITL_MODEL_LIMIT", "12")
    assert load({}).model_limit == 12


@pytest.mark.parametrize("blank", ["", "   "])
def test_a_variable_that_is_set_to_nothing_does_not_count(blank: str, caplog: pytest.LogCaptureFixture) -> None:
    assert (load({}, {"OTEL_ITL_MODEL_LIMIT": blank}).model_limit, caplog.messages) == (100, [])


def test_blanks_around_the_value_of_a_variable_do_not_count() -> None:
    assert load({}, {"OTEL_ITL_TOKEN_EVENTS": "  each \n"}).token_events == "each"


def test_blanks_around_names_do_not_count() -> None:
    assert load({}, {"OTEL_ITL_CHUNK_EVENTS": " a , b,, "}).chunk_events == ("a", "b")


def test_names_may_be_given_as_one_text() -> None:
    assert load({"sdks": "anthropic, openai"}, {}).sdks == ("anthropic", "openai")


def test_variables_of_others_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    load({}, {"OTEL_SERVICE_NAME": "x", "ITL_TOKEN_EVENTS": "each", "PATH": "/bin"})
    assert caplog.messages == []


def test_a_configuration_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        load({}, {}).model_limit = 3  # type: ignore[misc]


# --- A wrong argument raises ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("option", "value", "accepted"), ARGUMENTS)
def test_a_wrong_argument_raises_with_what_is_accepted(option: str, value: Any, accepted: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"it takes {accepted}.")):
        load({option: value}, {})


def test_the_message_of_a_wrong_argument_names_the_call_the_option_and_the_value() -> None:
    with pytest.raises(ValueError, match=r"^instrument\(token_events='every'\) is not accepted: it takes one of "):
        load({"token_events": "every"}, {})


def test_a_wrong_argument_is_the_only_exception_of_its_traceback() -> None:
    with pytest.raises(ValueError, match="model_limit") as raised:
        load({"model_limit": "many"}, {})
    assert (raised.value.__cause__, raised.value.__suppress_context__) == (None, True)


def test_an_unknown_option_raises_with_the_options_that_there_are() -> None:
    known = "token_events, sdks, standard_names, model_limit, chunk_events"
    with pytest.raises(TypeError, match=rf"^instrument\(\) has no option 'tokens': it takes {known} and "):
        load({"tokens": 1}, {})


# --- A wrong variable warns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("option", "value", "accepted", "default"), VARIABLES)
def test_a_wrong_variable_leaves_the_default(option: str, value: str, accepted: str, default: str) -> None:
    assert load({}, {variable(option): value}) == Config()


@pytest.mark.parametrize(("option", "value", "accepted", "default"), VARIABLES)
def test_a_wrong_variable_is_one_warning_that_says_everything(
    option: str, value: str, accepted: str, default: str, caplog: pytest.LogCaptureFixture
) -> None:
    load({}, {variable(option): value})
    said = f"{variable(option)}={value!r} is not accepted: it takes {accepted}. The default {default} is used."
    assert [(record.name, record.levelno, record.getMessage()) for record in caplog.records] == [
        ("otel_itl", logging.WARNING, said)
    ]


def test_an_unknown_variable_is_one_warning_that_lists_what_is_read(caplog: pytest.LogCaptureFixture) -> None:
    load({}, {"OTEL_ITL_TOKENS": "each"})
    listed = ", ".join(variable(option) for option in OPTIONS)
    assert caplog.messages == [f"OTEL_ITL_TOKENS='each' is not known to otel_itl, which reads {listed}."]


def test_a_wrong_variable_does_not_keep_the_others_from_counting() -> None:
    loaded = load({}, {"OTEL_ITL_MODEL_LIMIT": "many", "OTEL_ITL_TOKEN_EVENTS": "none", "OTEL_ITL_X": "1"})
    assert (loaded.model_limit, loaded.token_events) == (100, "none")


def test_a_wrong_variable_does_not_keep_an_argument_from_counting() -> None:
    assert load({"model_limit": 5}, {"OTEL_ITL_MODEL_LIMIT": "many"}).model_limit == 5


# --- Documented ----------------------------------------------------------------------------------------------------


def documented() -> dict[str, list[str]]:
    """Option → the cells of its row in the table of options."""
    table = PAGE.partition("| option |")[2].partition("\n\n")[0]
    found = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()[2:]]
    return {row[0].strip("`"): row for row in found}


def test_the_documentation_lists_the_options_in_their_order() -> None:
    assert list(documented()) == [field.name for field in fields(Config)]


@pytest.mark.parametrize("option", OPTIONS)
def test_the_documentation_names_the_variable_of_each_option(option: str) -> None:
    assert documented()[option][1] == f"`{PREFIX}{option.upper()}`"


@pytest.mark.parametrize("option", OPTIONS)
def test_the_documentation_names_the_default_of_each_option(option: str) -> None:
    default = text(getattr(Config(), option))
    assert documented()[option][2] == (f"`{default}`" if default else "none")


@pytest.mark.parametrize(
    ("option", "values"),
    [("token_events", ["packed", "each", "log", "none"]), ("standard_names", ["operation", "inference"])],
)
def test_the_documentation_names_every_value_of_an_option(option: str, values: list[str]) -> None:
    assert [value for value in values if f"`{value}`" not in documented()[option][3]] == []


def test_the_docstring_of_the_configuration_has_every_option() -> None:
    said = Config.__doc__ or ""
    assert [option for option in OPTIONS if f"{option}:" not in said] == []


def test_the_docstring_of_instrument_has_every_option() -> None:
    import otel_itl

    said = otel_itl.instrument.__doc__ or ""
    assert [option for option in OPTIONS if f"{option}:" not in said] == []
