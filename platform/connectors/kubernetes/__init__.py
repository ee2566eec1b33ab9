"""Clusters that run Kubernetes, with Kueue as the executor."""
