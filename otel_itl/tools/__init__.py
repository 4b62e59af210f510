"""What people run, each on top of stored telemetry; nothing that runs in an application imports it."""
