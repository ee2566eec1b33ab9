"""HTTP endpoints of adjustments and disputes."""
