"""The telemetry file (option `file`, `OTEL_ITL_FILE`): spans, metrics and log events as OTLP JSON lines."""
