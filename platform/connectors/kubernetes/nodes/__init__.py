"""What nodes offer: devices, cores and features, by their labels. Pure."""
