"""What a fleet costs, and what its percentiles are worth."""
