"""Runs a sweep from its calibration to its last round."""

from __future__ import annotations

from collections.abc import Callable

from otel_itl.sweep.attempts import Sweep
from otel_itl.sweep.endpoint import Endpoint
from otel_itl.sweep.plan import SweepPlan
from otel_itl.sweep.progress import Progress


async def run_sweep(plan: SweepPlan, endpoint: Endpoint, on_progress: Callable[[Progress], None]) -> Sweep:
    """Drive the endpoint through the levels of the plan, and return what was recorded.

    Ctrl-C (SIGINT) stops sending and lets open streams end for up to 10 s; a second one cuts them off. Either way the
    rounds that were made are returned, with `stopped="interrupted"`.

    Args:
        plan: the options.
        endpoint: what is asked, and nothing else.
        on_progress: called several times a second, on the event loop.

    Raises:
        CannotSweepError: the sweep cannot begin, or got no answer at 1×; the message is one sentence.
        EndpointError: there is no key, or the base URL is none.
        PromptError: a prompt cannot be made.
        FileExistsError, OSError: the output file exists, or cannot be written.
    """
    raise NotImplementedError
