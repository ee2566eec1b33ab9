"""One cycle: the decisions of all pools, put together."""
