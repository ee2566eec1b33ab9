"""REST of maintenance windows."""
