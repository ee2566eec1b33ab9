"""Paths of the tree."""

from __future__ import annotations

from collections.abc import Iterator


def paths_above(path: str) -> Iterator[str]:
    """Yield the paths of all nodes above `path`, the outermost first, and `path` itself.

    "lab/nlp/" gives "lab/" and "lab/nlp/".
    """
    end = path.find("/")
    while end >= 0:
        yield path[: end + 1]
        end = path.find("/", end + 1)
