"""Nodes of a real Kubernetes are cordoned, emptied and let in again, with the portal's own
rights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from builders.bed_pods import a_pod
from builders.connector_builders import eventually
from builders.kube_loop import KubernetesLoop
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_user
from clusters.models import ClusterNode, NodeAction, NodeRequest
from clusters.node_requests import request_node_change
from clusters.registration import Administrator
from conformance.rigs import KubernetesRig
from connectors.errors import LogUnavailable, NodeRefused
from connectors.kubernetes.client.api import NotFound
from connectors.kubernetes.node_control.evicting import control_eviction
from connectors.kubernetes.node_control.node_control import control_nodes
from connectors.node_control import LeftOnNode, NodeControl
from connectors.protocol import NodeCapacity
from jobs.models import Attempt, Job, JobEvent
from kube_bed import KubeBed

pytestmark = pytest.mark.kube


@pytest.fixture
def own_node(kubernetes_rig: KubernetesRig, worker_id: str) -> str:
    """One that no other worker of this run drains."""
    workers_before = int(worker_id.removeprefix("gw")) if worker_id != "master" else 0
    return kubernetes_rig.bed.h100_nodes[-1 - workers_before]


@pytest.fixture
def control(kubernetes_rig: KubernetesRig, own_node: str) -> Iterator[NodeControl]:
    opened = control_nodes(kubernetes_rig.connector)
    yield opened
    opened.resume(own_node)


def node_of(rig: KubernetesRig, name: str) -> NodeCapacity:
    """What a whole inventory says of a node."""
    return next(node for node in rig.connector.inventory().nodes if node.name == name)


def test_a_node_is_drained_and_resumed(
    kubernetes_rig: KubernetesRig, control: NodeControl, own_node: str
) -> None:
    """Why stands on the node while it is drained, and nothing of it afterwards."""
    rig, name = kubernetes_rig, own_node
    before = node_of(rig, name)
    assert (before.is_schedulable, before.reason) == (True, "")
    for _ in range(2):
        control.drain(name, "new fans")
    eventually(lambda: not node_of(rig, name).is_schedulable)
    drained = node_of(rig, name)
    assert (drained.state, drained.reason) == ("Ready,SchedulingDisabled", "new fans")
    assert drained.capacity_mgpu == before.capacity_mgpu
    for _ in range(2):
        control.resume(name)
    eventually(lambda: node_of(rig, name).is_schedulable)
    assert node_of(rig, name) == before
    said = rig.admin.get(f"/api/v1/nodes/{name}")
    assert "tidegate.io/drained" not in said["metadata"].get("annotations", {})


def test_what_an_administrator_cordoned_is_let_in_too(
    kubernetes_rig: KubernetesRig, control: NodeControl, own_node: str
) -> None:
    rig, name = kubernetes_rig, own_node
    rig.admin.merge_patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    eventually(lambda: node_of(rig, name).reason == "cordoned")
    control.resume(name)
    eventually(lambda: node_of(rig, name).is_schedulable)


@pytest.mark.parametrize(
    ("node", "reason", "why"),
    [
        ("no-such-node", "x", "the cluster has no node no-such-node"),
        ("../pods", "x", "'../pods' cannot be the name of a node"),
        ("n1", "two\nlines", "a reason is one line of at most 200 characters"),
    ],
)
def test_what_is_refused(control: NodeControl, node: str, reason: str, why: str) -> None:
    with pytest.raises(NodeRefused) as refused:
        control.drain(node, reason)
    assert str(refused.value) == why


class Neighbours:
    """Pods of others on one node, in a namespace of their own."""

    def __init__(self, rig: KubernetesRig, namespace: str, node: str) -> None:
        self.admin, self.node = rig.admin, node
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        self.daemons = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
        self.namespace = namespace

    def add(self, name: str, app: str = "", **metadata: Any) -> None:
        """One that runs until it is ended."""
        pod = a_pod(
            self.namespace,
            name,
            annotations={
                "bed.tidegate.io/start-seconds": "0",
                **metadata.pop("annotations", {}),
            },
            labels={"app": app},
            nodeName=self.node,
        )
        pod["metadata"] |= metadata
        self.admin.create(self.pods, pod)

    def keep(self, name: str, app: str) -> None:
        """A budget that lets none of `app` go, from now on."""
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}},
        }
        self.admin.create(self.budgets, budget)
        # Until it is counted the server refuses too, but says no more than that.
        eventually(
            lambda: self.admin.get(f"{self.budgets}/{name}")["status"].get("observedGeneration")
        )

    def a_daemon_set(self) -> str:
        """One whose only Pod is the test's; returns its uid."""
        labels = {"app": "daemon"}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "a", "image": "b"}]},
        }
        template["spec"]["nodeSelector"] = {"kubernetes.io/hostname": self.node}
        made = self.admin.create(
            self.daemons,
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": "daemon"},
                "spec": {"selector": {"matchLabels": labels}, "template": template},
            },
        )
        return str(made["metadata"]["uid"])

    def has(self, name: str) -> bool:
        """Whether it is there and is not being ended."""
        try:
            found = self.admin.get(f"{self.pods}/{name}")
        except NotFound:
            return False
        return "deletionTimestamp" not in found["metadata"]


@pytest.mark.disturbs_kube
def test_a_node_is_emptied_of_what_is_not_its_own(
    kubernetes_rig: KubernetesRig, control: NodeControl, own_node: str, kube_namespace: str
) -> None:
    """Budgets keep what they keep, and are told; a DaemonSet's Pod and the node's own stay."""
    rig, node = kubernetes_rig, own_node
    others = Neighbours(rig, kube_namespace, node)
    daemons = [
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": "daemon",
            "uid": others.a_daemon_set(),
            "controller": True,
        }
    ]
    others.add("its-daemon", "daemon", ownerReferences=daemons)
    others.add("its-own", annotations={"kubernetes.io/config.mirror": "x"})
    for name in ("plain", "kept", "kept-twice"):
        others.add(name, name)
    others.keep("one", "kept")
    others.keep("two-a", "kept-twice")
    others.keep("two-b", "kept-twice")
    eviction = control_eviction(rig.connector)
    control.drain(node, "new fans")

    def left() -> LeftOnNode:
        return eviction.evict(node, grace_s=1, jobs=())

    eventually(lambda: left().others == 2)
    found = left()
    kept_twice, kept = found.refusals
    assert found == LeftOnNode(others=2, refusals=(kept_twice, kept))
    assert kept.startswith(f"{kube_namespace}/kept: Cannot evict pod as it would violate")
    assert kept_twice.startswith(
        f"{kube_namespace}/kept-twice: This pod has more than one PodDisruptionBudget"
    )
    assert not others.has("plain")
    for budget in ("one", "two-a", "two-b"):
        rig.admin.delete(f"{others.budgets}/{budget}")
    eventually(lambda: left().is_nothing)
    assert [others.has(name) for name in ("its-daemon", "its-own", "kept")] == [True, True, False]


@pytest.fixture
def company() -> Company:
    company = a_company()
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def loop(company: Company, kubernetes_rig: KubernetesRig) -> Iterator[KubernetesLoop]:
    yield KubernetesLoop(company.cluster, kubernetes_rig, company.nlp)
    resumed = control_nodes(kubernetes_rig.connector)
    for node in NodeRequest.objects.values_list("node", flat=True):
        resumed.resume(node)


def drained(loop: KubernetesLoop, node: str) -> NodeRequest:
    """Ask for it as an administrator does."""
    user = a_user(None, "root")
    return request_node_change(
        ClusterNode.objects.get(cluster=loop.cluster, name=node),
        NodeAction.DRAIN,
        "new fans",
        evict_grace_s=1,
        by=Administrator(user.pk, user.login),
        now=loop.clock.now(),
    )


def ready(loop: KubernetesLoop, job: Job, *ranks: int) -> None:
    """Wait until these ranks of the running `job` say so."""
    key = Attempt.objects.get(job=job).key

    def said(rank: int) -> str:
        try:
            return loop.rig.log(key, rank=rank)
        except LogUnavailable:
            return ""

    eventually(lambda: all(said(rank) == "ready\n" for rank in ranks))


@pytest.mark.disturbs_kube
@pytest.mark.django_db(transaction=True)
def test_a_gang_on_a_node_that_is_emptied_saves_its_work_and_runs_elsewhere(
    loop: KubernetesLoop, company: Company, kube_bed: KubeBed
) -> None:
    """Its rank on the drained node is not evicted: all of it gets notice, ends and queues again.

    Mutant: with its Pod evicted there was TERM and no notice, and the other rank saved nothing.
    """
    saved, again = loop.rig.scratch / "saved", loop.rig.scratch / "again"
    script = f"""
    if [ "$TIDEGATE_ATTEMPT" = 2 ]; then echo "$RANK on $TIDEGATE_NODE" > {again}.$RANK; exit 0; fi
    trap 'echo "rank $RANK" > {saved}.$RANK; exit 0' USR1
    echo ready; while :; do sleep 0.2; done
    """
    job = a_job(
        company.nlp,
        a_user(company.organization, "bob"),
        company.pool,
        gpus=8,
        nodes=2,
        script=script,
        notice_signal="USR1",
    )
    loop.until(job, "running")
    ready(loop, job, 0, 1)
    first = Attempt.objects.get(job=job)
    node = first.slots[0]["node"]
    request = drained(loop, node)
    loop.until(job, "succeeded", "failed", "cancelled")

    assert (job.state, job.attempt_number) == ("succeeded", 2)
    assert [(saved.parent / f"saved.{rank}").read_text() for rank in range(2)] == [
        "rank 0\n",
        "rank 1\n",
    ]
    first.refresh_from_db()
    assert (first.stop_reason, first.reclaim, first.forced_at) == ("preempted", None, None)
    second = Attempt.objects.get(job=job, number=2)
    nodes = [slot["node"] for slot in second.slots]
    assert node not in nodes
    assert [(again.parent / f"again.{rank}").read_text() for rank in range(2)] == [
        f"{rank} on {where}\n" for rank, where in enumerate(nodes)
    ]
    events = JobEvent.objects.filter(job=job).order_by("id").values_list("event", "detail")
    assert [event for event, _ in events] == [
        *("granted", "started", "preempting", "requeued"),
        *("granted", "started", "succeeded"),
    ]
    told = dict(events)["preempting"]
    assert told == {"attempt": 1, "grace_s": 300, "drained_node": node}

    def is_done() -> bool:
        loop.turn()
        request.refresh_from_db()
        return request.state == "done"

    eventually(is_done)
    assert request.message == ""
