"""The server that sweeps are proved against serves by its law, by the clock of a simulation and over real sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import openai
import pytest

from bench.sweep.service import Job, Law, Service
from bench.sweep.simulate import play
from bench.sweep.upstream import Running, upstream

LAW = Law(step=0.02, free=2, slope=0.01, spread=0.0, slots=4, prefill=0.0, tokens=(5, 5))


def served(law: Law, *arrivals: float) -> list[Job]:
    return play(Service(law), arrivals)


def test_a_stream_alone_gets_a_token_each_step() -> None:
    (job,) = served(LAW, 0.0)
    assert job.sent == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.10])


def test_each_stream_beyond_the_free_ones_makes_a_step_longer_by_the_slope() -> None:
    jobs = served(LAW, 0.0, 0.0, 0.0, 0.0)
    assert [job.gaps for job in jobs] == [pytest.approx([0.04] * 4)] * 4


def test_a_request_without_a_slot_waits_until_one_is_free() -> None:
    *_, last = served(LAW, 0.0, 0.0, 0.0, 0.0, 0.05)
    assert last.queued == pytest.approx(5 * 0.04 - 0.05)


def test_requests_get_slots_in_the_order_of_arrival() -> None:
    jobs = served(replace(LAW, slots=1), 0.0, 0.02, 0.01)
    assert [job.started for job in sorted(jobs, key=lambda job: job.arrived)] == pytest.approx([0.0, 0.1, 0.2])


def test_a_request_that_finds_the_queue_full_is_refused() -> None:
    service = Service(replace(LAW, slots=1, max_queue=1))
    assert [service.submit(0.0) is None for _ in range(3)] == [False, False, True]


def test_the_first_token_comes_after_the_prefill() -> None:
    (job,) = served(replace(LAW, prefill=0.05), 0.0)
    assert job.sent[0] == pytest.approx(0.06)


def test_a_stalled_stream_gets_its_next_token_with_the_first_step_after_the_stall() -> None:
    (job,) = served(replace(LAW, stall_rate=1.0, stall=0.09), 0.0)
    assert (job.stalls, job.gaps) == (4, pytest.approx([0.1] * 4))


def test_a_pause_stops_every_stream() -> None:
    pausing = replace(LAW, pause_every=0.04, pause=1.0, tokens=(4, 4))
    assert [job.gaps for job in served(pausing, 0.0, 0.0)] == [pytest.approx([0.02, 1.02, 1.02])] * 2


def test_a_length_that_a_request_asks_for_caps_its_answer() -> None:
    job = Service(LAW).submit(0.0, max_tokens=2)
    assert job is not None
    assert job.tokens == 2


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with upstream(replace(LAW, max_queue=1)) as running:
        yield running


@pytest.fixture(scope="module")
def burst(server: Running) -> tuple[list[Any], list[Job]]:
    """What twelve requests at once came to, and the server's own record of them."""

    async def ask(client: openai.AsyncOpenAI) -> Any:
        stream = await client.chat.completions.create(
            model="simulated",
            messages=[{"role": "user", "content": "hello"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        return [(time.monotonic(), chunk) async for chunk in stream]

    async def ask_all() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
            await client.models.list()
            return await asyncio.gather(*(ask(client) for _ in range(12)), return_exceptions=True)

    return asyncio.run(ask_all()), server.truth()


def test_a_refused_request_is_asked_to_come_back_later(burst: tuple[list[Any], list[Job]]) -> None:
    refused = [answer for answer in burst[0] if isinstance(answer, openai.RateLimitError)]
    assert {error.response.headers["retry-after"] for error in refused} == {"1"}


def test_every_request_that_was_not_refused_is_on_record(burst: tuple[list[Any], list[Job]]) -> None:
    answers, jobs = burst
    assert sum(isinstance(answer, list) for answer in answers) == len(jobs)


def test_an_answer_has_the_tokens_that_its_usage_counts(burst: tuple[list[Any], list[Job]]) -> None:
    answer = next([chunk for _, chunk in one] for one in burst[0] if isinstance(one, list))
    words = [chunk for chunk in answer if chunk.choices and chunk.choices[0].delta.content]
    assert (len(words), answer[-1].usage.completion_tokens) == (5, 5)


def test_no_token_reaches_the_client_before_the_record_has_it_sent(burst: tuple[list[Any], list[Job]]) -> None:
    answers, jobs = burst
    got = [
        moment
        for one in answers
        if isinstance(one, list)
        for moment, chunk in one
        if chunk.choices and chunk.choices[0].delta.content
    ]
    sent = [moment for job in jobs for moment in job.sent]
    assert all(after >= before for before, after in zip(sorted(sent), sorted(got), strict=True))


def test_steps_over_sockets_take_as_long_as_by_the_law(burst: tuple[list[Any], list[Job]]) -> None:
    job = max(burst[1], key=lambda job: sum(job.running))
    expected = sum(LAW.expected_step(running) for running in job.running[1:])
    # No step began late, however late the machine was with the one before: only the two ends can be off.
    assert job.sent[-1] - job.sent[0] == pytest.approx(expected, abs=0.02)


def test_tokens_are_recorded_in_the_order_of_their_moments(burst: tuple[list[Any], list[Job]]) -> None:
    assert all(before <= after for job in burst[1] for before, after in pairwise(job.sent))
