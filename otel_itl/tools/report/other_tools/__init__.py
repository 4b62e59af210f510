"""The figures that other benchmark tools would print for the same streams, each by that tool's own definition.

The tools disagree on which chunks are tokens, where a request ends, who counts the tokens and what a percentile is.
`TOOLS` holds one definition per tool: a function with its formulas, and the words for these. `figures_as` computes its
figures of one stream, `summary_as` those of several. A tool sees what its caller sees, and counts its pauses as
latency; only `otel_itl` separates the caller's slowness from the upstream's.
"""

from otel_itl.tools.report.other_tools.definitions import TOOLS
from otel_itl.tools.report.other_tools.figures import ToolFigures, figures_as, summary_as

__all__ = ["TOOLS", "ToolFigures", "figures_as", "summary_as"]
