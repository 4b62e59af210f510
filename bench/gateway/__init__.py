"""A gateway's day on one core: many streams a second, and many that are open."""
