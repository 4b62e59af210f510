"""The wire formats as one table: which path asks for each, and what the server answers where it has no script."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import unquote

from . import (
    bedrock,
    chat,
    cohere,
    completions,
    conversations,
    gemini,
    interactions,
    messages,
    ollama,
    responses,
    text_generation,
    xai,
)
from .exchange import decode_body
from .script import CREATED, ID, MODEL, Script, Wire

_SSE: Final = "text/event-stream; charset=utf-8"
_EVENT_STREAM: Final = "application/vnd.amazon.eventstream"
_LINES: Final = "application/x-ndjson"
_GRPC: Final = "application/grpc"


class WireFormat(NamedTuple):
    """One wire format."""

    path: str
    """A pattern of the end of the paths that ask for it; its group `id` is the id of a stored response."""
    id_prefix: str
    """What the ids of its responses begin with."""
    reply: Callable[[], Script]
    """Makes the answer where there is no script."""
    content_type: str = _SSE
    """Of a streamed answer."""


WIRES: Final[dict[Wire, WireFormat]] = {
    "chat": WireFormat(
        r"/(?:chat|agents|fim)/completions$|/publishers/mistralai/models/[^/]+:streamRawPredict$",
        "chatcmpl",
        chat.reply,
    ),
    "completions": WireFormat(r"/completions$", "cmpl", completions.reply),
    "responses": WireFormat(r"/responses(/(?P<id>[^/]+))?$", "resp", responses.reply),
    "messages": WireFormat(r"/messages$", "msg", messages.reply),
    "gemini": WireFormat(r":streamGenerateContent$", "gemini", gemini.reply),
    "interactions": WireFormat(r"/interactions(/(?P<id>[^/]+))?$", "interaction", interactions.reply),
    "converse": WireFormat(r"/converse-stream$", "bdrk", bedrock.reply, _EVENT_STREAM),
    "invoke_model": WireFormat(r"/invoke-with-response-stream$", "msg_bdrk", bedrock.anthropic_reply, _EVENT_STREAM),
    "ollama_chat": WireFormat(r"/api/chat$", "ollama", ollama.reply, _LINES),
    "ollama_generate": WireFormat(r"/api/generate$", "ollama", ollama.generate_reply, _LINES),
    "cohere": WireFormat(r"/v2/chat$", "cohere", cohere.reply),
    "cohere_v1": WireFormat(r"/v1/chat$", "cohere", cohere.v1_reply, _LINES),
    "xai": WireFormat(r"/xai_api\.Chat/GetCompletionChunk$", "xai", xai.reply, _GRPC),
    "text_generation": WireFormat(r"/generate_stream$", "tgi", text_generation.reply),
    "conversations": WireFormat(r"/conversations(?:/[^/]+(?:/restart)?)?$", "msg", conversations.reply),
}
"""Wire format → what the server knows of it. The first whose pattern a path matches is asked for."""
_MODEL_IN_PATH: Final = re.compile(r"/(?:deployments|model)/([^/]+)/|/([^/:]+):streamGenerateContent$")


def find_wire(path: str) -> tuple[Wire | None, str | None]:
    """Return the wire format that a path asks for, and the id of the stored response in it; None for none."""
    for wire, known in WIRES.items():
        if found := re.search(known.path, path):
            return wire, found.groupdict().get("id")
    return None, None


def find_model(wire: Wire | None, body: bytes, path: str) -> str | None:
    """Return the model that a request asks for, in its body or (Azure, AWS, Gemini) in its path; None: none."""
    try:
        return str(decode_body(wire, body)["model"])
    except (ValueError, LookupError, TypeError):
        found = _MODEL_IN_PATH.search(path)
        return unquote(found[1] or found[2]) if found else None


def make_values(wire: Wire | None, number: int, model: str | None, response_id: str | None) -> dict[str, str]:
    """Return the JSON texts that stand for `ID`, `MODEL` and `CREATED` in the events of the answer to a request."""
    prefix = WIRES[wire].id_prefix if wire else "none"
    return {
        ID: json.dumps(response_id or f"{prefix}_{number}"),
        MODEL: json.dumps(model or "scripted-model"),
        CREATED: str(int(time.time())),
    }
