"""The names of the rows of a comparison, for the command line, which has to be parsed without numpy."""

from __future__ import annotations

COMPARED = ("ttft_p50", "itl_p50", "itl_p95", "itl_p99", "tpot", "over_objective", "stalls", "truncated", "errors")
"""The quantities of `otel_itl.tools.compare.quantities`, in their order."""
