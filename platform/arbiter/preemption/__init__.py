"""The search for victims: attempts that are stopped so that another job can start."""
