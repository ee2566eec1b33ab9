"""HTTP endpoints of the credit bank."""
