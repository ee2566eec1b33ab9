"""Budgets: how much a node or a user may use over a period."""
