"""Addresses and messages of other packages are shown without what may be a secret."""

from __future__ import annotations

import pytest

from otel_itl.core.without_secrets import hide_secrets, show_address

KEY = "sk-0123456789abcdef"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://localhost:4318", "http://localhost:4318"),
        ("localhost:4317", "localhost:4317"),
        ("[::1]:4317", "[::1]:4317"),
        ("https://collector/v1/traces", "https://collector/v1/traces"),
        ("https://host/api/public/otel/v1/traces/", "https://host/api/public/otel/v1/traces/"),
        ("dns:///collector:4317", "dns:///…"),
        ("", ""),
        (f"https://user:{KEY}@host:443/v1", "https://host:443/v1"),
        (f"{KEY}@host:4317", "host:4317"),
        (f"https://{KEY}@host@host:443/v1", "https://host:443/v1"),
        (f"https://host/v1/traces?api-key={KEY}", "https://host/v1/traces"),
        (f"https://host?api-key={KEY}", "https://host"),
        (f"https://host/v1#{KEY}", "https://host/v1"),
        (f"https://host/{KEY}/v1/traces", "https://host/…/v1/traces"),
        ("https://host/3f2504e04f8911d39a0c0305e82c3301/otlp", "https://host/…/otlp"),
        ("https://host/a%20b/AKIAIOSFODNN7EXAMPLE", "https://host/…/…"),
        (f"https://user:{KEY}/x@host/v1", "https://…"),
        (f"https://user:{KEY}?x@host/v1", "https://…"),
        (f"https://host/v1?next=https://{KEY}", "https://host/v1"),
    ],
)
def test_an_address_is_shown_without_what_may_be_a_secret(address: str, expected: str) -> None:
    assert show_address(address) == expected


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        (f"invalid header {KEY}", {"OTEL_EXPORTER_OTLP_HEADERS": f"x-team=a,x-key={KEY}"}),
        (f"invalid header Bearer {KEY}", {"OTEL_EXPORTER_OTLP_TRACES_HEADERS": f"authorization=Bearer%20{KEY}"}),
        (f"Port could not be cast to integer value as '{KEY}'", {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://u:{KEY}@h"}),
        (f"no such host in http://user:{KEY}@host/v1", {}),
        (f"no such host in 'https://host/v1?key={KEY}'", {}),
        (f"what is {KEY}?", {"OTEL_EXPORTER_SOME_API_KEY": KEY}),
    ],
)
def test_a_message_is_shown_without_the_secrets_of_the_environment(text: str, environ: dict[str, str]) -> None:
    assert KEY not in hide_secrets(text, environ)


def test_a_message_without_a_secret_is_shown_as_it_is() -> None:
    text = "no installed package provides 'none' (opentelemetry_traces_exporter)"
    assert hide_secrets(text, {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_HEADERS": "a=no"}) == text
