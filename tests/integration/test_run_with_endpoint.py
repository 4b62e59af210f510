"""`otel-itl run` with an endpoint: telemetry goes to the file and to a real OTLP receiver, also beside a launcher."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from otel_itl.testing import ScriptedServer, chat

if TYPE_CHECKING:
    from conftest import App, Receiver

pytest.importorskip("openai")
pytest.importorskip("rich")

RUN = (sys.executable, "-m", "otel_itl", "run", "--quiet")
LAUNCHER = Path(sys.executable).with_name("opentelemetry-instrument")
APP = """
    import openai

    for chunk in openai.OpenAI().chat.completions.create(model="gpt-4o", messages=[], stream=True):
        pass
"""


class Sent(NamedTuple):
    """The names of our spans, where they arrived."""

    in_file: list[str]
    at_endpoint: list[str]


@pytest.fixture(scope="module")
def sent(
    start_app: Callable[..., App],
    receivers: Callable[..., Receiver],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Sent]:
    """The same application alone, behind `opentelemetry-instrument`, and in front of it; all at a time."""
    folder = tmp_path_factory.mktemp("runs")
    launchers = {
        "alone": (*RUN, "-o", str(folder / "alone.jsonl")),
        "behind": (str(LAUNCHER), *RUN, "-o", str(folder / "behind.jsonl")),
        "before": (*RUN, "-o", str(folder / "before.jsonl"), str(LAUNCHER), sys.executable),
    }
    if not LAUNCHER.exists():
        pytest.skip("there is no opentelemetry-instrument beside this Python")
    with ScriptedServer(chat.reply(5)) as server:
        started = {}
        for name, launcher in launchers.items():
            receiver = receivers()
            disabled = "httpx,requests,urllib3,openai"
            started[name] = (
                start_app(APP, server, receiver, launcher, OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=disabled),
                receiver,
            )
        found = {}
        for name, (app, receiver) in started.items():
            app.wait()
            found[name] = Sent(names_in(folder / f"{name}.jsonl"), [span.name for span in receiver.spans])
        return found


def names_in(file: Path) -> list[str]:
    """Return the names of the spans in a file."""
    documents = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return [
        span["name"]
        for document in documents
        for resource in document.get("resourceSpans", ())
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


@pytest.mark.parametrize("way", ["alone", "behind", "before"])
def test_a_stream_arrives_once_in_the_file_and_once_at_the_endpoint(sent: dict[str, Sent], way: str) -> None:
    assert sent[way] == Sent(["chat gpt-4o"], ["chat gpt-4o"])
