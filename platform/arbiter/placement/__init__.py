"""Free devices, places for jobs, and the most that a pool can hold."""
