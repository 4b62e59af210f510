"""`python -m otel_itl` is `otel-itl`."""

import sys

from otel_itl.cli import main

if __name__ == "__main__":
    sys.exit(main())
