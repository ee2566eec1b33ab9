"""The kinds of cluster that Tidegate can talk to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connectors.local.connector import open_local
from connectors.protocol import ClusterConnector
from connectors.slurm.connector import open_slurm

OPENERS: Mapping[str, Callable[[Mapping[str, Any], str], ClusterConnector]] = {
    "local": open_local,
    "slurm": open_slurm,
}

#: Kinds of cluster whose jobs run as users of the cluster, who must be mapped first.
KINDS_WITH_USERS = frozenset({"slurm"})
#: Kinds of cluster that give out whole GPUs only.
KINDS_WITH_WHOLE_GPUS = frozenset({"slurm"})


def open_connector(kind: str, options: Mapping[str, Any], cluster_id: str) -> ClusterConnector:
    """The connector of a cluster of `kind` with its stored `options`.

    `cluster_id` is ours and unique for ever: how a cluster knows whose it is. Raises KeyError
    for a kind that is not registered, and what its opener raises.
    """
    return OPENERS[kind](options, cluster_id)
