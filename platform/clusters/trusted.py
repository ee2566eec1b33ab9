"""Where the portal's credentials may go: what the operator of this installation has listed.

A local cluster's row names a folder that the portal fills, as root where it runs as root. A Slurm
cluster's row names an address and a socket, and the portal would send tokens that command the whole
cluster to whatever stands there; a Kubernetes cluster's row names a file with an address and
credentials (or a program that is run for them). Rows are written by administrators of the portal;
what it may use is the decision of whoever runs it, so it stands in the settings.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

#: How the settings list that the portal may use the service account of its own Pod.
IN_CLUSTER = "in-cluster"
_PORTS = {"http": 80, "https": 443}


def check_trusted(kind: str, options: Mapping[str, Any]) -> None:
    """Raises ValueError, saying what to do, for a Slurm cluster whose slurmrestd or minter is not
    listed, a Kubernetes cluster whose kubeconfig is not, and a local cluster whose folder is not.
    Whether the options are well formed is the connector's matter."""
    if kind == "kubernetes":
        _check_kubeconfig(options)
    elif kind == "slurm":
        _check_slurm(options)
    elif kind == "local":
        _check_local(options)


def operator_options(kind: str) -> Mapping[str, Any]:
    """What the operator adds to the options of every cluster of `kind`."""
    if kind != "local":
        return {}
    files = [path for path in settings.KUBECONFIGS if path.startswith("/")]
    kept = [settings.STATE_DIR, settings.ENV_FILE, settings.REPO / "var"]
    hidden = {str(path) for path in (*kept, *files, *settings.SLURM_MINTERS)}
    return {"hidden": sorted(hidden), "uids": list(settings.LOCAL_UIDS)}


def _check_local(options: Mapping[str, Any]) -> None:
    if not settings.LOCAL_ROOTS:
        raise ValueError(
            "clusters of kind local are turned off here; whoever runs this installation can list "
            "the folders that they may keep in TIDEGATE_LOCAL_ROOTS and restart it"
        )
    root = options.get("root")
    if isinstance(root, str) and not _is_listed_folder(root, settings.LOCAL_ROOTS):
        raise ValueError(
            f"option root names {root[:200]}, which is none of the folders that a local cluster "
            "may keep; whoever runs this installation can add it to TIDEGATE_LOCAL_ROOTS and "
            "restart it"
        )
    if options.get("isolation") == "off" and not settings.LOCAL_UNISOLATED:
        raise ValueError(
            "option isolation is off, so that jobs would run as the portal itself; whoever runs "
            "this installation can allow that with TIDEGATE_LOCAL_UNISOLATED=true"
        )
    for folder in _texts(options.get("folders")):
        if not _is_listed_folder(folder, settings.LOCAL_FOLDERS):
            raise ValueError(
                f"option folders names {folder[:200]}, which is none of the folders that jobs of "
                "local clusters may see; whoever runs this installation can add it to "
                "TIDEGATE_LOCAL_FOLDERS and restart it"
            )
    run_as = options.get("run_as")
    names = _texts(list(run_as.values()) if isinstance(run_as, Mapping) else None)
    if strangers := sorted(set(names) - settings.LOCAL_RUN_AS):
        raise ValueError(
            f"option run_as names the UNIX user {strangers[0][:40]}, who is none of those that "
            "jobs may run as; whoever runs this installation can add the name to "
            "TIDEGATE_LOCAL_RUN_AS and restart it"
        )
    if own := sorted({"hidden", "uids"} & options.keys()):
        raise ValueError(f"option {own[0]} is set by whoever runs this installation")


def _texts(value: object) -> list[str]:
    """The texts in a list; whether it has others is the connector's matter."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


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


def _is_listed_folder(path: str, listed: Iterable[str]) -> bool:
    """As a path, and wherever its symbolic links lead; entries may be links themselves."""
    ends = {entry: "/" if entry.endswith("/") else "" for entry in listed}
    led_to = [os.path.realpath(entry).rstrip("/") + end for entry, end in ends.items()]
    return _is_listed_path(path, ends) and _is_listed_path(os.path.realpath(path), led_to)
