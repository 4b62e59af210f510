"""The folder that `otel-itl run` puts on its child's `PYTHONPATH`: nothing but `sitecustomize` may stand in it."""
