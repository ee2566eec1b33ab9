"""A pool of CPU cores on a real Kubernetes with Kueue: nodes without GPUs, jobs, gangs and natives
on them, and what others hold there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from billing.models import UsageSegment
from builders.bed_pods import a_pod
from builders.connector_builders import eventually
from builders.kube_natives import (
    JOBS,
    NativesLoop,
    a_native_job,
    a_pod_spec,
    namespace_of,
    new_slug,
    push_teams,
)
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_pool, a_quota, a_user
from clusters.models import ClusterNode, Pool
from connectors.kubernetes.client.api import KubeApi
from connectors.kubernetes.objects.naming import team_namespace, workload_name
from connectors.kubernetes.quotas.objects import KINDS
from jobs.actions.cancellation import cancel_job
from jobs.models import Attempt, Job
from kube_bed import KubeBed
from kubebed.objects import PRODUCT_LABEL
from tenants.access import actor_of
from tenants.models import User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.disturbs_kube]

NODES = "/api/v1/nodes"
BATCH = "example.com/pool"
TELL = 'echo "$RANK $TIDEGATE_CPUS_PER_NODE $TIDEGATE_GPUS_PER_NODE"; '


@pytest.fixture
def slug() -> str:
    return new_slug()


@pytest.fixture
def company(slug: str) -> Company:
    company = a_company(slug)
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def cores(company: Company) -> Pool:
    """24 of them are nlp's."""
    pool = a_pool("batch", device="cpu")
    for node in (company.organization, company.research, company.nlp):
        a_quota(node, pool, 24)
    return pool


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


@pytest.fixture
def nodes(admin: KubeApi, slug: str) -> Iterator[tuple[str, str]]:
    """Two with 16 cores, of which the system has half of one; and a third with 8 GPUs that somebody
    gave the same label."""
    names = (f"cores-{slug}-0", f"cores-{slug}-1", f"gpus-{slug}")
    for name in names:
        amounts = {"memory": "64000Mi", "ephemeral-storage": "1Ti", "pods": "250"}
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", BATCH: slug}
        if name.startswith("gpus"):
            amounts["nvidia.com/gpu"] = "8"
            labels[PRODUCT_LABEL] = slug
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {
                "capacity": {**amounts, "cpu": "16"},
                "allocatable": {**amounts, "cpu": "15500m"},
            },
        }
        admin.create(NODES, body)
    # Nothing is to be started on it before somebody has looked at its labels.
    admin.merge_patch(f"{NODES}/{names[2]}", {"spec": {"unschedulable": True}})
    yield names[0], names[1]
    for name in names:
        admin.delete(f"{NODES}/{name}")


@pytest.fixture(params=["arbiter", "shared"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def loop(
    kube_bed: KubeBed,
    admin: KubeApi,
    company: Company,
    cores: Pool,
    nodes: tuple[str, str],
    slug: str,
    mode: str,
) -> Iterator[NativesLoop]:
    pools = {
        "h100": {
            "flavor": f"{slug}-gpus",
            "node_selector": {PRODUCT_LABEL: slug},
            "image": "any",
        },
        cores.name: {
            "device": "cpu",
            "flavor": f"{slug}-cores",
            "node_selector": {BATCH: slug},
            "image": "any",
            "memory_mib_per_core": 2_000,
        },
    }
    options = {"kubeconfig": str(kube_bed.portal_kubeconfig), "mode": mode, "pools": pools}
    loop = NativesLoop(company.cluster, options)
    push_teams(loop.own, company)
    kube_bed.wait_for_namespace(namespace_of(company.nlp))
    eventually(lambda: len([one for one in loop.own.inventory().nodes if one.is_schedulable]) == 2)
    yield loop
    admin.delete(f"/api/v1/namespaces/{namespace_of(company.nlp)}")


def a_service(namespace: str, name: str, node: str, cpu: str, **more: Any) -> dict[str, Any]:
    """A Pod of others that was bound to `node`, with so much CPU."""
    spec = a_pod_spec(gpus=0, selector=False)
    spec["containers"][0]["resources"] = {"requests": {"cpu": cpu, "memory": "100Mi"}}
    marks = {"bed.tidegate.io/start-seconds": "0", **more.pop("annotations", {})}
    return a_pod(namespace, name, annotations=marks, **{**spec, "nodeName": node, **more})


def a_native(name: str, slug: str, *, cores: str, pods: int = 1) -> dict[str, Any]:
    """A Job without GPUs as a person writes it, for the nodes of the pool."""
    body = a_native_job(name, gpus=0, pods=pods)
    spec = body["spec"]["template"]["spec"]
    spec["nodeSelector"] = {BATCH: slug}
    no_gpus = [{"matchExpressions": [{"key": PRODUCT_LABEL, "operator": "DoesNotExist"}]}]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    spec["affinity"] = {"nodeAffinity": {required: {"nodeSelectorTerms": no_gpus}}}
    spec["containers"][0]["resources"] = {"requests": {"cpu": cores}}
    return body


def rows(loop: NativesLoop) -> dict[str, tuple[int, int, int | None]]:
    """By node of the pool what it offers of cores, what of them others hold, and MiB."""
    loop.take_inventory()
    return {
        each.name: (each.capacity_mgpu, each.outside_mgpu, each.memory_mib)
        for each in ClusterNode.objects.filter(cluster=loop.cluster, pool__name="batch")
    }


def slots(job: Job) -> list[tuple[str, int]]:
    """Where the job's attempt is."""
    return [(one["node"], one["mgpu"]) for one in Attempt.objects.get(job=job).slots]


def pods_of(admin: KubeApi, company: Company, job: Job) -> list[dict[str, Any]]:
    """The Pods of the job's attempt."""
    name = workload_name(Attempt.objects.get(job=job).key)
    found = admin.list(f"/api/v1/namespaces/{namespace_of(company.nlp)}/pods").items
    return [one for one in found if one["metadata"]["name"].startswith(name)]


@pytest.mark.parametrize("mode", ["arbiter"], indirect=True)
def test_what_others_hold_of_a_node_is_not_promised_and_what_is_promised_fits(
    loop: NativesLoop,
    admin: KubeApi,
    company: Company,
    cores: Pool,
    nodes: tuple[str, str],
    bob: User,
) -> None:
    """Each node gives out 15.5 of 16 cores. On the first its own services hold half of one and a
    Deployment's Pod 2.7, so that 12 fit and not 13; a job of 12 runs there beside one of 15 on the
    other, and one more core waits here and not on the cluster. Mutants: the capacity is offered;
    what others hold is; a node's own services count twice, or not at all."""
    assert rows(loop) == dict.fromkeys(nodes, (15500, 0, 64000))
    space = f"/api/v1/namespaces/{namespace_of(company.nlp)}/pods"
    mirror = {"kubernetes.io/config.mirror": "1"}
    admin.create(
        space,
        a_service("n", "proxy", nodes[0], "500m", annotations=mirror)
        | {"metadata": {"name": "proxy", "annotations": mirror}},
    )
    admin.create(space, a_service(namespace_of(company.nlp), "web", nodes[0], "2700m"))

    def told() -> dict[str, tuple[int, int, int | None]]:
        loop.observe()
        return rows(loop)

    wanted = {nodes[0]: (15_000, 2_700, 63_900), nodes[1]: (15_500, 0, 64_000)}
    eventually(lambda: told() == wanted, told=lambda: str(told()))
    large = a_job(company.nlp, bob, cores, gpus=15, script="sleep 600")
    never = a_job(company.nlp, bob, cores, gpus=13, script="sleep 600")
    loop.until(large, "running")
    assert slots(large) == [(nodes[1], 15_000)]
    fits = a_job(company.nlp, bob, cores, gpus=9, script="sleep 600")
    loop.until(fits, "running")
    assert slots(fits) == [(nodes[0], 9_000)]
    never.refresh_from_db()
    assert never.state == "queued"
    (pod,) = pods_of(admin, company, fits)
    assert pod["spec"]["containers"][0]["resources"]["limits"] | {"ephemeral-storage": ""} == {
        "cpu": "9",
        "memory": "18000Mi",
        "ephemeral-storage": "",
    }
    for job in (large, fits, never):
        cancel_job(job.pk, actor=actor_of(bob), now=loop.clock.now())
        loop.until(job, "cancelled")


def test_a_gang_has_cores_on_both_nodes_and_is_metered_in_cores(
    loop: NativesLoop,
    admin: KubeApi,
    company: Company,
    cores: Pool,
    nodes: tuple[str, str],
    bob: User,
    slug: str,
) -> None:
    """In both modes; Kueue counts it in its flavor of cores, of which nlp has 24 in shared mode."""
    gang = a_job(company.nlp, bob, cores, gpus=10, nodes=2, script="sleep 2")
    loop.until(gang, "succeeded", "failed")
    assert (gang.state, gang.exit_code) == ("succeeded", 0)
    assert sorted(slots(gang)) == [(name, 10_000) for name in nodes]
    segment = UsageSegment.objects.get(attempt_id=Attempt.objects.get(job=gang).pk)
    assert (segment.guaranteed_mgpu, segment.borrowed_mgpu) == (20_000, 0)
    late = a_job(company.nlp, bob, cores, gpus=12, nodes=2, script="sleep 600")
    loop.until(late, "running")

    def counted() -> dict[str, str]:
        queue = admin.get(KINDS["cluster queue"].path(namespace_of(company.nlp)))
        return {
            flavor["name"].removeprefix(f"{slug}-"): one["total"]
            for flavor in queue["status"]["flavorsUsage"]
            for one in flavor["resources"]
            if one["name"] == "cpu"
        }

    # Kueue tells its usage some time after it admits.
    wanted = {"cores": "24", "gpus": "0"}
    eventually(lambda: counted() == wanted, told=lambda: str(counted()))
    for pod in pods_of(admin, company, late):
        assert "nvidia.com/gpu" not in pod["spec"]["containers"][0]["resources"]["requests"]
    cancel_job(late.pk, actor=actor_of(bob), now=loop.clock.now())
    loop.until(late, "cancelled")


def test_a_native_of_cores_waits_for_the_arbiter_and_is_counted_in_cores(
    loop: NativesLoop,
    admin: KubeApi,
    company: Company,
    cores: Pool,
    nodes: tuple[str, str],
    slug: str,
) -> None:
    """What somebody gives to Kueue for the pool's nodes is a job of it, of 2 ranks with a core and
    a half. Mutants: it asks for nothing and is started at once; a core is a thousand; it is asked
    for whole cores."""
    namespace = namespace_of(company.nlp)
    body = a_native("own", slug, cores="1500m", pods=2)
    admin.create(JOBS.format(namespace), body)

    def job() -> Job | None:
        loop.observe()
        return Job.objects.filter(cluster=loop.cluster, origin="native").first()

    found = eventually(job)
    assert (found.pool.name, found.mgpu_per_node, found.node_count) == ("batch", 1_500, 2)
    assert found.state == "queued"
    loop.until(found, "running")
    assert {one["mgpu"] for one in Attempt.objects.get(job=found).slots} == {1_500}
    assert {one["node"] for one in Attempt.objects.get(job=found).slots} <= set(nodes)
    loop.take_inventory()
    assert all(row[1] == 0 for row in rows(loop).values())
    admin.delete(f"{JOBS.format(namespace)}/own")


@pytest.mark.parametrize("mode", ["arbiter"], indirect=True)
def test_nodes_with_gpus_are_told_and_not_counted(
    loop: NativesLoop, nodes: tuple[str, str], slug: str
) -> None:
    told = loop.own.inventory()
    assert {(one.name, one.pool) for one in told.nodes} == {
        *((name, "batch") for name in nodes),
        (f"gpus-{slug}", "h100"),
    }
    (complaint,) = (one for one in told.complaints if "CPU cores" in one)
    assert f"has 1 nodes with GPUs by its node_selector (gpus-{slug})" in complaint


def test_the_quota_of_cores_is_kueues_own_in_shared_mode_and_wide_in_the_other(
    loop: NativesLoop, admin: KubeApi, company: Company, slug: str, mode: str
) -> None:

    path = KINDS["cluster queue"].path(team_namespace(company.nlp.display_path))
    group = admin.get(path)["spec"]["resourceGroups"]
    flavor = next(one for one in group[0]["flavors"] if one["name"] == f"{slug}-cores")
    cpu = next(one for one in flavor["resources"] if one["name"] == "cpu")
    assert cpu["nominalQuota"] == {"arbiter": "1P", "shared": "24"}[mode]
