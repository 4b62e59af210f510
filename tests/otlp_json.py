"""Writes attributes in OTLP JSON, for telemetry that tests make themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def to_otlp_attributes(
    attributes: Mapping[str, Any], number_of_ints: Callable[[int], Any] = str
) -> list[dict[str, Any]]:
    """Return attributes in OTLP JSON.

    Args:
        attributes: name → value; a list or tuple becomes an array.
        number_of_ints: makes what stands for an integer; OTLP JSON has a string, some writers a number.
    """

    def value(raw: Any) -> dict[str, Any]:
        match raw:
            case bool():
                return {"boolValue": raw}
            case int():
                return {"intValue": number_of_ints(raw)}
            case float():
                return {"doubleValue": raw}
            case str():
                return {"stringValue": raw}
            case _:
                return {"arrayValue": {"values": [value(item) for item in raw]}}

    return [{"key": key, "value": value(raw)} for key, raw in attributes.items()]
