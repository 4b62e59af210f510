"""Proof of `otel-itl sweep`: servers that serve by a known law, and what a sweep finds of it."""
