"""Adjustments of charges by people, and disputes about them."""
