"""The whole loop on a real Kubernetes, step by step: real database, real servers, no loops of
ours."""

from __future__ import annotations

from builders.kube_queues import a_team
from builders.loop_builders import LoopOn
from clusters.models import Cluster
from conformance.rigs import KubernetesRig
from connectors.protocol import ClusterConnector
from tenants.models import Node


class KubernetesLoop(LoopOn):
    """The steps of the product's loops on the cluster of `rig`."""

    def __init__(self, cluster: Cluster, rig: KubernetesRig, *teams: Node) -> None:
        cluster.kind = "kubernetes"
        cluster.options = rig.options
        self.rig = rig
        for team in teams:
            a_team(rig.admin, team.path.rstrip("/"), "h100")
        super().__init__(cluster)

    @property
    def connector(self) -> ClusterConnector:
        """Kept, as the observer keeps its own."""
        return self.rig.connector
