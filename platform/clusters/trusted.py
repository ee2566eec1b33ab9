"""Where the portal's credentials may go: what the operator of this installation has listed.

A Slurm cluster's row names an address and a socket, and the portal would send tokens that command
the whole cluster to whatever stands there; a Kubernetes cluster's row names a file with an address
and credentials (or a program that is run for them). Rows are written by administrators of the
portal; where its credentials may go is the decision of whoever runs it, so it stands in the
settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

#: How the settings list that the portal may use the service account of its own Pod.
IN_CLUSTER = "in-cluster"
_PORTS = {"http": 80, "https": 443}


def check_trusted(kind: str, options: Mapping[str, Any]) -> None:
    """Raises ValueError, saying what to do, for a Slurm cluster whose slurmrestd or minter is not
    listed, and for a Kubernetes cluster whose kubeconfig is not. Whether the options are well
    formed is the connector's matter."""
    if kind == "kubernetes":
        _check_kubeconfig(options)
    elif kind == "slurm":
        _check_slurm(options)


def _check_kubeconfig(options: Mapping[str, Any]) -> None:
    path = options.get("kubeconfig")
    if isinstance(path, str) and not _is_listed_path(path, settings.KUBECONFIGS):
        raise ValueError(
            f"option kubeconfig names {path[:200]}, which is none of the files that may be used; "
            "whoever runs this installation can add it to TIDEGATE_KUBECONFIGS and restart it"
        )
    if options.get("in_cluster") is True and IN_CLUSTER not in settings.KUBECONFIGS:
        raise ValueError(
            "option in_cluster uses the service account of the portal's own Pod, which is not "
            f"allowed here; whoever runs this installation can add {IN_CLUSTER} to "
            "TIDEGATE_KUBECONFIGS and restart it"
        )


def _check_slurm(options: Mapping[str, Any]) -> None:
    url, socket = options.get("url"), options.get("token_socket")
    if isinstance(url, str) and not _is_listed_origin(url):
        raise ValueError(
            f"option url leads to {url[:200]}, which is none of the slurmrestd that may be given "
            "tokens; whoever runs this installation can add its scheme, host and port to "
            "TIDEGATE_SLURM_ORIGINS and restart it"
        )
    if isinstance(socket, str) and not _is_listed_path(socket, settings.SLURM_MINTERS):
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


def _is_listed_path(path: str, listed: Iterable[str]) -> bool:
    """An entry is a path; one that ends with "/" is every path below it."""
    if not path.startswith("/") or ".." in path.split("/"):
        return False
    return any(path.startswith(entry) if entry.endswith("/") else path == entry for entry in listed)
