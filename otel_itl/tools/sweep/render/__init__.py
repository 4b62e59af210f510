"""Prints sweeps: in a terminal, as JSON, and as the page of `otel-itl view`."""
