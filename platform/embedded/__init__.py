"""Starts, watches and stops all of Tidegate on one machine: `python -m embedded up`."""
