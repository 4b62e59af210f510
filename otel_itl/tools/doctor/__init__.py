"""`otel-itl doctor`: collects facts in a process, checks them, and prints what is not fine with its remedy."""
