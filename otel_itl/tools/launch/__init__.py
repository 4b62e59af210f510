"""Launches a program that is measured without a line of code: what `otel-itl run` and `otel-itl doctor` share."""
