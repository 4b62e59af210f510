"""Telemetry that was written to files, read back: OTLP JSON → streams → a report."""
