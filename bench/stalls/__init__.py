"""What stall detection costs, and how soon a stall is reported."""
