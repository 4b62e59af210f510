"""Writes docs/neighbours.md from what the tests put beside otel_itl: run it without arguments."""  # noqa: INP001 - a script, no package

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "neighbours.md"
TESTS: Final = HERE.parent / "tests" / "neighbours"
OPENAI: Final = {"openai 3": TESTS / "openai3.txt", "openai 2": TESTS / "openai2.txt"}
OTHERS: Final = {"version": TESTS / "providers.txt"}
LATE: Final = {"version": TESTS / "late.txt"}
sys.path[:0] = [str(HERE.parent), str(TESTS)]

from frameworks import FRAMEWORKS, Framework  # noqa: E402 - found only now
from instrumentations import INSTRUMENTATIONS  # noqa: E402 - as above
from providers import PROVIDERS  # noqa: E402 - as above
from providing import PROVIDING  # noqa: E402 - as above

HEAD: Final = """\
<!-- Made from tests/neighbours by docs/generate_neighbours.py. -->

# Neighbours

otel_itl is the innermost layer: beside any other instrumentation, in any order of installing and removing, one HTTP
call is one record. Each row is tested over real sockets, with the versions shown.
"""
INSTRUMENTATION_HEAD: Final = """
## Other instrumentations

Tested in both orders of instrumenting and of uninstrumenting, with chat completions and responses, sync and async, the
stream helper, and a request that fails. What the caller gets, the bytes of the request's body and the other
instrumentation's own spans are the same with and without otel_itl; a request is one ITL record; no standard metric of a
request is recorded twice.

"""
FRAMEWORK_HEAD: Final = """
## Frameworks

What the framework returns and what it sends is the same with and without otel_itl; each of its HTTP calls is one
record, with every output chunk. A dash means that it is not tested with that SDK (`instructor`, `litellm` and
`llama-index-llms-openai` require an older openai than the newest).

"""
PROVIDER_HEAD: Final = """
On top of other SDKs, tested in the same way (aioboto3 with the aiobotocore that it pins):

"""
PROVIDING_HEAD: Final = """
## Frameworks that set OpenTelemetry providers

Tested with a stream before the framework is set up, which otel_itl exports itself, and one after: no provider of the
framework's is refused, and it has the second stream.

"""
FOOT: Final = """
## Remarks

* **Logfire** suppresses other instrumentations within its request (`suppress_other_instrumentation`), which is meant
  for the HTTP client's. otel_itl records all the same if the current span is Logfire's own. What *you* suppress, with
  `opentelemetry.instrumentation.utils.suppress_instrumentation()`, stays suppressed.
* **OpenLLMetry** records `gen_ai.client.operation.duration` and `gen_ai.client.token.usage` of chat completions, and
  **pydantic-ai**, if its instrumentation is on, `gen_ai.client.token.usage` and
  `gen_ai.client.operation.time_to_first_chunk`: otel_itl then records the others only. It recognises them by the
  current span, so requests that are not sampled are counted by both. With OpenLLMetry's instrumentation of
  *anthropic*, which makes no span current, `gen_ai.client.*` are recorded by both: distinguish them by their
  instrumentation scope.
* **OpenLLMetry** leaves its wrappers on the SDK when it is uninstrumented, with or without otel_itl.
* **The anthropic SDK**, from version 2 on, makes its own spans and sends a `traceparent` header whenever it makes
  one. It does so if OpenTelemetry is set up, or any span is current, with or without otel_itl. Where the SDK's span
  records, otel_itl measures the request on it and makes none of its own ([ADR
  0020](adr/0020-on-the-sdks-own-span.md)).
* **litellm** is measured itself, where no SDK below it records: a call that it makes through the openai SDK is one
  record, that of openai, and one that it makes by its own HTTP client is one record of litellm's. The other layer adds
  nothing to either.
* **LiteLLM's proxy** and other gateways: what is measured at the client, at the proxy and at both is in
  [gateways.md](gateways.md).
* **opentelemetry-instrumentation-botocore** has a span of its own for Bedrock's streams, around ours or inside of it,
  whichever was installed first. It records `gen_ai.client.operation.duration` and `gen_ai.client.token.usage` of some
  families of models and of streams that are read to their end; otel_itl records them of all: distinguish the two by
  their instrumentation scope. Its `uninstrument()` removes the outermost wrapper, whichever it is: uninstrument in the
  reverse order.
* **langchain-mistralai** uses no SDK but an HTTP client of its own: its streams are not measured. `observe()` measures
  them ([any other provider](any-provider.md)).
* **HTTP clients**: openai 3 and anthropic 2 use `httpx2`. For the span of the HTTP call, instrument with
  `HTTPX2ClientInstrumentor`; that span is a child of ours, or of the SDK's.
"""


def pinned(requirements: Path) -> dict[str, str]:
    """Package → version, of an environment."""
    return dict(re.findall(r"^([\w-]+)(?:\[[\w,]+\])?==(\S+)$", requirements.read_text(encoding="utf-8"), re.MULTILINE))


def table(environments: Mapping[str, Path], rows: Mapping[str, str], heading: str) -> str:
    """Return a table with the version of each package in each environment."""
    versions = [pinned(requirements) for requirements in environments.values()]
    head = f"| package | {' | '.join(environments)} | {heading} |\n|---|{'---|' * len(environments)}---|\n"
    cells = {package: " | ".join(found.get(package, "-") for found in versions) for package in rows}
    return head + "".join(f"| `{package}` | {cells[package]} | {text} |\n" for package, text in rows.items())


def calls(frameworks: Iterable[Framework]) -> dict[str, str]:
    """Return package → its calls that are tested."""
    found: dict[str, list[str]] = {}
    for framework in frameworks:
        found.setdefault(framework.package, []).append(framework.call)
    return {package: "<br>".join(tested) for package, tested in found.items()}


def page() -> str:
    """Return the page as it is to be."""
    return (
        HEAD
        + INSTRUMENTATION_HEAD
        + table(OPENAI, {other.package: other.beside for other in INSTRUMENTATIONS}, "a request with both")
        + FRAMEWORK_HEAD
        + table(OPENAI, calls(FRAMEWORKS), "tested")
        + PROVIDER_HEAD
        + table(OTHERS, calls(PROVIDERS), "tested")
        + PROVIDING_HEAD
        + table(LATE, {each.package: f"`{each.call}`: {each.signals}" for each in PROVIDING}, "sets providers of")
        + FOOT
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
