"""Quota arithmetic: the tree, the amounts its nodes hold, and protected use."""
