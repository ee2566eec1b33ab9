"""Quota arithmetic: the tree, what it holds, what is protected."""
