"""Measures the page of `otel-itl view` in a real browser."""
