"""The cost of `otel_itl` beside the bare SDK, a floor that no recording gets below, and other instrumentations."""
