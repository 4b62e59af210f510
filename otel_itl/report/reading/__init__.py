"""Stored OTLP telemetry, read back into streams."""
