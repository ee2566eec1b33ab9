"""HTTP endpoints of notices."""
