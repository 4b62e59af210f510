"""The names of the rows of a comparison, for the command line, which has to be parsed without numpy."""

from __future__ import annotations

COMPARED = (
    *("ttft_p50", "ttft_p95", "ttft_p99", "itl_p50", "itl_p95", "itl_p99", "burst_to_burst", "tpot"),
    *("e2e_p50", "speed", "answer_length", "prompt_length", "open_streams", "over_objective", "stalls"),
    *("no_token", "truncated", "errors", "cancelled", "closed", "abandoned"),
)
"""The quantities of `otel_itl.tools.compare.quantities`, in their order."""
