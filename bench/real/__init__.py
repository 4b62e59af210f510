"""The figures of `otel_itl`, compared with the per-token timings of a real inference server."""
