"""Translates the workloads on a cluster into those of the protocol. Pure."""
