"""Maintenance windows of clusters: nothing starts there that would still run in one (R-118)."""
