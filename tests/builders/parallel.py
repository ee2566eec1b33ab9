"""Acts of several threads at once, each with its own database connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from django.db import connection

Result = TypeVar("Result")


def at_once(acts: Sequence[Callable[[], Result]]) -> list[Result]:
    """The results of `acts`, which all begin together; raises what one of them raised."""
    start = Barrier(len(acts), timeout=60)

    def run(act: Callable[[], Result]) -> Result:
        try:
            start.wait()
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=len(acts)) as pool:
        return list(pool.map(run, acts))
