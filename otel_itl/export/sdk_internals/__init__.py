"""Everything that touches a private name of OpenTelemetry: each with a proof, a fallback and a test on every SDK."""
