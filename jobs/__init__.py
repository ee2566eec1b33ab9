"""Jobs: submission, decisions, execution on clusters, and explanations.

The subpackages are layers, from `loops` and `api` down to `queue`. import-linter checks their
order.
"""
