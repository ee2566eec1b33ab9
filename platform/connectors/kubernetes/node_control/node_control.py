"""Cordons and resumes nodes of a Kubernetes cluster.

As everywhere in the portal, a drain keeps new work off the node and lets running work go on;
`evicting` empties the node. Our reason is stored as an annotation. A resume lifts the cordon
regardless of its origin, as on other kinds of cluster. Taints stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from connectors.errors import NodeRefused
from connectors.kubernetes.client.api import Forbidden, KubeApi, KubeRefused, NotFound
from connectors.kubernetes.connector import KubernetesConnector
from connectors.kubernetes.nodes.inventory import DRAINED
from connectors.protocol import ClusterConnector

NODES = "/api/v1/nodes"
_NODE = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_REASON_LENGTH_MAX = 200


def control_nodes(connector: ClusterConnector) -> KubernetesNodeControl:
    """Return the node control of the Kubernetes cluster of `connector`."""
    assert isinstance(connector, KubernetesConnector)
    return KubernetesNodeControl(connector.api)


class KubernetesNodeControl:
    """Implements `connectors.node_control.NodeControl`."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    def drain(self, node: str, reason: str) -> None:
        """See the protocol."""
        if not reason.isprintable() or len(reason) > _REASON_LENGTH_MAX:
            raise NodeRefused(f"a reason is one line of at most {_REASON_LENGTH_MAX} characters")
        self._change(node, {DRAINED: reason}, is_cordoned=True)

    def resume(self, node: str) -> None:
        """See the protocol. A node that is not ready, or tainted, stays unavailable."""
        self._change(node, {DRAINED: None}, is_cordoned=False)

    def _change(
        self, node: str, annotations: Mapping[str, str | None], *, is_cordoned: bool
    ) -> None:
        if not _NODE.fullmatch(node):
            raise NodeRefused(f"{node[:80]!r} cannot be the name of a node")
        # None removes the field, as on a node that was never cordoned.
        patch: dict[str, Any] = {
            "metadata": {"annotations": dict(annotations)},
            "spec": {"unschedulable": True if is_cordoned else None},
        }
        try:
            self._api.merge_patch(f"{NODES}/{node}", patch)
        except NotFound as error:
            raise NodeRefused(f"the cluster has no node {node}") from error
        except Forbidden as error:
            raise NodeRefused(
                f"the portal's service account may not change node {node}; give it the right to "
                f"patch nodes ({error})"
            ) from error
        except KubeRefused as error:
            raise NodeRefused(f"the cluster does not change node {node} so: {error}") from error
