"""One cycle: the decisions of all pools, combined into one plan."""
