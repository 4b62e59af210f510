"""The messages of xAI's gRPC service, by the definitions that `xai_sdk` has."""

from __future__ import annotations

import struct
from importlib import import_module
from typing import Any, Final

_PREFIX: Final = struct.Struct("!BI")
"""Before each message: whether it is compressed, and its length."""


def encode_message(name: str, data: bytes) -> bytes:
    """Encode a message of this type, given as JSON by the names of its fields."""
    message = getattr(_messages(), name)()
    import_module("google.protobuf.json_format").Parse(data, message)
    return encode_bytes(name, message.SerializeToString())


def encode_bytes(_: str, payload: bytes) -> bytes:
    """Encode a message of any bytes."""
    return _PREFIX.pack(0, len(payload)) + payload


def decode_request(body: bytes) -> dict[str, Any]:
    """Decode a request for a completion: its fields that are set.

    Raises:
        ValueError: it is no such message.
    """
    try:
        message = _messages().GetCompletionsRequest.FromString(body[_PREFIX.size :])
    except Exception as error:
        raise ValueError(f"no request for a completion: {error}") from error
    to_dict = import_module("google.protobuf.json_format").MessageToDict
    fields: dict[str, Any] = to_dict(message, preserving_proto_field_name=True)
    return fields


def _messages() -> Any:
    """Return the SDK's module of message classes."""
    return import_module("xai_sdk.proto").chat_pb2
