"""The figures of `otel_itl` and of other tools, compared with the moments at which the server sent the tokens."""
