"""HTTP endpoints of sign-in by identity providers."""
