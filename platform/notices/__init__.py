"""Notices to people about jobs, teams, budgets and requests, and their inbox."""
