"""Encodes messages of the binary event stream of AWS: a prelude, headers and a payload, with a checksum over each."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from typing import Final
from zlib import crc32

_STRING: Final = 7
"""The type of a header whose value is text."""


def encode_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Encode one message: its lengths, their CRC, the headers, the payload, and the CRC of all that."""
    block = b"".join(
        struct.pack(f"!B{len(name)}sBH", len(name), name.encode(), _STRING, len(value.encode())) + value.encode()
        for name, value in headers.items()
    )
    lengths = struct.pack("!II", len(block) + len(payload) + 16, len(block))
    message = lengths + struct.pack("!I", crc32(lengths)) + block + payload
    return message + struct.pack("!I", crc32(message))


def encode_event(name: str, payload: bytes) -> bytes:
    """Encode an event of this type with a JSON payload."""
    return encode_message({":event-type": name, ":content-type": "application/json", ":message-type": "event"}, payload)


def encode_exception(name: str, payload: bytes) -> bytes:
    """Encode an exception of this type with a JSON payload."""
    headers = {":exception-type": name, ":content-type": "application/json", ":message-type": "exception"}
    return encode_message(headers, payload)


def encode_chunk(_: str, body: bytes) -> bytes:
    """Encode a piece of the body of `invoke_model_with_response_stream`: it is bytes for the service, in Base64."""
    return encode_event("chunk", json.dumps({"bytes": base64.b64encode(body).decode(), "p": "abcdefgh"}).encode())
