"""The file that `OTEL_ITL_FILE` names: spans, metrics and log events as OTLP JSON lines."""
