"""The cost of `otel_itl`, compared with the bare SDK, a lower bound for any recording, and other instrumentations."""
