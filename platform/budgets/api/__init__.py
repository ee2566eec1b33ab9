"""HTTP endpoints of budgets."""
