"""What no SDK streams is measured with `observe()`: here an HTTP response that the standard library reads."""

import json
import os
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import otel_itl

otel_itl.instrument()

MODEL = "gpt-4o-mini"
URL = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")


def chunks(question: str) -> Iterator[dict[str, Any]]:
    """Yield the chunks of an answer, as a server that is compatible with OpenAI's sends them."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": question}], "stream": True}
    request = Request(  # noqa: S310 - the URL is ours
        f"{URL}/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urlopen(request) as response:  # noqa: S310 - the URL is ours
        for line in response:
            data = line.removeprefix(b"data: ").strip()
            if data and data != b"[DONE]":
                yield json.loads(data)


# Chunks in the shape of a known API are read as such. For others, `classify=` says what a chunk carries.
for chunk in otel_itl.observe(chunks("Why is the sky blue?"), provider="my_provider", model=MODEL):
    for choice in chunk["choices"]:
        print(choice["delta"].get("content") or "", end="", flush=True)
print()
