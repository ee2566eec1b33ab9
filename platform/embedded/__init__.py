"""Starts, watches and stops everything Tidegate needs on one machine: `python -m embedded up`."""
