"""A model of an inference server that batches: when each stream gets its tokens, by a known law and any clock.

All streams that have a slot are decoded together, step by step. A request without a slot waits in a queue, first come,
first served. The HTTP server of this benchmark runs the model by the real clock, its simulation by one of its own.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """How a server serves. Times are seconds."""

    step: float = 0.025
    """Median duration of a step that decodes at most `free` streams: the ITL of a server with little to do."""
    free: int = 4
    """Streams that are decoded together at no cost."""
    slope: float = 0.0
    """Each further stream makes a step this much longer."""
    spread: float = 0.08
    """Standard deviation of the logarithm of a step's duration."""
    slots: int = 64
    """Streams that are decoded together at most; the others wait."""
    prefill: float = 0.04
    """Shortest time from getting a slot to the first step that decodes the stream."""
    tokens: tuple[int, int] = (16, 32)
    """Least and largest length of an answer; every length between is as likely."""
    stall_rate: float = 0.0
    """Probability that a stream stalls before a token other than its first."""
    stall: float = 0.0
    """Length of a stall, in which the stream keeps its slot."""
    max_queue: int | None = None
    """A request that finds as many waiting is refused with status 429; None: none is refused."""
    pause_every: float = 0.0
    """The server stops once in this time; 0: never."""
    pause: float = 0.0
    """How long the server stops each time."""

    def expected_step(self, running: int) -> float:
        """Return the median duration of a step that decodes some streams."""
        return self.step + self.slope * max(running - self.free, 0)

    def as_json(self) -> dict[str, Any]:
        """Return the law in the form that `from_json` takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Law:
        """Return the law that `as_json` was made from."""
        return cls(**{**values, "tokens": tuple(values["tokens"])})


@dataclass(slots=True)
class Job:
    """One request as the server has it: the truth about it. Times are those of the service's clock."""

    arrived: float
    tokens: int
    """Length of the answer."""
    started: float | None = None
    """When it got a slot; None: not yet."""
    sent: list[float] = field(default_factory=list)
    """When each token was made."""
    running: list[int] = field(default_factory=list)
    """How many streams were decoded with each."""
    stalls: int = 0
    resumes: float = 0.0
    """The request gets no token before this moment."""
    is_cancelled: bool = False

    @property
    def queued(self) -> float | None:
        """How long it waited for a slot; None: it still waits."""
        return None if self.started is None else self.started - self.arrived

    @property
    def time_to_first_token(self) -> float | None:
        """Time from its arrival to its first token; None: it has no token."""
        return self.sent[0] - self.arrived if self.sent else None

    @property
    def gaps(self) -> list[float]:
        """Times between its tokens."""
        return [after - before for before, after in zip(self.sent, self.sent[1:], strict=False)]

    @property
    def is_over(self) -> bool:
        """It has all its tokens, or its client left."""
        return self.is_cancelled or len(self.sent) >= self.tokens


class Service:
    """The server without its sockets. The clock is the caller's: every method is given the moment.

    Args:
        law: how it serves.
        seed: seed of the random durations, lengths and stalls.
    """

    def __init__(self, law: Law, seed: int = 0) -> None:
        self.law = law
        self._random = random.Random(seed)  # noqa: S311 - a simulation
        self._queue: deque[Job] = deque()
        self._running: list[Job] = []
        self._next_pause: float | None = None

    @property
    def is_idle(self) -> bool:
        """No request is running or waiting."""
        return not self._queue and all(job.is_over for job in self._running)

    def submit(self, moment: float, max_tokens: int | None = None) -> Job | None:
        """Accept a request; None: it is refused, because too many wait."""
        taken = sum(not job.is_over for job in [*self._queue, *self._running])
        if self.law.max_queue is not None and taken >= self.law.slots + self.law.max_queue:
            return None
        tokens = self._random.randint(*self.law.tokens)
        job = Job(moment, tokens if max_tokens is None else min(tokens, max_tokens))
        self._queue.append(job)
        return job

    def begin_step(self, moment: float) -> float:
        """Fill the free slots from the queue; returns how long the step takes that begins now."""
        self._running = [job for job in self._running if not job.is_over]
        while self._queue and len(self._running) < self.law.slots:
            job = self._queue.popleft()
            if not job.is_cancelled:
                job.started, job.resumes = moment, moment + self.law.prefill
                self._running.append(job)
        duration = self.law.expected_step(len(self._running)) * self._random.lognormvariate(0, self.law.spread)
        return duration + self._pause(moment)

    def _pause(self, moment: float) -> float:
        """Return for how long the server stops with the step that begins now."""
        if self._next_pause is None:
            self._next_pause = moment + self.law.pause_every
        if not self.law.pause_every or moment < self._next_pause:
            return 0.0
        self._next_pause += self.law.pause_every
        return self.law.pause

    def end_step(self, moment: float) -> list[Job]:
        """End the step; returns the requests that got a token by it."""
        decoded = [job for job in self._running if not job.is_cancelled and job.resumes <= moment]
        for job in decoded:
            job.sent.append(moment)
            job.running.append(len(self._running))
            if not job.is_over and self._random.random() < self.law.stall_rate:
                job.stalls += 1
                job.resumes = moment + self.law.stall
        return decoded
