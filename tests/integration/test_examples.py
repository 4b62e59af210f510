"""The examples run as they are, each in a process of its own, and deliver what they promise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_itl.testing import ScriptedServer, chat, messages

if TYPE_CHECKING:
    from conftest import App, Finished, Receiver

EXAMPLES = Path(__file__).parents[2] / "examples"
TOKENS = ["Ray", "leigh", " scattering."]
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(EXAMPLES))


@pytest.fixture(scope="module")
def runs(
    start_app: Callable[..., App], receivers: Callable[..., Receiver]
) -> Iterator[dict[str, tuple[Finished, Receiver]]]:
    """Every example, two at a time: what it printed, and what arrived over OTLP."""
    with ScriptedServer() as server:
        server.always(chat.reply(TOKENS, first=0.2, gaps=0.1), model="gpt-4o-mini")
        server.always(messages.reply(TOKENS, first=0.1, gaps=0.05), model="claude-opus-4-5")
        examples = sorted(EXAMPLES.glob("*.py"))
        finished: dict[str, tuple[Finished, Receiver]] = {}
        for pair in (examples[start : start + 2] for start in range(0, len(examples), 2)):
            started = []
            for example in pair:
                receiver = receivers()
                launcher = PYTEST if example.stem == "testing_your_app" else (sys.executable,)
                started.append((example.stem, start_app(example, server, receiver, launcher), receiver))
            finished |= {name: (app.wait(), receiver) for name, app, receiver in started}
        yield finished


Runs = dict[str, tuple["Finished", "Receiver"]]
STREAMING = ["minimal", "anthropic_stream", "observe_any_iterator", "own_providers"]


def test_every_example_is_tested(runs: Runs) -> None:
    assert runs.keys() == {*STREAMING, "sessions_and_slo", "testing_your_app"}


@pytest.mark.parametrize("example", STREAMING)
def test_an_example_prints_the_answer_and_no_error(example: str, runs: Runs) -> None:
    app, receiver = runs[example]
    notice = "" if example == "own_providers" else receiver.setup_notice
    assert (app.stdout, app.stderr) == ("".join(TOKENS) + "\n", notice)


@pytest.mark.parametrize(
    ("example", "model"),
    [
        ("minimal", "gpt-4o-mini"),
        ("anthropic_stream", "claude-opus-4-5"),
        ("observe_any_iterator", "gpt-4o-mini"),
    ],
)
def test_an_example_delivers_the_tokens_of_its_stream(example: str, model: str, runs: Runs) -> None:
    _, receiver = runs[example]
    sent = [receiver.plain(span.attributes) for span in receiver.spans]
    delivered = {each["gen_ai.request.model"]: each for each in sent if "gen_ai.request.model" in each}
    assert (delivered[model]["itl.output_chunk.count"], delivered[model]["itl.stream.outcome"]) == (3, "completed")


@pytest.mark.parametrize("example", STREAMING)
def test_an_example_counts_its_stream(example: str, runs: Runs) -> None:
    _, receiver = runs[example]
    assert [point.as_int for point in receiver.points("itl.client.stream.outcomes")] == [1]


# The first stream of anthropic in a process takes its helper longer to begin with than these streams last.
@pytest.mark.parametrize("example", [example for example in STREAMING if example != "anthropic_stream"])
def test_an_example_delivers_inter_token_latencies(example: str, runs: Runs) -> None:
    _, receiver = runs[example]
    assert [point.count for point in receiver.points("itl.client.inter_token_latency")] == [2]


def test_own_providers_make_exponential_histograms_of_inter_token_latency(runs: Runs) -> None:
    _, receiver = runs["own_providers"]
    assert receiver.metrics["itl.client.inter_token_latency"].WhichOneof("data") == "exponential_histogram"


@pytest.mark.requirement("R43")
def test_own_providers_sample_spans_and_measure_all(runs: Runs) -> None:
    _, receiver = runs["own_providers"]
    assert (len(receiver.spans), len(receiver.points("itl.client.time_to_first_token"))) == (0, 1)


def test_the_requests_of_an_agent_are_one_session(runs: Runs) -> None:
    app, receiver = runs["sessions_and_slo"]
    told = [receiver.plain(span.attributes) for span in receiver.spans]
    assert (app.stdout, app.stderr) == (("".join(TOKENS) + "\n") * 3, receiver.setup_notice)
    assert sorted((said["session.id"], said["itl.session.request.index"]) for said in told) == [
        ("agent-7", 1),
        ("agent-7", 2),
        ("agent-7", 3),
    ]


def test_the_requests_of_an_agent_are_held_against_its_objective(runs: Runs) -> None:
    _, receiver = runs["sessions_and_slo"]
    told = [receiver.plain(span.attributes) for span in receiver.spans]
    assert [(said["itl.slo.profile"], said["itl.stall.threshold"]) for said in told] == [("custom", 5.0)] * 3


def test_the_tests_of_an_application_pass(runs: Runs) -> None:
    app, _ = runs["testing_your_app"]
    assert app.stdout.splitlines()[-1].startswith("3 passed")
