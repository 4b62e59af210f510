"""From a stream that ended to spans, metrics and log events."""
