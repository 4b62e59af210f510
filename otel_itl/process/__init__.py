"""What the running instrumentation does with its process: the connection to OpenTelemetry, flushes, the end."""
