"""What stall detection costs, and how soon it reports."""
