"""The devices, cores and features of nodes, from their labels. Pure."""
