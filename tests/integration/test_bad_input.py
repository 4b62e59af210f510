"""What is wrong is said in one sentence: in an exception to who wrote it, in a warning to who deployed it."""

from __future__ import annotations

import os
import re
from importlib.metadata import PackageNotFoundError
from typing import TYPE_CHECKING, Any

import pytest

import otel_itl
from otel_itl.sdks import installer
from otel_itl.sdks.registry import REGISTRY, SDK_NAMES
from otel_itl.testing import CapturedTelemetry

if TYPE_CHECKING:
    from conftest import Clients, Instrument


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in os.environ:
        if variable.startswith("OTEL_ITL_"):
            monkeypatch.delenv(variable)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "otel_itl"]


FORMS = "one of packed, each, log, none"
SOME_SDKS = f"some of {', '.join(SDK_NAMES)}"


@pytest.mark.parametrize(
    ("option", "value", "accepted"),
    [
        ("token_events", "every", FORMS),
        ("token_events", None, FORMS),
        ("sdks", "acme", SOME_SDKS),
        ("sdks", 3, SOME_SDKS),
        ("standard_names", "new", "one of operation, inference"),
        ("model_limit", 0, "a whole number from 1"),
        ("model_limit", 2.5, "a whole number from 1"),
        ("chunk_events", 7, "names, as a list or separated by commas"),
    ],
)
def test_a_wrong_value_raises_and_says_what_is_accepted(
    option: str, value: Any, accepted: str, instrument: Instrument
) -> None:
    sentence = f"instrument({option}={value!r}) is not accepted: it takes {accepted}."
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        instrument(**{option: value})


def test_an_unknown_option_raises_and_says_which_there_are() -> None:
    with pytest.raises(
        TypeError, match=r"^instrument\(\) has no option 'tokens': it takes token_events, .*providers\.$"
    ):
        otel_itl.ITLInstrumentor().instrument(tokens="packed")


def test_after_a_wrong_value_the_right_one_is_taken(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    with pytest.raises(ValueError, match="every"):
        instrument(token_events="every")
    instrument(token_events="each")
    clients.chat()
    assert [event.name for event in captured_telemetry.spans[0].events][2:3] == ["itl.token"]


def test_after_a_wrong_value_nothing_is_hooked(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    with pytest.raises(ValueError, match="every"):
        instrument(token_events="every")
    assert (len(clients.chat()) > 0, captured_telemetry.spans) == (True, [])


ACCEPTED = {
    "OTEL_ITL_TOKEN_EVENTS": ("one of packed, each, log, none", "'packed'"),
    "OTEL_ITL_SDKS": (SOME_SDKS, repr(SDK_NAMES)),
    "OTEL_ITL_STANDARD_NAMES": ("one of operation, inference", "'operation'"),
    "OTEL_ITL_MODEL_LIMIT": ("a whole number from 1", "100"),
}


@pytest.mark.parametrize("variable", list(ACCEPTED))
def test_a_wrong_variable_is_one_warning_that_says_what_is_accepted(
    variable: str, instrument: Instrument, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(variable, "nonsense")
    instrument()
    accepted, default = ACCEPTED[variable]
    assert warnings(caplog) == [f"{variable} is not accepted: it takes {accepted}. The default {default} is used."]


@pytest.mark.parametrize("variable", list(ACCEPTED))
def test_with_a_wrong_variable_streams_are_measured_by_the_default(
    variable: str,
    instrument: Instrument,
    clients: Clients,
    monkeypatch: pytest.MonkeyPatch,
    captured_telemetry: CapturedTelemetry,
) -> None:
    monkeypatch.setenv(variable, "nonsense")
    instrument()
    clients.chat()
    (span,) = captured_telemetry.spans
    assert [event.name for event in span.events][2:] == ["itl.tokens"]


def test_an_unknown_variable_is_one_warning_that_says_which_are_read(
    instrument: Instrument, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_ITL_FOO", "1")
    instrument()
    (warning,) = warnings(caplog)
    assert warning.startswith("OTEL_ITL_FOO is not known to otel_itl, which reads OTEL_ITL_TOKEN_EVENTS, ")


def test_two_wrong_variables_are_two_warnings(
    instrument: Instrument, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_ITL_FOO", "1")
    monkeypatch.setenv("OTEL_ITL_MODEL_LIMIT", "many")
    instrument()
    assert sorted(warning.partition(" ")[0] for warning in warnings(caplog)) == ["OTEL_ITL_FOO", "OTEL_ITL_MODEL_LIMIT"]


def test_observing_stream_after_stream_says_what_is_wrong_once(
    monkeypatch: pytest.MonkeyPatch, instrument: Instrument, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_ITL_FOO", "1")
    instrument()
    for _ in range(3):
        list(otel_itl.observe(["a"], provider="test", model="m"))
    assert len(warnings(caplog)) == 1


def test_an_argument_wins_over_a_variable_that_wins_over_the_default(
    instrument: Instrument,
    clients: Clients,
    monkeypatch: pytest.MonkeyPatch,
    captured_telemetry: CapturedTelemetry,
) -> None:
    monkeypatch.setenv("OTEL_ITL_TOKEN_EVENTS", "none")
    instrument()
    clients.chat()
    otel_itl.uninstrument()
    instrument(token_events="each")
    clients.chat()
    by_variable, by_argument = ({event.name for event in span.events} for span in captured_telemetry.spans)
    assert (by_variable, "itl.token" in by_argument) == (set(), True)


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_variable_is_none(
    value: str, instrument: Instrument, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_ITL_TOKEN_EVENTS", value)
    instrument()
    assert warnings(caplog) == []


# --- SDKs that are missing or too old -------------------------------------------------------------------------------


def pretend(monkeypatch: pytest.MonkeyPatch, **versions: str | None) -> None:
    """Let these packages be installed in these versions, or (None) not at all."""
    really = installer.version

    def version(package: str) -> str:
        if package not in versions:
            return really(package)
        pretended = versions[package]
        if pretended is None:
            raise PackageNotFoundError(package)
        return pretended

    monkeypatch.setattr(installer, "version", version)


def test_an_sdk_that_is_too_old_is_one_sentence(
    instrument: Instrument, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pretend(monkeypatch, openai="1.39.9")
    instrument()
    assert warnings(caplog) == [
        "openai 1.39.9 is too old: otel_itl measures the streams of openai>=1.40, and leaves this one alone."
    ]


def test_an_sdk_that_is_too_old_works_unmeasured(
    instrument: Instrument,
    clients: Clients,
    monkeypatch: pytest.MonkeyPatch,
    captured_telemetry: CapturedTelemetry,
) -> None:
    pretend(monkeypatch, openai="1.39.9")
    instrument()
    clients.chat()
    clients.messages()
    assert [span.name for span in captured_telemetry.spans] == ["chat claude-opus"]


@pytest.mark.parametrize("version", ["1.40.0", "1.40", "1.40.0b1", "1.100.2", "10.0.0", "2.0.0.dev1"])
def test_a_version_from_the_oldest_on_is_taken(
    version: str, instrument: Instrument, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pretend(monkeypatch, openai=version)
    instrument()
    assert warnings(caplog) == []


@pytest.mark.parametrize("version", ["1.39.99", "1.4.0", "0.28.1", "1"])
def test_a_version_before_the_oldest_is_not_taken(
    version: str, instrument: Instrument, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pretend(monkeypatch, openai=version)
    instrument()
    assert [warning.split(":")[0] for warning in warnings(caplog)] == [f"openai {version} is too old"]


def test_an_sdk_that_is_not_installed_is_nothing_to_speak_of(
    instrument: Instrument, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pretend(monkeypatch, openai=None)
    instrument()
    assert warnings(caplog) == []


def test_an_sdk_that_was_asked_for_and_is_not_installed_is_one_sentence(
    instrument: Instrument, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pretend(monkeypatch, openai=None)
    instrument(sdks=["openai", "anthropic"])
    assert warnings(caplog) == ["openai is not installed: otel_itl measures the streams of openai>=1.40."]


def test_with_no_sdk_at_all_one_sentence_says_that_nothing_is_measured(
    instrument: Instrument, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pretend(monkeypatch, **dict.fromkeys((entry.distribution for entry in REGISTRY.values()), None))
    instrument()
    names = ", ".join(SDK_NAMES)
    assert warnings(caplog) == [f"otel_itl measures nothing here: none of {names} can be instrumented."]


def test_only_the_sdks_that_were_asked_for_are_instrumented(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument(sdks="anthropic")
    clients.chat()
    clients.messages()
    assert [span.name for span in captured_telemetry.spans] == ["chat claude-opus"]


# --- providers and streams that are none ----------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [3, None, object()])
def test_observing_what_cannot_be_iterated_over_raises_one_sentence(stream: Any) -> None:
    sentence = f"observe() takes an iterator or an async iterator of chunks: got {type(stream).__name__}."
    with pytest.raises(TypeError, match=f"^{re.escape(sentence)}$"):
        otel_itl.observe(stream, provider="test", model="m")


@pytest.mark.parametrize(
    ("argument", "value", "reason"),
    [
        ("provider", 5, "it takes a name such as 'mistral_ai'."),
        ("provider", "", "it takes a name such as 'mistral_ai'."),
        ("model", b"m", "it takes a name such as 'ministral-8b', or None."),
        ("operation", None, "it takes a name such as 'chat'."),
        ("server_address", 1, "it takes the name of a host, or None."),
        ("server_port", "443", "it takes a number, or None."),
        ("classify", len, None),
        ("classify", 1, "it takes a function of one chunk that returns flags of otel_itl.Kind, which is not async."),
        ("classify", lambda: 1, "it cannot be called with one argument: the chunk."),
        ("classify", lambda chunk, response: 1, None),
        ("parameters", [("max_tokens", 9)], "it takes a mapping such as {'max_tokens': 100}, or None."),
        ("session_id", "", "it takes a text of 1 to 256 characters, or None."),
        ("session_id", 7, "it takes a text of 1 to 256 characters, or None."),
        ("sent", "later", "it takes 'call', 'first_pull', or None."),
        ("sent", ["call"], "it takes 'call', 'first_pull', or None."),
        ("abort", True, "it takes a function without arguments, which is not async."),
        ("abort", len, "it cannot be called without arguments."),
    ],
)
def test_an_argument_of_observe_that_is_not_accepted_raises_one_sentence(
    argument: str, value: Any, reason: str | None, instrument: Instrument
) -> None:
    instrument()
    arguments = {"provider": "test", "model": "m", argument: value}
    if reason is None:
        assert list(otel_itl.observe(["a"], **arguments)) == ["a"]
        return
    with pytest.raises(ValueError, match=re.escape(f" is not accepted: {reason}") + "$") as refused:
        otel_itl.observe(["a"], **arguments)
    assert str(refused.value).startswith(f"observe({argument}={value!r}) ")


def test_a_provider_that_is_none_raises_one_sentence(instrument: Instrument) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^instrument\(tracer_provider='http://localhost:4317'\) .*\.$"):
        instrument(tracer_provider="http://localhost:4317")
