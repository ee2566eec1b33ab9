"""The watched state of a cluster."""
