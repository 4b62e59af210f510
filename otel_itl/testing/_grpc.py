"""The messages of xAI's gRPC service, by the definitions that `xai_sdk` has."""

from __future__ import annotations

import struct
from importlib import import_module
from typing import Any, Final

CONTENT_TYPE: Final = "application/grpc"
"""Of a response of gRPC."""
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


def read_model(body: bytes) -> str | None:
    """Return the model that a request asks for; None: it names none, or is no such request."""
    try:
        model = _messages().GetCompletionsRequest.FromString(body[_PREFIX.size :]).model
    except Exception:  # noqa: BLE001 - no such message, or no such package
        return None
    return str(model) or None


def _messages() -> Any:
    """Return the SDK's module of message classes."""
    return import_module("xai_sdk.proto").chat_pb2
