"""The official instrumentation beside which the soak measures, where it is installed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench.overhead.subjects import SUBJECTS, Subject
from bench.overhead.variants import MAIN, OFFICIAL

_VARIANT = next(variant for variant in MAIN if variant.name == OFFICIAL)


def find_instrumented() -> list[Subject]:
    """Return the SDKs whose official instrumentation is installed."""
    return [subject for subject in SUBJECTS.values() if _VARIANT.installed(subject) is not None]


@contextmanager
def instrumented() -> Iterator[None]:
    """Have the official instrumentation record spans and metrics in the block; the metrics are collected at its end."""
    pipeline = _VARIANT.pipeline()
    # A stream that is left in another context than it was opened in is logged with a traceback.
    complaints = logging.getLogger("opentelemetry.context")
    with ExitStack() as stack:
        stack.callback(complaints.setLevel, complaints.level)
        complaints.setLevel(logging.CRITICAL + 1)
        for subject in find_instrumented():
            stack.enter_context(_VARIANT.around(subject, pipeline))
        yield
        pipeline.collect()
