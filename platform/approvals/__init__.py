"""Requests of people for changes that others decide."""
