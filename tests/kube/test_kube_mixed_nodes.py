"""A node of a real Kubernetes with whole GPUs beside slices: it is in a pool with each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from builders.bed_pods import a_pod
from builders.connector_builders import eventually
from builders.kube_natives import NativesLoop, a_pod_spec, namespace_of, new_slug, push_teams
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_pool, a_quota, a_user
from clusters.models import ClusterNode, NodeAction, NodeRequest, Pool
from clusters.node_requests import request_node_change
from clusters.registration import Administrator
from connectors.kubernetes.client.api import KubeApi
from jobs.actions.cancellation import cancel_job
from jobs.models import Attempt, Job
from kube_bed import KubeBed
from kubebed.objects import PRODUCT_LABEL
from tenants.access import actor_of
from tenants.models import User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.disturbs_kube]

WHOLE, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
NODES = "/api/v1/nodes"


@pytest.fixture
def slug() -> str:
    return new_slug()


@pytest.fixture
def company(slug: str) -> Company:
    company = a_company(slug)
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def slices(company: Company) -> Pool:
    """All of them are nlp's."""
    pool = a_pool("h100-1g")
    for node in (company.organization, company.research, company.nlp):
        a_quota(node, pool, 7)
    return pool


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


@pytest.fixture
def node(admin: KubeApi, slug: str) -> Iterator[str]:
    """With 2 whole GPUs and 7 slices; of what it was cut in before it has none any more."""
    name = f"mixed-{slug}"
    amounts = {
        **{"cpu": "128", "memory": "2Ti", "ephemeral-storage": "10Ti", "pods": "250"},
        **{WHOLE: "2", SLICE: "7", "nvidia.com/mig-3g.40gb": "0"},
    }
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", PRODUCT_LABEL: slug}
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    admin.create(NODES, body)
    yield name
    admin.delete(f"{NODES}/{name}")


@pytest.fixture
def loop(
    kube_bed: KubeBed, admin: KubeApi, company: Company, slices: Pool, node: str, slug: str
) -> Iterator[NativesLoop]:
    def pool(flavor: str, **more: Any) -> dict[str, Any]:
        return {
            "flavor": f"{slug}-{flavor}",
            "node_selector": {PRODUCT_LABEL: slug},
            "image": "any",
            **more,
        }

    pools = {
        "h100": pool("whole"),
        slices.name: pool("slice", resource=SLICE),
        "h100-3g": pool("half", resource="nvidia.com/mig-3g.40gb"),
    }
    loop = NativesLoop(
        company.cluster, {"kubeconfig": str(kube_bed.portal_kubeconfig), "pools": pools}
    )
    push_teams(loop.own, company)
    kube_bed.wait_for_namespace(namespace_of(company.nlp))
    eventually(lambda: all(each.is_schedulable for each in loop.own.inventory().nodes) or None)
    yield loop
    admin.delete(f"/api/v1/namespaces/{namespace_of(company.nlp)}")


def a_slice(namespace: str, node: str) -> dict[str, Any]:
    """A Pod of others with one slice."""
    spec = a_pod_spec(gpus=0, selector=False)
    spec["containers"][0]["resources"] = {"limits": {SLICE: "1"}}
    return a_pod(
        namespace,
        "others",
        annotations={"bed.tidegate.io/start-seconds": "0"},
        **{**spec, "nodeName": node},
    )


def rows(loop: NativesLoop) -> dict[str, tuple[str, int, int, bool, str]]:
    """By pool what is known of the cluster's nodes."""
    loop.take_inventory()
    return {
        each.pool.name: (
            each.name,
            each.capacity_mgpu,
            each.outside_mgpu,
            each.is_schedulable,
            each.reason,
        )
        for each in ClusterNode.objects.filter(cluster=loop.cluster).select_related("pool")
    }


def test_jobs_of_both_pools_share_a_node_and_others_are_charged_to_the_right_one(
    loop: NativesLoop, admin: KubeApi, company: Company, slices: Pool, node: str, bob: User
) -> None:
    """It is not left out, nor are all its GPUs in the first of its pools; and the Pod of others is
    charged to the pool of what it asks for."""
    assert rows(loop) == {
        "h100": (node, 2_000, 0, True, ""),
        "h100-1g": (node, 7_000, 0, True, ""),
    }
    others = namespace_of(company.nlp)
    admin.create(f"/api/v1/namespaces/{others}/pods", a_slice(others, node))
    eventually(lambda: (loop.observe(), rows(loop)["h100-1g"][2])[1] == 1_000 or None)
    assert rows(loop)["h100"][2] == 0
    whole = a_job(company.nlp, bob, company.pool, gpus=2, script="sleep 600")
    parts = a_job(company.nlp, bob, slices, gpus=4, script="sleep 600")
    late = a_job(company.nlp, bob, slices, gpus=3, script="sleep 600")
    for job in (whole, parts):
        loop.until(job, "running")
    late.refresh_from_db()
    assert late.state == "queued"
    assert slots(whole) == [{"node": node, "mgpu": 2_000}]
    assert slots(parts) == [{"node": node, "mgpu": 4_000}]
    cancel_job(parts.pk, actor=actor_of(bob), now=loop.clock.now())
    loop.until(late, "running")
    assert slots(late) == [{"node": node, "mgpu": 3_000}]
    for job in (whole, late):
        cancel_job(job.pk, actor=actor_of(bob), now=loop.clock.now())
        loop.until(job, "cancelled")


def slots(job: Job) -> list[dict[str, Any]]:
    """Where the job's attempt is."""
    found: list[dict[str, Any]] = Attempt.objects.get(job=job).slots
    return found


def test_it_is_drained_and_resumed_once_for_all_its_pools(loop: NativesLoop, node: str) -> None:
    by = Administrator(UUID(int=1), "admin")
    row = ClusterNode.objects.select_related("cluster").get(pool__name="h100-1g")

    def answered(action: NodeAction, reason: str = "") -> str:
        asked = request_node_change(row, action, reason, by=by, now=loop.clock.now())
        loop.deliver()
        return NodeRequest.objects.get(pk=asked.pk).state

    assert answered(NodeAction.DRAIN, "new fans") == "done"
    eventually(lambda: {each[3:] for each in rows(loop).values()} == {(False, "new fans")} or None)
    assert set(rows(loop)) == {"h100", "h100-1g"}
    assert answered(NodeAction.RESUME) == "done"
    eventually(lambda: {each[3:] for each in rows(loop).values()} == {(True, "")} or None)
