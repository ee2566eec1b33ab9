"""Accounts of credits and their settlement: pure, integers, no clock and no database."""
