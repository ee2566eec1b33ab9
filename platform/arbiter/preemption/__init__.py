"""Whose GPUs are reclaimed for a job."""
