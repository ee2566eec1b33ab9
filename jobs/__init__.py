"""Jobs: taken in, decided, carried out and told.

The rooms are layers, from `loops` and `api` down to `queue`; import-linter keeps their order.
"""
