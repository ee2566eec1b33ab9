"""A real Kubernetes control plane with Kueue and JobSet on one machine, and nodes without GPUs."""
