"""Where tokens of a Slurm cluster may go: what the operator of this installation has listed.

A cluster's row names an address and a socket, and the portal would send tokens that command the
whole cluster to whatever stands there. Rows are written by administrators of the portal; where its
tokens may go is the decision of whoever runs it, so it stands in the settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

_PORTS = {"http": 80, "https": 443}


def check_trusted(kind: str, options: Mapping[str, Any]) -> None:
    """Raises ValueError, saying what to do, for a Slurm cluster whose slurmrestd or minter is not
    listed. Whether the options are well formed is the connector's matter."""
    if kind != "slurm":
        return
    url, socket = options.get("url"), options.get("token_socket")
    if isinstance(url, str) and not _is_listed_origin(url):
        raise ValueError(
            f"option url leads to {url[:200]}, which is none of the slurmrestd that may be given "
            "tokens; whoever runs this installation can add its scheme, host and port to "
            "TIDEGATE_SLURM_ORIGINS and restart it"
        )
    if isinstance(socket, str) and not _is_listed_socket(socket):
        raise ValueError(
            f"option token_socket names {socket[:200]}, which is none of the minters that may be "
            "asked; whoever runs this installation can add it to TIDEGATE_SLURM_MINTERS and "
            "restart it"
        )


def _is_listed_origin(url: str) -> bool:
    """An entry is like "https://host:6820"; a port of "*" is any."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        return False
    place = f"{scheme}://{f'[{host}]' if host and ':' in host else host}"
    return not settings.SLURM_ORIGINS.isdisjoint(
        {f"{place}:{port or _PORTS.get(scheme)}", f"{place}:*"}
    )


def _is_listed_socket(path: str) -> bool:
    """An entry is a path; one that ends with "/" is every path below it."""
    if ".." in path.split("/"):
        return False
    return any(
        path.startswith(entry) if entry.endswith("/") else path == entry
        for entry in settings.SLURM_MINTERS
    )
