"""The objects that workloads become on a Kubernetes cluster: pure builders, no I/O."""
