"""What looking out for stalls costs, and how soon it tells."""
