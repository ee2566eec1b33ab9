"""Workloads that people gave to the cluster beside the portal."""
