"""The quota tree as objects of Kueue."""
