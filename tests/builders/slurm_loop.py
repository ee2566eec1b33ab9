"""The whole loop on a real Slurm, step by step: real database, real daemons, no threads of ours."""

from __future__ import annotations

from builders.loop_builders import LoopOn
from clusters.models import Cluster
from conformance.rigs import BORROW_QOS, SlurmRig
from connectors.protocol import ClusterConnector
from connectors.slurm.naming import account_name, guaranteed_qos
from quotas.models import ClusterUser
from slurm_bed import SlurmBed
from tenants.models import Node, User


class SlurmLoop(LoopOn):
    """The steps of the product's loops on the cluster of `rig`."""

    def __init__(self, cluster: Cluster, rig: SlurmRig) -> None:
        cluster.kind = "slurm"
        cluster.options = rig.options
        self.rig = rig
        super().__init__(cluster)

    @property
    def connector(self) -> ClusterConnector:
        """Kept, as the observer keeps its own."""
        return self.rig.connector

    def let_in(self, user: User, *teams: Node, name: str | None = None) -> str:
        """Map `user` to a UNIX user of the bed who may submit for `teams`; returns the name."""
        name = name or self.rig.bed.users[0]
        ClusterUser.objects.create(cluster=self.cluster, user=user, name=name)
        for team in teams:
            let_in(self.rig.bed, team.path.rstrip("/"), name)
        return name


def let_in(bed: SlurmBed, team: str, name: str) -> None:
    """Give the UNIX user the account of `team`, with the QoS of its guaranteed and of borrowing
    jobs, as a pushed quota would."""
    with bed.account_writing():
        _let_in(bed, team, name)


def _let_in(bed: SlurmBed, team: str, name: str) -> None:
    account = account_name(team)
    qos = guaranteed_qos(account, "g-")
    for wanted in (qos, BORROW_QOS):
        if not bed.run(["sacctmgr", "-nP", "show", "qos", wanted, "format=name"]).strip():
            bed.run(["sacctmgr", "-i", "add", "qos", wanted])
    if not bed.run(["sacctmgr", "-nP", "show", "account", account, "format=account"]).strip():
        bed.run(["sacctmgr", "-i", "add", "account", account, f"cluster={bed.cluster}"])
    asked = ["sacctmgr", "-nP", "show", "assoc", f"user={name}", f"account={account}"]
    if not bed.run([*asked, "format=user"]).strip():
        bed.run(
            [
                *("sacctmgr", "-i", "add", "user", name, f"account={account}"),
                *(f"cluster={bed.cluster}", f"qos={qos},{BORROW_QOS}"),
            ]
        )
