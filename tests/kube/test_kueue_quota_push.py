"""The quota tree pushed to a real Kueue, what that holds, and what somebody changes by hand."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from builders.connector_builders import eventually
from builders.loop_builders import Fenced
from builders.portal_builders import (
    Company,
    a_cluster_node,
    a_company,
    a_pool,
    a_quota,
    a_user,
)
from clusters.registration import Administrator
from connectors.kubernetes.admission.admission_check import (
    CheckKeeper,
    vote_body,
    vote_of,
    workload_path,
)
from connectors.kubernetes.client.api import Conflict, KubeApi, NotFound
from connectors.kubernetes.connector import KubernetesConnector
from connectors.kubernetes.objects.naming import (
    CLUSTER,
    LOCAL_QUEUE,
    QUEUE_LABEL,
    cluster_label,
    team_namespace,
)
from connectors.kubernetes.objects.reading import is_true
from connectors.kubernetes.options.options import parse_options
from connectors.kubernetes.quotas.objects import KINDS, WIDE
from jobs.execution.dispatch import handlers
from kube_bed import KubeBed
from outbox.delivery import deliver_due
from primitives.clock import SystemClock
from quotas.models import AcceptedDifference, Quota, QuotaPush, QuotaPushKind, QuotaPushStatus
from quotas.pushes import push_shard, request_push, withdraw_acceptance
from tenants.models import Node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.kube]

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
#: Kueue takes a moment to see a queue; with the machine busy, several.
_PATIENCE_S = 90


@dataclass
class Pushing:
    """A small company whose tree is pushed to the bed by the portal's own account: research with 16
    GPUs, of which nlp and vision have 8 each, and production with 16, all of inference."""

    bed: KubeBed
    company: Company
    options: dict[str, Any]
    admin: KubeApi
    by: Administrator
    observer: Any
    connector: KubernetesConnector

    @property
    def flavor(self) -> str:
        return str(self.options["pools"]["h100"]["flavor"])

    @property
    def gpus(self) -> str:
        return f"{self.flavor} nvidia.com/gpu"

    def use_mode(self, mode: str) -> None:
        cluster = self.company.cluster
        cluster.options = self.options = {**self.options, "mode": mode}
        cluster.save()
        self.connector = a_connector(self.options, str(cluster.pk))

    def push(self, kind: str = "push", subjects: list[str] | None = None) -> QuotaPush:
        """One request, carried out."""
        clock = SystemClock().now
        push = request_push(
            self.company.cluster,
            QuotaPushKind(kind),
            subjects=subjects or [],
            by=self.by,
            now=clock(),
        )

        def is_done() -> bool:
            deliver_due(
                handlers(self.observer, clock, lambda cluster: self.connector),
                shard=push_shard(self.company.cluster.pk),
                clock=clock,
                fence=self.observer.fence,
            )
            push.refresh_from_db()
            return push.status != QuotaPushStatus.WAITING

        # A machine that is busy with ten servers may leave a call without an answer.
        eventually(is_done, deadline_s=_PATIENCE_S, told=lambda: push.error)
        return push

    def name(self, node: Node) -> str:
        return team_namespace(node.path.rstrip("/"))

    def queue(self, node: Node) -> dict[str, Any]:
        return self.admin.get(KINDS["cluster queue"].path(self.name(node)))

    def set_quota(self, node: Node, **limits: int | None) -> None:
        Quota.objects.filter(node=node).update(**limits)

    def start(self, node: Node, count: int, gpus: int) -> None:
        """Jobs of one Pod with `gpus` each in the team's queue, as the portal makes them: they wait
        for a vote."""
        namespace = self.name(node)
        for index in range(count):
            self.admin.create(
                f"/apis/batch/v1/namespaces/{namespace}/jobs",
                a_job_object(namespace, f"j{index}", gpus, self.bed),
            )

    def used(self, node: Node) -> int:
        """GPUs that Kueue counts as used by the queue."""
        usage = self.queue(node)["status"]["flavorsUsage"][0]["resources"][-1]
        return int(usage["total"])

    def workloads(self, node: Node) -> list[dict[str, Any]]:
        return self.admin.list(f"{KUEUE}/namespaces/{self.name(node)}/workloads").items

    def reserved(self, node: Node) -> int:
        return sum(is_true(one, "QuotaReserved") for one in self.workloads(node))

    def vote(self, node: Node) -> int:
        """Ready for every workload that waits for it; returns how many are admitted."""
        found = self.workloads(node)
        for one in found:
            if is_true(one, "QuotaReserved") and vote_of(one) == "Pending":
                body = vote_body(one, SystemClock().now())
                # Kueue may have changed it since: it is voted for at the next look then.
                with suppress(Conflict):
                    self.admin.apply(workload_path(one), body, force=True, subresource="status")
        return sum(is_true(one, "Admitted") for one in found)


def a_job_object(namespace: str, name: str, gpus: int, bed: KubeBed) -> dict[str, Any]:
    secure = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {QUEUE_LABEL: LOCAL_QUEUE},
        },
        "spec": {
            "suspend": True,
            "backoffLimit": 0,
            "template": {
                # Played, not run.
                "metadata": {"annotations": {"bed.tidegate.io/stop-seconds": "0"}},
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {bed.product_label: bed.product},
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": 1000,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [
                        {
                            "name": "main",
                            "image": "bed/none:1",
                            "securityContext": secure,
                            "resources": {
                                "requests": {"cpu": "1", "memory": "1Gi"},
                                "limits": {"nvidia.com/gpu": str(gpus)},
                            },
                        }
                    ],
                },
            },
        },
    }


def a_connector(options: dict[str, Any], cluster_id: str) -> KubernetesConnector:
    return KubernetesConnector(parse_options(options), cluster_id)


@pytest.fixture
def pushing(kube_bed: KubeBed) -> Iterator[Pushing]:
    slug = f"qp{secrets.token_hex(4)}"
    company = a_company(slug)
    root = a_user(None, "root")
    options: dict[str, Any] = {
        "kubeconfig": kube_bed.portal_kubeconfig,
        "pools": {
            "h100": {
                "flavor": f"h100-{slug}",
                "node_selector": {kube_bed.product_label: kube_bed.product},
                "image": "bed/none:1",
            }
        },
    }
    cluster = company.cluster
    cluster.kind, cluster.options = "kubernetes", options
    cluster.save()
    admin = KubeApi(kubeconfig=kube_bed.admin_kubeconfig)
    CheckKeeper(admin).keep()
    yield Pushing(
        *(kube_bed, company, options, admin, Administrator(root.pk, root.login)),
        *(Fenced("observer"), a_connector(options, str(cluster.pk))),
    )
    clean(kube_bed, admin, f"{CLUSTER}={cluster_label(str(cluster.pk))}")
    admin.close()


def clean(bed: KubeBed, admin: KubeApi, labels: str) -> None:
    """Take everything with these labels off the bed; workloads first, which queues wait for."""
    for found in admin.list("/api/v1/namespaces", labels=labels).items:
        bed.drop_namespace(found["metadata"]["name"])
    for thing in ("cluster queue", "cohort", "flavor"):
        kind = KINDS[thing]
        for found in admin.list(kind.collection, labels=labels).items:
            admin.delete(kind.path(found["metadata"]["name"]))


def told(push: QuotaPush) -> list[tuple[str, str]]:
    assert push.error == ""
    return [(change["kind"], change["subject"]) for change in push.changes]


def assert_done(push: QuotaPush) -> None:
    assert (push.error, results(push)) == ("", {"done"})


def results(push: QuotaPush) -> set[str]:
    return {change["result"] for change in push.changes}


def test_a_push_makes_the_cluster_as_the_tree_says(pushing: Pushing) -> None:
    """With the rights of the portal's account alone. A dry run tells it all before and changes
    nothing; a second push does nothing; what somebody changes by hand is found, overwritten, or
    accepted, and then neither shown nor overwritten; and what leaves the tree goes."""
    company = pushing.company
    pushing.use_mode("shared")
    pushing.set_quota(company.nlp, borrow_limit_mgpu=4_000, lend_limit_mgpu=2_000, weight=30)
    dry = pushing.push("dry_run")
    assert (results(dry), dry.change_count) == ({"planned"}, len(dry.changes))
    with pytest.raises(NotFound):
        pushing.queue(company.nlp)
    done = pushing.push()
    assert told(done) == told(dry)
    assert_done(done)
    flavors = pushing.queue(company.nlp)["spec"]["resourceGroups"][0]["flavors"]
    assert flavors[0]["resources"][-1] == {
        "name": "nvidia.com/gpu",
        "nominalQuota": "8",
        "borrowingLimit": "4",
        "lendingLimit": "2",
    }
    assert told(pushing.push()) == []
    eventually(
        lambda: is_true(pushing.queue(company.nlp), "Active"),
        deadline_s=_PATIENCE_S,
        told=lambda: pushing.queue(company.nlp)["status"],
    )

    nlp, vision = pushing.name(company.nlp), pushing.name(company.vision)
    for team in (nlp, vision):
        patch = {
            "spec": {"stopPolicy": "Hold"},
            "metadata": {"annotations": {"tidegate.io/path": "x"}},
        }
        pushing.admin.merge_patch(KINDS["cluster queue"].path(team), patch)
    drift = pushing.push("check")
    path = company.nlp.path.rstrip("/")
    assert sorted(told(drift)) == sorted(
        ("raise", f"cluster queue {pushing.name(team)} ({team.path.rstrip('/')})")
        for team in (company.nlp, company.vision)
    )
    assert drift.changes[0]["before"] == {"path": "x", "stop": "Hold"}
    assert told(pushing.push("accept", [f"cluster queue {nlp} ({path})"])) == [
        ("raise", f"cluster queue {nlp} ({path})")
    ]
    assert [subject for _, subject in told(pushing.push())] == [
        f"cluster queue {vision} ({company.vision.path.rstrip('/')})"
    ]
    assert pushing.queue(company.nlp)["spec"]["stopPolicy"] == "Hold"
    assert pushing.queue(company.vision)["spec"]["stopPolicy"] == "None"
    assert told(pushing.push("check")) == []

    Quota.objects.filter(node=company.vision).delete()
    company.vision.delete()
    gone = pushing.push()
    left = [change for change in gone.changes if change["kind"] == "delete"]
    assert [change["result"] for change in left] == ["done", "done", "done", "done", "waits"]
    assert left[-1]["note"].startswith("stays with all that is in it")
    pushing.admin.get(f"/api/v1/namespaces/{vision}")
    eventually(lambda: is_gone(pushing, "cluster queue", vision), deadline_s=_PATIENCE_S)


def test_quota_of_others_in_a_department_stays_where_it_was_let_stand(pushing: Pushing) -> None:
    """An administrator gives research's cohort 3 GPUs of a flavor of his own, and lets that stand:
    the push of another weight keeps them. When that is taken back, a push takes them away."""
    company, admin = pushing.company, pushing.admin
    pushing.use_mode("shared")
    assert_done(pushing.push())
    theirs = f"theirs-{company.organization.slug}"
    path = KINDS["cohort"].path(pushing.name(company.research))
    cell = {"name": "nvidia.com/gpu", "nominalQuota": "3", "borrowingLimit": "1"}
    group = {
        "coveredResources": ["nvidia.com/gpu"],
        "flavors": [{"name": theirs, "resources": [cell]}],
    }
    admin.merge_patch(path, {"spec": {"resourceGroups": [group]}})
    (change,) = pushing.push("check").changes
    assert (change["before"], change["after"]) == (
        {"other_quota": [f"{theirs} nvidia.com/gpu 3/1/-"]},
        {"other_quota": []},
    )
    pushing.push("accept", [change["subject"]])
    pushing.set_quota(company.research, weight=30)
    done = pushing.push()
    assert_done(done)
    assert told(done) == [("change", change["subject"])]
    spec = admin.get(path)["spec"]
    assert (spec["fairSharing"]["weight"], spec["resourceGroups"]) == ("30", [group])
    assert told(pushing.push("check")) == []
    withdraw_acceptance(
        company.cluster, AcceptedDifference.objects.get().pk, by=pushing.by, now=SystemClock().now()
    )
    assert told(pushing.push()) == [("lower", change["subject"])]
    assert "resourceGroups" not in admin.get(path)["spec"]


def test_a_pool_of_cores_comes_and_goes(pushing: Pushing) -> None:
    """Its flavor is made before any queue or department names it, and goes after all else."""
    company = pushing.company
    pushing.use_mode("shared")
    assert_done(pushing.push())
    before, flavor = pushing.options["pools"], f"cores-{company.organization.slug}"
    cores = a_pool("batch", device="cpu")
    a_cluster_node(company.cluster, cores, "cores-0", capacity_mgpu=24_000)
    for node in (company.organization, company.research, company.nlp):
        a_quota(node, cores, 24, borrow_gpus=8)
    own = {"device": "cpu", "flavor": flavor, "node_selector": {"example.com/pool": flavor}}
    pushing.options = {**pushing.options, "pools": {**before, cores.name: own}}
    pushing.use_mode("shared")
    come = pushing.push()
    assert_done(come)
    assert told(come)[0] == ("create", f"flavor {flavor}")
    assert told(pushing.push("check")) == []
    research = pushing.admin.get(KINDS["cohort"].path(pushing.name(company.research)))
    assert research["spec"]["resourceGroups"][0]["flavors"] == [
        {
            "name": flavor,
            "resources": [{"name": "cpu", "nominalQuota": "0", "borrowingLimit": "8"}],
        }
    ]
    pushing.options = {**pushing.options, "pools": before}
    pushing.use_mode("shared")
    gone = pushing.push()
    assert_done(gone)
    assert told(gone)[-1] == ("delete", f"flavor {flavor}")
    eventually(lambda: is_gone(pushing, "flavor", flavor), deadline_s=_PATIENCE_S)
    assert told(pushing.push("check")) == []


def is_gone(pushing: Pushing, thing: str, name: str) -> bool:
    try:
        pushing.admin.get(KINDS[thing].path(name))
    except NotFound:
        return True
    return False


def test_in_arbiter_mode_kueue_holds_nothing_back(pushing: Pushing) -> None:
    """A team that is guaranteed 8 GPUs, may borrow none, and is one of several on these nodes: 40
    workloads of 8 GPUs each, more than the cluster has, have quota at once, while none of them has
    a vote. Planted: a nominal quota of the team's guarantee; one of them has."""
    company = pushing.company
    pushing.set_quota(company.nlp, borrow_limit_mgpu=0)
    pushing.set_quota(company.vision, lend_limit_mgpu=0)
    assert_done(pushing.push())
    resources = pushing.queue(company.nlp)["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    assert resources[-1]["nominalQuota"] == "1P" == f"{WIDE // 10**15}P"
    pushing.start(company.nlp, 40, 8)
    eventually(
        lambda: pushing.reserved(company.nlp) == 40,
        deadline_s=_PATIENCE_S,
        told=lambda: pushing.reserved(company.nlp),
    )
    eventually(
        lambda: {vote_of(one) for one in pushing.workloads(company.nlp)} == {"Pending"},
        deadline_s=_PATIENCE_S,
    )
    # And nothing of it is taken from others.
    pushing.start(company.vision, 2, 8)
    eventually(lambda: pushing.reserved(company.vision) == 2, deadline_s=_PATIENCE_S)


@pytest.mark.parametrize(
    ("nlp", "vision", "admitted"),
    [
        pytest.param({"borrow_limit_mgpu": 4_000}, {}, 3, id="borrow limit of the team"),
        pytest.param({}, {"lend_limit_mgpu": 4_000}, 3, id="lend limit of the lender"),
        pytest.param({}, {"lend_limit_mgpu": 0}, 2, id="nothing is lent"),
        pytest.param({}, {}, 4, id="all is lent"),
    ],
)
def test_in_shared_mode_kueue_holds_the_tree_without_tidegate(
    pushing: Pushing, nlp: dict[str, int], vision: dict[str, int], admitted: int
) -> None:
    """With every vote given freely, nlp starts with its 8 GPUs and what it may borrow of vision's 8
    in workloads of 4, and not one more; production lends nothing."""
    company = pushing.company
    pushing.use_mode("shared")
    pushing.set_quota(company.production, lend_limit_mgpu=0)
    pushing.set_quota(company.nlp, **nlp)
    pushing.set_quota(company.vision, **vision)
    assert_done(pushing.push())
    pushing.start(company.nlp, 6, 4)
    eventually(
        lambda: pushing.vote(company.nlp) == admitted,
        deadline_s=_PATIENCE_S,
        told=lambda: pushing.queue(company.nlp)["status"],
    )
    # All others have been looked at, and wait.
    eventually(
        lambda: pushing.queue(company.nlp)["status"]["pendingWorkloads"] == 6 - admitted,
        deadline_s=_PATIENCE_S,
    )
    assert pushing.vote(company.nlp) == admitted
    # Kueue counts what it admitted a moment later.
    eventually(
        lambda: pushing.used(company.nlp) == 4 * admitted,
        deadline_s=_PATIENCE_S,
        told=lambda: pushing.used(company.nlp),
    )
