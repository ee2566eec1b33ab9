"""The checked options of a cluster, and those that the operator allows."""
