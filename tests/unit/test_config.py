"""Options: arguments win over variables, which win over defaults; a wrong argument raises, a wrong variable warns.

Run as a script, this renews the generated table of docs/configuration.md.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

import otel_itl
from otel_itl import config
from otel_itl.config import DISABLED_VARIABLE, Config
from otel_itl.core.session_fields import BodyField
from otel_itl.core.slo import PROFILES, SLO, Objectives
from otel_itl.core.stalls import StallPolicy
from otel_itl.sdks.registry import SDK_NAMES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "configuration.md"
OPTIONS = list(config.OPTIONS)
OTHERS = {
    "token_events": ("each", "log"),
    "sdks": (["openai"], ["anthropic"]),
    "standard_names": ("inference", "operation"),
    "model_limit": (7, 9),
    "chunk_events": (["a"], ["b", "c"]),
    "stall": ("next_token=5", "off"),
    "on_stall": (print, repr),
    "slo": ("chat", "code"),
    "session_from": ("user", "metadata.id"),
    "file": (str(ROOT / "one.jsonl"), str(ROOT / "two.jsonl")),
    "summary": ("1", "0"),
    "progress": ("0.5", "off"),
}
"""Option → two values that are not its default, or at least not each other."""
LOADED = {
    "token_events": ("each", "log"),
    "sdks": (("openai",), ("anthropic",)),
    "standard_names": ("inference", "operation"),
    "model_limit": (7, 9),
    "chunk_events": (("a",), ("b", "c")),
    "stall": (StallPolicy(next_token=5), None),
    "on_stall": (print, repr),
    "slo": (Objectives((("*", PROFILES["chat"]),)), Objectives((("*", PROFILES["code"]),))),
    "session_from": (BodyField(("user",)), BodyField(("metadata", "id"))),
    "file": (str(ROOT / "one.jsonl"), str(ROOT / "two.jsonl")),
    "summary": (True, False),
    "progress": (0.5, None),
}
PROGRESS = "seconds from 0.05 to 60, or off"
STALL_TEXT = (
    "first_token=10,reasoning=10,next_token=500ms,relative=20,abort_after=60 (above 0, in seconds without a unit, or "
    "off), or off"
)
STALL = f"a StallPolicy, or its values as {STALL_TEXT}"
SOME_SDKS = f"some of {', '.join(SDK_NAMES)}"
SLO_TEXT = "chat, code, agent, batch, TTFT/ITL such as 0.5/0.05 (seconds), 500ms/50ms or 0.5/0.05@0.995"
SLOS = f"{SLO_TEXT}, an SLO, or off; each may be given for models, as {{'gpt-4o*': 'chat'}} or gpt-4o*=chat,*=batch"
SLO_TEXTS = f"{SLO_TEXT}, or off; each may be given for models, as gpt-4o*=chat,*=batch"
SESSION_TEXT = "a field of the request such as user, safety_identifier or metadata.session_id, header:NAME"
SESSION = f"{SESSION_TEXT}, or a function of its body and headers"
FILE = "the path of a file that may be written, or off"
VARIABLE_OPTIONS = [option for option in OPTIONS if option != "on_stall"]
"""A variable cannot hold a function."""
ARGUMENTS: list[tuple[str, Any, str]] = [
    ("token_events", "every", "one of packed, each, log, none"),
    ("token_events", "PACKED", "one of packed, each, log, none"),
    ("token_events", "", "one of packed, each, log, none"),
    ("token_events", None, "one of packed, each, log, none"),
    ("token_events", 1, "one of packed, each, log, none"),
    ("token_events", ["packed"], "one of packed, each, log, none"),
    ("sdks", "mistral", SOME_SDKS),
    ("sdks", ["openai", "mistral"], SOME_SDKS),
    ("sdks", [], SOME_SDKS),
    ("sdks", "", SOME_SDKS),
    ("sdks", None, SOME_SDKS),
    ("sdks", 3, SOME_SDKS),
    ("sdks", ["openai", 3], SOME_SDKS),
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
    ("stall", "soon", STALL),
    ("stall", "next_token=0", STALL),
    ("stall", "next_token=-1", STALL),
    ("stall", "next_token=nan", STALL),
    ("stall", "next_tokens=1", STALL),
    ("stall", "relative=20s", STALL),
    ("stall", "next_token=2m", STALL),
    ("stall", 3, STALL),
    ("stall", True, STALL),
    ("on_stall", "print", "a function of one Stall, which is not async"),
    ("on_stall", AsyncMock(), "a function of one Stall, which is not async"),
    ("slo", "talk", SLOS),
    ("slo", 0.5, SLOS),
    ("slo", "0.5", SLOS),
    ("slo", "0.5/0/1", SLOS),
    ("slo", {"gpt*": "talk"}, SLOS),
    ("slo", {3: "chat"}, SLOS),
    ("session_from", "", SESSION),
    ("session_from", "header:", SESSION),
    ("session_from", "metadata..id", SESSION),
    ("session_from", 3, SESSION),
    ("session_from", AsyncMock(), SESSION),
    ("file", "", FILE),
    ("file", "  ", FILE),
    ("file", 3, FILE),
    ("file", b"otel-itl.jsonl", FILE),
    ("file", "a\0b", FILE),
    ("file", ROOT, FILE),
    ("file", ROOT / "none" / "otel-itl.jsonl", FILE),
    ("summary", "yes", "true or false"),
    ("summary", 1, "true or false"),
    ("summary", None, "true or false"),
    ("progress", 0, PROGRESS),
    ("progress", True, PROGRESS),
    ("progress", "often", PROGRESS),
    ("progress", 61, PROGRESS),
    ("progress", float("nan"), PROGRESS),
]
"""Option, a value that it does not take, what it takes by the message."""
VARIABLES = [
    ("token_events", "every", "one of packed, each, log, none", "'packed'"),
    ("sdks", "openai,acme", SOME_SDKS, repr(SDK_NAMES)),
    ("sdks", ",", SOME_SDKS, repr(SDK_NAMES)),
    ("standard_names", "legacy", "one of operation, inference", "'operation'"),
    ("model_limit", "0", "a whole number from 1", "100"),
    ("model_limit", "ten", "a whole number from 1", "100"),
    ("model_limit", "1e3", "a whole number from 1", "100"),
    ("model_limit", "1.5", "a whole number from 1", "100"),
    ("model_limit", "9" * 5_000, "a whole number from 1", "100"),
    ("chunk_events", ",", "names, separated by commas", "()"),
    ("stall", "2 s", f"values such as {STALL_TEXT}", "first_token=10,reasoning=10,next_token=1,relative=10"),
    ("slo", "gpt*=talk", SLO_TEXTS, "off"),
    ("session_from", "header:", f"{SESSION_TEXT}, or off", "None"),
]
"""Option, text that its variable does not take, what it takes by the warning, the default that the warning names."""


def load(options: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Config:
    return config.load(options, environ)


def variable(option: str) -> str:
    return f"OTEL_ITL_{option.upper()}"


def text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, (list, tuple)) else str(value)


# --- Precedence ----------------------------------------------------------------------------------------------------


def test_without_arguments_and_variables_there_are_the_defaults() -> None:
    expected = Config(
        token_events="packed",
        sdks=SDK_NAMES,
        standard_names="operation",
        model_limit=100,
        chunk_events=(),
        stall=StallPolicy(first_token=10, reasoning=10, next_token=1, relative=10, abort_after=None),
        on_stall=None,
        slo=Objectives(),
        session_from=None,
        file=None,
        summary=False,
        progress=None,
    )
    assert load({}, {}) == expected


@pytest.mark.parametrize("option", OPTIONS)
def test_an_argument_wins_over_the_default(option: str) -> None:
    assert getattr(load({option: OTHERS[option][0]}, {}), option) == LOADED[option][0]


@pytest.mark.parametrize("option", VARIABLE_OPTIONS)
def test_a_variable_wins_over_the_default(option: str) -> None:
    assert getattr(load({}, {variable(option): text(OTHERS[option][0])}), option) == LOADED[option][0]


@pytest.mark.parametrize("option", VARIABLE_OPTIONS)
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


# --- What options mean ---------------------------------------------------------------------------------------------

STALLS = [
    ("off", None),
    (None, None),
    (False, None),
    ("next_token=OFF", StallPolicy(next_token=None)),
    ("first_token=off, next_token=0.5", StallPolicy(first_token=None, next_token=0.5)),
    ("relative=20,abort_after=60", StallPolicy(relative=20, abort_after=60)),
    (StallPolicy(next_token=9), StallPolicy(next_token=9)),
    ("next_token=500ms, first_token=3 s", StallPolicy(next_token=0.5, first_token=3)),
]
SLO_FORMS = [
    ("off", ()),
    (None, ()),
    ("agent", (("*", PROFILES["agent"]),)),
    ("0.5/0.05", (("*", SLO(ttft=0.5, itl=0.05)),)),
    ("500ms/50ms", (("*", SLO(ttft=0.5, itl=0.05)),)),
    ("0.5s/50ms@0.995", (("*", SLO(ttft=0.5, itl=0.05, target=0.995)),)),
    ("500 MS / 50 ms", (("*", SLO(ttft=0.5, itl=0.05)),)),
    ("gpt*=500ms/,*=/0.05", (("gpt*", SLO(ttft=0.5)), ("*", SLO(itl=0.05)))),
    ("/0.05@0.995", (("*", SLO(itl=0.05, target=0.995)),)),
    (SLO(itl=0.2), (("*", SLO(itl=0.2)),)),
    ("gpt-4o*=chat, *=0.5/", (("gpt-4o*", PROFILES["chat"]), ("*", SLO(ttft=0.5)))),
    ({"llama3:8b": "code", "*": SLO(itl=1)}, (("llama3:8b", PROFILES["code"]), ("*", SLO(itl=1)))),
]


@pytest.mark.parametrize(("given", "expected"), STALLS)
def test_a_stall_policy_may_be_given_in_many_forms(given: Any, expected: StallPolicy | None) -> None:
    assert load({"stall": given}, {}).stall == expected


@pytest.mark.parametrize(("given", "expected"), SLO_FORMS)
def test_objectives_may_be_given_in_many_forms(given: Any, expected: tuple[tuple[str, SLO], ...]) -> None:
    assert load({"slo": given}, {}).slo == Objectives(expected)


def test_a_session_may_be_a_field_at_any_depth_of_the_body() -> None:
    found = load({"session_from": "metadata.session_id"}, {}).session_from
    assert found is not None
    assert found({"metadata": {"session_id": "s1"}}, {}) == "s1"


@pytest.mark.parametrize("given", ["off", "none", "OFF"])
def test_a_session_may_be_taken_from_nowhere(given: str) -> None:
    assert load({}, {"OTEL_ITL_SESSION_FROM": given}).session_from is None


def test_a_session_may_be_a_header_in_any_case() -> None:
    found = load({"session_from": "header:X-Session"}, {}).session_from
    assert found is not None
    assert found({}, {"x-session": "s1"}) == "s1"


@pytest.mark.parametrize("body", [{}, {"metadata": None}, {"metadata": "s1"}, {"metadata": {}}])
def test_a_session_that_a_request_does_not_name_is_none(body: dict[str, Any]) -> None:
    found = load({"session_from": "metadata.session_id"}, {}).session_from
    assert found is not None
    assert found(body, {}) is None


@pytest.mark.parametrize("given", ["off", "NONE", None])
def test_no_file_may_be_asked_for(given: str | None) -> None:
    assert load({"file": given}, {"OTEL_ITL_FILE": "otel-itl.jsonl"}).file is None


def test_the_path_of_a_file_is_made_absolute_when_it_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    found = [load({"file": given}, {}).file for given in ("x.jsonl", Path("x.jsonl"), "~/x.jsonl")]
    assert found == [str(tmp_path / "x.jsonl")] * 3


@pytest.mark.parametrize(
    ("given", "expected"), [(True, True), (False, False), ("1", True), ("TRUE", True), ("0", False), ("false", False)]
)
def test_a_summary_is_asked_for_by_true_or_1(given: Any, expected: bool) -> None:
    assert load({"summary": given}, {}).summary is expected


# --- A wrong argument raises ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("option", "value", "accepted"), ARGUMENTS)
def test_a_wrong_argument_raises_with_what_is_accepted(option: str, value: Any, accepted: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"it takes {accepted}.")):
        load({option: value}, {})


def test_the_message_of_a_wrong_argument_names_the_call_the_option_and_the_value() -> None:
    with pytest.raises(ValueError, match=r"^instrument\(token_events='every'\) is not accepted: it takes one of "):
        load({"token_events": "every"}, {})


def test_where_there_is_a_reason_the_message_has_it_before_what_is_accepted() -> None:
    with pytest.raises(ValueError, match="is not accepted: it is a directory; it takes the path of a file "):
        load({"file": ROOT}, {})


def test_a_wrong_argument_is_the_only_exception_of_its_traceback() -> None:
    with pytest.raises(ValueError, match="model_limit") as raised:
        load({"model_limit": "many"}, {})
    assert (raised.value.__cause__, raised.value.__context__) == (None, None)


REFUSED = [
    ({"slo": "500/50"}, "times are in seconds: did you mean 0.5/0.05?"),
    ({"slo": "gpt*=chat,*=500/50@0.995"}, "times are in seconds: did you mean 0.5/0.05?"),
    ({"slo": {"gpt*": "500/50"}}, "times are in seconds: did you mean 0.5/0.05?"),
    ({"slo": "/50"}, "times are in seconds: did you mean itl=0.05?"),
    ({"slo": ""}, "it has no objective: name one, such as chat, 0.5/0.05 or 0.5/0.05@0.995."),
    ({"slo": "/"}, "it has no objective: name one, such as chat, 0.5/0.05 or 0.5/0.05@0.995."),
    ({"slo": "/@0.9"}, "it has no objective before @0.9: name one, such as chat, 0.5/0.05 or 0.5/0.05@0.995."),
    ({"slo": "0.5/-1"}, "its ITL '-1' is no time above 0 and below 5 s, such as 0.5 or 50ms."),
    ({"slo": "0.5/nan"}, "its ITL 'nan' is no time above 0 and below 5 s, such as 0.5 or 50ms."),
    ({"slo": "inf/"}, "its TTFT 'inf' is no time above 0 and below 100 s, such as 0.5 or 50ms."),
    ({"slo": "500us/50us"}, "its TTFT '500us' is no time above 0 and below 100 s, such as 0.5 or 50ms."),
    ({"slo": "0.5/0.1@1"}, "its target '1' is no share between 0 and 1, such as 0.99."),
    ({"slo": "chat,code"}, "it has two objectives for all models: name the models, as in gpt-4o*=chat,*=batch."),
    ({"slo": "a*=chat,a*=code"}, "it has two objectives for a*: name the models, as in gpt-4o*=chat,*=batch."),
    ({"slo": "cat"}, f"it takes {SLOS}. Did you mean chat?"),
    ({"stall": "first_token=1,first_token=2"}, "it has two values for first_token."),
    ({"stall": "next_tokens=1"}, f"it takes {STALL}. Did you mean next_token?"),
    ({"sdks": ["opneai"]}, f"it takes {SOME_SDKS}. Did you mean openai?"),
    ({"token_events": "Packed"}, "it takes one of packed, each, log, none. Did you mean packed?"),
]


@pytest.mark.parametrize(("options", "reason"), REFUSED)
def test_the_message_of_a_plausible_mistake_names_what_was_meant(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f" is not accepted: {reason}") + "$"):
        load(options, {})


@pytest.mark.parametrize(
    ("options", "called_with"),
    [
        ({"on_stall": lambda: None}, "one argument: the Stall"),
        ({"on_stall": lambda stall, more: None}, "one argument: the Stall"),
        ({"session_from": lambda body: None}, "2 arguments: the body, the headers"),
    ],
)
def test_a_function_that_takes_other_arguments_is_refused(options: dict[str, Any], called_with: str) -> None:
    with pytest.raises(ValueError, match=f"is not accepted: it cannot be called with {called_with}.$"):
        load(options, {})


@pytest.mark.parametrize("function", [lambda *stalls: None, lambda stall, more=1: None, [].append, print, dict])
def test_a_function_that_can_be_called_with_a_stall_is_accepted(function: Any) -> None:
    assert load({"on_stall": function}, {}).on_stall is function


def test_a_misspelled_option_raises_with_the_nearest_one() -> None:
    with pytest.raises(
        TypeError, match=r"^instrument\(\) has no option 'token_event': .* Did you mean token_events\?$"
    ):
        otel_itl.instrument(token_event="each")  # type: ignore[arg-type]


def test_a_misspelled_provider_raises_with_the_nearest_one() -> None:
    with pytest.raises(TypeError, match=r" Did you mean tracer_provider\?$"):
        otel_itl.instrument(traces_provider=None)  # type: ignore[arg-type]


def test_an_unknown_option_raises_with_the_options_that_there_are() -> None:
    known = ", ".join(OPTIONS)
    with pytest.raises(TypeError, match=rf"^instrument\(\) has no option 'tokens': it takes {known} and "):
        load({"tokens": 1}, {})


# --- A wrong variable warns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("option", "value", "accepted", "default"), VARIABLES)
def test_a_wrong_variable_leaves_the_default(option: str, value: str, accepted: str, default: str) -> None:
    assert load({}, {variable(option): value}) == Config(sdks=SDK_NAMES)


@pytest.mark.parametrize(("option", "value", "accepted", "default"), VARIABLES)
def test_a_wrong_variable_is_one_warning_with_all_that_is_to_be_known(
    option: str, value: str, accepted: str, default: str, caplog: pytest.LogCaptureFixture
) -> None:
    load({}, {variable(option): value})
    warning = f"{variable(option)} is not accepted: it takes {accepted}. The default {default} is used."
    assert [(record.name, record.levelno, record.getMessage()) for record in caplog.records] == [
        ("otel_itl", logging.WARNING, warning)
    ]


def test_an_unknown_variable_is_one_warning_that_lists_what_is_read(caplog: pytest.LogCaptureFixture) -> None:
    load({}, {"OTEL_ITL_VERBOSITY": "each"})
    listed = ", ".join([*map(variable, VARIABLE_OPTIONS), "OTEL_ITL_DISABLED"])
    assert caplog.messages == [f"OTEL_ITL_VERBOSITY is not known to otel_itl, which reads {listed}."]


def test_a_misspelled_variable_is_one_warning_with_the_nearest_one(caplog: pytest.LogCaptureFixture) -> None:
    load({}, {"OTEL_ITL_TOKENEVENTS": "each"})
    assert [message.partition(" Did ")[2] for message in caplog.messages] == ["you mean OTEL_ITL_TOKEN_EVENTS?"]


def test_a_variable_for_what_only_an_argument_can_hold_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    load({}, {"OTEL_ITL_ON_STALL": "print"})
    assert caplog.messages == ["OTEL_ITL_ON_STALL is not read: on_stall is an argument of instrument() alone."]


def test_a_variable_in_milliseconds_is_one_warning_with_the_seconds(caplog: pytest.LogCaptureFixture) -> None:
    load({}, {"OTEL_ITL_SLO": "500/50"})
    assert caplog.messages == [
        "OTEL_ITL_SLO is not accepted: times are in seconds: did you mean 0.5/0.05? The default off is used."
    ]


def test_a_wrong_switch_is_one_warning_with_its_value_and_what_it_takes(caplog: pytest.LogCaptureFixture) -> None:
    load({}, {"OTEL_ITL_SUMMARY": "maybe"})
    assert caplog.messages == [
        "OTEL_ITL_SUMMARY=maybe is not accepted: it takes true or false, or 1 or 0. The default false is used."
    ]


KEY = "sk-0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_ITL_API_KEY", KEY),
        ("OTEL_ITL_HEADERS", f"authorization=Bearer {KEY}"),
        ("OTEL_ITL_ENDPOINT", f"https://user:{KEY}@example.com"),
        ("OTEL_ITL_ON_STALL", KEY),
        (DISABLED_VARIABLE, KEY),
        *(
            (variable(option), f"https://user:{KEY}@example.com/")
            for option in VARIABLE_OPTIONS
            if option != "chunk_events"  # which takes any names
        ),
    ],
)
def test_no_warning_about_a_variable_holds_its_value(name: str, value: str, caplog: pytest.LogCaptureFixture) -> None:
    load({}, {name: value})
    assert ([message.split()[0] for message in caplog.messages], KEY in caplog.text) == ([name], False)


@pytest.mark.parametrize("option", VARIABLE_OPTIONS)
def test_the_warning_about_a_variable_names_text_forms_alone(option: str, caplog: pytest.LogCaptureFixture) -> None:
    malformed = {"session_from": "header:", "file": str(ROOT)}
    load({}, {variable(option): malformed.get(option, ",")})
    (message,) = caplog.messages
    assert re.search(r"\b(StallPolicy|an SLO|list|function)\b|\{", message) is None


def test_a_wrong_variable_does_not_keep_the_others_from_counting() -> None:
    loaded = load({}, {"OTEL_ITL_MODEL_LIMIT": "many", "OTEL_ITL_TOKEN_EVENTS": "none", "OTEL_ITL_X": "1"})
    assert (loaded.model_limit, loaded.token_events) == (100, "none")


def test_a_wrong_variable_does_not_keep_an_argument_from_counting() -> None:
    assert load({"model_limit": 5}, {"OTEL_ITL_MODEL_LIMIT": "many"}).model_limit == 5


@pytest.mark.parametrize("value", ["true", "false", "TRUE", "1", "0"])
def test_the_operators_switch_is_no_option_and_no_unknown_variable(
    value: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert (load({}, {DISABLED_VARIABLE: value}), caplog.messages) == (Config(sdks=SDK_NAMES), [])


def test_another_value_of_the_operators_switch_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    load({}, {DISABLED_VARIABLE: "on"})
    expected = "OTEL_ITL_DISABLED is not accepted: it takes true or false, or 1 or 0. Streams are measured."
    assert caplog.messages == [expected]


def test_the_variables_of_our_own_tests_are_no_options(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ITL_TEST_EXAMPLES", "8")
    monkeypatch.setenv("ITL_TEST_SECONDS", "60")
    load({})
    assert caplog.messages == []


def test_no_test_reads_a_variable_that_looks_like_an_option() -> None:
    tests = Path(__file__).parents[1]
    prefix = "OTEL_ITL_" + "TEST"
    assert [str(file) for file in tests.rglob("*.py") if prefix in file.read_text(encoding="utf-8")] == []


# --- Documented ----------------------------------------------------------------------------------------------------

HEAD = """| option | variable | default | what it does | what it takes |
|---|---|---|---|---|
"""
BEGIN, END = "<!-- generated: options -->\n", "<!-- end of generated: options -->"


def table() -> str:
    """The options as the page lists them."""
    rows = []
    for option, form in config.OPTIONS.items():
        default = text(getattr(Config(), option))
        cells = [
            f"`{option}`",
            f"`{variable(option)}`" if variable(option) in config.VARIABLES else "none",
            "all" if option == "sdks" else f"`{default}`" if default else "none",
            explained()[option],
            form.accepted.replace("*", r"\*"),
        ]
        rows.append(f"| {' | '.join(cells)} |\n")
    return HEAD + "".join(rows)


def renewed(page: str) -> str:
    """The page with its table as the code has it now."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


def test_the_documentation_lists_the_options_as_they_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert renewed(page) == page, "run `python tests/unit/test_config.py`"


def test_an_option_has_a_variable_of_its_name() -> None:
    assert {variable(option): option for option in VARIABLE_OPTIONS} == config.VARIABLES


@pytest.mark.parametrize(
    ("option", "values"),
    [("token_events", ["packed", "each", "log", "none"]), ("standard_names", ["operation", "inference"])],
)
def test_every_value_of_an_option_is_explained(option: str, values: list[str]) -> None:
    assert [value for value in values if f"`{value}`" not in explained()[option]] == []


# --- instrument() --------------------------------------------------------------------------------------------------

PROVIDERS = ["tracer_provider", "meter_provider", "logger_provider"]


def explained() -> dict[str, str]:
    """Argument → its explanation in the docstring of `instrument()`."""
    arguments = inspect.cleandoc(otel_itl.instrument.__doc__ or "").partition("Args:\n")[2].partition("\n\n")[0]
    return {
        name: " ".join(explanation.split())
        for name, explanation in re.findall(r"^    (\w+): (.*(?:\n     .*)*)", arguments, re.MULTILINE)
    }


def test_the_arguments_of_instrument_are_the_options_and_the_providers() -> None:
    assert list(inspect.signature(otel_itl.instrument).parameters) == [*OPTIONS, *PROVIDERS, "misspelled"]


def test_the_docstring_of_instrument_explains_its_arguments_and_no_others() -> None:
    assert list(explained()) == [*OPTIONS, *PROVIDERS]


@pytest.fixture
def passed_on(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `instrument()` hands on to the instrumentor, call by call."""
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr("otel_itl.instrumentor.ITLInstrumentor.instrument", lambda _, **given: calls.append(given))
    return calls


def test_arguments_that_are_not_given_leave_their_variables_to_count(passed_on: list[dict[str, Any]]) -> None:
    otel_itl.instrument()
    assert passed_on == [{}]


def test_arguments_that_are_given_are_passed_on_also_when_they_are_none(passed_on: list[dict[str, Any]]) -> None:
    otel_itl.instrument(model_limit=5, stall=None, slo=None)
    assert passed_on == [{"model_limit": 5, "stall": None, "slo": None}]


def test_an_argument_of_another_name_is_refused() -> None:
    with pytest.raises(TypeError, match="tokens"):
        otel_itl.instrument(tokens=1)  # type: ignore[arg-type]


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
