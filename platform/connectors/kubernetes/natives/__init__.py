"""Native workloads, which people submit to the cluster without the portal."""
