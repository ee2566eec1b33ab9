"""Cordons, empties and resumes nodes."""
