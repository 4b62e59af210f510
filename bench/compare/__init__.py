"""How often `otel-itl compare` cries wolf, and how small a slowdown it finds, on simulated sessions."""
