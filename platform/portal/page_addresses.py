"""The addresses of the frontend's pages, as listed by its build."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path

#: Matches a last step with an extension, such as `app.js`, or any step after a dot, such as `.git`.
_FILE = re.compile(r"(\A|/)\.|\.[A-Za-z0-9]{1,10}\Z")


def looks_like_a_file(path: str) -> bool:
    """Return whether `path` (without its first slash) names a file instead of a page."""
    return _FILE.search(path) is not None


def has_page(path: str, listing: Path) -> bool | None:
    """Return whether `path` matches a route in `listing`, or None without a listing.

    Routes have the form of the frontend's router: `/jobs/$jobId`. One slash at the end is allowed,
    as in the router.
    """
    try:
        changed_ns = listing.stat().st_mtime_ns
    except FileNotFoundError:
        return None
    return _pattern(listing, changed_ns).fullmatch("/" + path) is not None


@lru_cache(maxsize=4)
def _pattern(listing: Path, changed_ns: int) -> re.Pattern[str]:
    routes: list[str] = json.loads(listing.read_text(encoding="utf-8"))
    return re.compile("|".join(_route_pattern(route) for route in routes))


def _route_pattern(route: str) -> str:
    steps = route.strip("/").split("/")
    return (
        "/"
        + "/".join("[^/]+" if step.startswith("$") else re.escape(step) for step in steps)
        + ("/?" if route != "/" else "")
    )
