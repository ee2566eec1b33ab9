"""Attempts of our jobs: submitted, found, reconciled and stopped."""
