"""Schedules: from their request to the job of each run."""
