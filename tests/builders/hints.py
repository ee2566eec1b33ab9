"""Hints to open pages, as the code under test sends them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from live import publishing


@contextmanager
def hints_told() -> Iterator[list[dict[str, Any]]]:
    """The hints that are told meanwhile, in order; filled at the end."""
    found: list[dict[str, Any]] = []
    with patch.object(publishing, "_notify", wraps=publishing._notify) as told:
        yield found
    for call in told.call_args_list:
        found += call.args[0]
