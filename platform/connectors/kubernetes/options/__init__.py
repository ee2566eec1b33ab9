"""The options of a cluster, checked, and what the operator allows of them."""
