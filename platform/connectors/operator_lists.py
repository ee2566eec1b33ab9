"""Checks that options name only what the operator has listed in the settings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Set
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def is_listed_origin(url: str, listed: Set[str]) -> bool:
    """Return whether the scheme, host and port of `url` are listed.

    An entry looks like "https://host:6820"; a port of "*" allows any port.
    """
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        return False
    place = f"{scheme}://{f'[{host}]' if host and ':' in host else host}"
    return not listed.isdisjoint({f"{place}:{port or _PORTS.get(scheme)}", f"{place}:*"})


def is_listed_path(path: str, listed: Iterable[str]) -> bool:
    """Return whether `path` is listed.

    An entry is a path. An entry that ends with "/" allows every path below it.
    """
    if not path.startswith("/") or ".." in path.split("/"):
        return False
    return any(path.startswith(entry) if entry.endswith("/") else path == entry for entry in listed)


def is_listed_folder(path: str, listed: Iterable[str]) -> bool:
    """Return whether `path` is listed, both as written and with its symbolic links resolved.

    Entries may be symbolic links themselves.
    """
    ends = {entry: "/" if entry.endswith("/") else "" for entry in listed}
    led_to = [os.path.realpath(entry).rstrip("/") + end for entry, end in ends.items()]
    return is_listed_path(path, ends) and is_listed_path(os.path.realpath(path), led_to)
