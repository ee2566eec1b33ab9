"""Errors of the arbiter besides those for invalid values."""

from __future__ import annotations


class TooLate(RuntimeError):
    """The state after the cycle has changed since, so that cycle can no longer be explained."""
