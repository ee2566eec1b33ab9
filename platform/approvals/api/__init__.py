"""Endpoints of requests."""
