"""What the core may refuse, but for bad values."""

from __future__ import annotations


class TooLate(RuntimeError):
    """Things no longer stand as the cycle left them, so that nothing can be told of it."""
