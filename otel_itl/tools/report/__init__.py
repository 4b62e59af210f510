"""From stored telemetry to a report on the latency of its streams."""
