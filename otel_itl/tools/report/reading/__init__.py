"""Reads stored OTLP telemetry back into streams."""
