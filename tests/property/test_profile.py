"""Laws try the same examples everywhere, however long each takes."""

from __future__ import annotations

from hypothesis import settings


def test_laws_have_our_profile() -> None:
    """Planted: a profile that is loaded only while Hypothesis is not imported (`pytest -v`)."""
    assert (settings().deadline, settings().derandomize) == (None, True)
