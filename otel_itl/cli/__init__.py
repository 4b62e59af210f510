"""The command `otel-itl`: its arguments, what they call, and the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from otel_itl.cli.arguments import parser

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run `otel-itl` with these arguments (those of the process), and return its exit code.

    0: done. 1: nothing usable in the input. 2: bad usage, a file that cannot be read, or a missing extra.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a model's name must not end a report
    try:
        arguments = parser().parse_args(argv)
        code: int = arguments.run(arguments)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 2
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has left (`otel-itl report … | head`). What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        # Standard output that takes no more (a full disk): what is still buffered must not fail again, either.
        sys.stderr.write(f"otel-itl: the output cannot be written: {error.strerror or error}.\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    return code
