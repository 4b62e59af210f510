"""Statistics that several tools share."""
