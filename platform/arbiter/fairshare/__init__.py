"""Decayed use, Fair Tree, and credits as an order."""
