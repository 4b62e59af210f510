"""What docs/supported.md lists as not measured yields no span; what else streams in an SDK is measured or listed."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import aws
import mistral_clients
import pytest
from clients import OPTIONS, SDKS
from not_measured import NOT_MEASURED, Gap
from plain_server import PlainServer, plain_server
from surfaces import MISTRAL

from otel_itl.sdks.registry import REGISTRY
from otel_itl.sdks.stainless import StainlessSDK
from otel_itl.testing import CapturedTelemetry


def make_client(gap: Gap, origin: str) -> Any:
    """A synchronous client of an SDK that asks `origin`."""
    sdk = SDKS[gap.sdk]
    makers: dict[str, Callable[[], Any]] = {
        "openai": lambda: sdk.OpenAI(base_url=f"{origin}/v1", **OPTIONS),
        "anthropic": lambda: sdk.Anthropic(base_url=origin, **OPTIONS),
        "together": lambda: sdk.Together(base_url=f"{origin}/v1", **OPTIONS),
        "google-genai": lambda: sdk.Client(api_key="none", http_options={"base_url": origin}),
        "bedrock": lambda: make_aws_client(gap.service, origin),
        "cohere": lambda: sdk.Client(base_url=origin, api_key="none"),
        "mistralai": lambda: mistral_clients.make_client(MISTRAL, "sync", origin),
        "ollama": lambda: sdk.Client(host=origin),
    }
    return makers[gap.sdk]()


def make_aws_client(service: str, origin: str) -> Any:
    from botocore.config import Config
    from botocore.session import get_session

    config = Config(read_timeout=5, retries={"total_max_attempts": 1})
    return get_session().create_client(service, "us-east-1", endpoint_url=origin, config=config, **aws.KEYS)


def offers(client: Any, call: str) -> bool:
    """Whether a client has what a call names."""
    for name in call.partition("(")[0].split("."):
        client = getattr(client, name, None)
        if client is None:
            return False
    return True


def read(opened: Any) -> None:
    """Read what a call returned, entered where it is a context manager."""
    if hasattr(opened, "__enter__"):
        with opened as entered:
            take(entered)
    elif opened is not None:
        take(opened)


def take(stream: Any) -> None:
    for _, _ in zip(range(10), stream, strict=False):
        pass


def is_asked(path: str, pattern: str) -> bool:
    """Whether a path ends by a pattern."""
    wanted = pattern.split("/")
    return fnmatchcase("/".join(path.split("/")[-len(wanted) :]), pattern)


@pytest.fixture(scope="module")
def plain() -> Iterator[PlainServer]:
    with plain_server() as running:
        yield running


@pytest.mark.parametrize("gap", NOT_MEASURED, ids=lambda gap: f"{gap.sdk}:{gap.call}")
def test_what_is_listed_as_not_measured_yields_no_span(
    gap: Gap, plain: PlainServer, telemetry: CapturedTelemetry
) -> None:
    if gap.sdk not in SDKS:
        pytest.skip(f"{gap.sdk} is not installed")
    client = make_client(gap, plain.origin)
    if not offers(client, gap.call):
        pytest.skip(f"this release of {gap.sdk} has no {gap.call}")
    if hasattr(client, "websocket_base_url"):
        client.websocket_base_url = f"{plain.origin.replace('http', 'ws')}/v1"
    del plain.asked[:]
    try:  # the answer is that of no API; the request is what counts
        read(gap.make(client))
    except TypeError as error:
        if "unexpected keyword argument" in str(error):
            pytest.skip(f"this release of {gap.sdk} streams no {gap.call}")
    except Exception:  # noqa: S110 - whatever an SDK makes of such an answer
        pass
    assert [path for path in plain.asked if is_asked(path, gap.path)], plain.asked
    assert telemetry.spans == []


# --- The SDKs that Stainless generates name each streaming endpoint in their code ------------------------------------

STAINLESS: Final = tuple(
    name
    for name, entry in REGISTRY.items()
    if name in SDKS and isinstance(import_module(entry.module).SDK, StainlessSDK)
)
OVER_WEBSOCKETS: Final = {"responses.connect", "beta.responses.connect"}
"""What is measured over WebSockets: see test_websockets.py."""
WEBSOCKETS: Final = ("connect", "transcription")
"""Functions of a resource that open a WebSocket."""


@cache
def calls_and_functions(package: str) -> list[tuple[str, list[ast.Call], list[ast.FunctionDef]]]:
    """The modules of an SDK's resources, by their path in it: the calls of methods, and the functions, of each."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    resources = Path(spec.origin).parent / "resources"
    found = []
    for file in sorted(resources.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        calls = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
        found.append((".".join(file.relative_to(resources).with_suffix("").parts), calls, functions))
    return found


def template_of(argument: ast.expr) -> str:
    """The path of a request in an SDK's code: an f-string in older releases, else the first text of the argument."""
    if isinstance(argument, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in argument.values)
    texts = [each.value for each in ast.walk(argument) if isinstance(each, ast.Constant)]
    return next(text for text in texts if isinstance(text, str))


def streaming_endpoints(package: str) -> set[tuple[str, str]]:
    """Method and path of each request of an SDK that may stream; `x` stands for an id."""
    found = set()
    for _, calls, _ in calls_and_functions(package):
        for call in calls:
            if any(keyword.arg == "stream_cls" for keyword in call.keywords) and call.args:
                path, method = template_of(call.args[0]), call.func
                assert isinstance(method, ast.Attribute)
                found.add((method.attr.strip("_"), re.sub(r"\{.*?\}", "x", path.partition("?")[0])))
    return found


@pytest.mark.parametrize("sdk", STAINLESS)
def test_every_streaming_endpoint_of_an_sdk_is_measured_or_listed(sdk: str) -> None:
    routes = import_module(REGISTRY[sdk].module).SDK.routes
    listed = [gap.path for gap in NOT_MEASURED if gap.sdk == sdk]
    unknown = {
        (method, path)
        for method, path in streaming_endpoints(REGISTRY[sdk].package)
        if not any(route.matches(method, path) for route in routes)
        and not any(is_asked(path, pattern) for pattern in listed)
    }
    assert unknown == set()


@pytest.mark.parametrize("sdk", STAINLESS)
def test_every_websocket_of_an_sdk_is_measured_or_listed(sdk: str) -> None:
    listed = {gap.call.partition("(")[0] for gap in NOT_MEASURED if gap.sdk == sdk} | OVER_WEBSOCKETS
    found = set()
    for module, _, functions in calls_and_functions(REGISTRY[sdk].package):
        parts = module.split(".")
        names = parts[:-1] if len(parts) > 1 and parts[-1] == parts[-2] else parts
        found.update(".".join((*names, node.name)) for node in functions if node.name in WEBSOCKETS)
    assert {call for call in found if not any(each.endswith(call) for each in listed)} == set()


def test_an_endpoint_is_measured_or_listed_and_not_both() -> None:
    both = [
        gap.call
        for gap in NOT_MEASURED
        if gap.sdk in STAINLESS and not gap.call.endswith("connect()")
        for route in import_module(REGISTRY[gap.sdk].module).SDK.routes
        if route.matches("post", gap.path.replace("*", "x")) or route.matches("get", gap.path.replace("*", "x"))
    ]
    assert both == []
