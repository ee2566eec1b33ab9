"""What workloads on a cluster are in the words of the protocol. Pure."""
