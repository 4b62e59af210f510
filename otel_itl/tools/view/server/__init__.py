"""The server of the page: receives or reads telemetry, keeps a bounded number of streams, and sends what changes."""
