"""Where a job may run at all."""

from __future__ import annotations

import pytest

from builders.portal_builders import NOW, a_cluster, a_pool, a_team, a_user, an_organization
from clusters.models import Cluster, Pool
from connectors.kubernetes.quotas.wanted_objects import team_subject
from jobs.submission.usable_clusters import UsableClusters
from quotas.models import AcceptedDifference, ClusterUser, QuotaPush
from tenants.models import Node, User

pytestmark = pytest.mark.django_db


def usable(
    user: User,
    *,
    mgpu_per_node: int = 1000,
    time_limit_s: int | None = None,
    pinned: Cluster | None = None,
    image: str | None = None,
    pool: Pool | None = None,
    team: Node | None = None,
) -> set[str] | None:
    found = UsableClusters().of(
        team="" if team is None else str(team.pk),
        user=str(user.pk),
        pool="" if pool is None else str(pool.pk),
        mgpu_per_node=mgpu_per_node,
        time_limit_s=time_limit_s,
        pinned=None if pinned is None else str(pinned.pk),
        image=image,
    )
    names = {str(cluster.pk): cluster.name for cluster in Cluster.objects.all()}
    return None if found is None else {names[cluster] for cluster in found}


def test_without_clusters_that_have_users_everybody_may_run_everywhere() -> None:
    local, user = a_cluster(), a_user(an_organization())
    assert usable(user) is None
    assert usable(user, pinned=local) == {"local"}


def test_a_user_runs_where_they_are_mapped() -> None:
    a_cluster()
    hpc, other = a_cluster("hpc", kind="slurm"), a_cluster("hpc2", kind="slurm")
    user, stranger = a_user(an_organization()), a_user(an_organization())
    ClusterUser.objects.create(cluster=hpc, user=user, name="ana")
    assert usable(user) == {"local", "hpc"}
    assert usable(stranger) == {"local"}
    assert usable(user, pinned=hpc) == {"hpc"}
    assert usable(user, pinned=other) == set()
    ClusterUser.objects.create(cluster=other, user=user, name="ana")
    assert usable(user) is None


def test_parts_of_gpus_run_where_gpus_are_cut() -> None:
    """Planted: GPUs of another pool of the cluster are shared; none of it says so."""
    local, hpc = a_cluster(), a_cluster("hpc", kind="slurm")
    user, h100, l4 = a_user(an_organization()), a_pool("h100"), a_pool("l4")
    ClusterUser.objects.create(cluster=hpc, user=user, name="ana")
    assert usable(user, pool=h100, mgpu_per_node=500) == set()
    assert usable(user, pool=h100, mgpu_per_node=2000) is None
    local.options = {"nodes": [{"count": 1}, {"count": 1, "pool": "l4", "shared": True}]}
    local.save()
    assert usable(user, pool=h100, mgpu_per_node=500) == set()
    assert usable(user, pool=l4, mgpu_per_node=500) == {"local"}
    assert usable(user, pool=l4, mgpu_per_node=500, pinned=hpc) == set()
    assert usable(user, pool=l4, mgpu_per_node=1000) is None


def test_a_job_runs_where_it_may_take_its_time() -> None:
    """Planted: it was sent to a partition that allows less, and failed there or waited for ever."""
    local, other = a_cluster(), a_cluster("other")
    local.time_limits = {"h100": 3600, "a100": 60}
    local.save()
    user, h100 = a_user(an_organization()), a_pool("h100")
    assert usable(user, pool=h100, time_limit_s=3600) is None
    assert usable(user, pool=h100, time_limit_s=3601) == {"other"}
    assert usable(user, pool=h100) is None
    assert usable(user, pool=h100, time_limit_s=3601, pinned=local) == set()
    assert usable(user, pool=h100, time_limit_s=3601, pinned=other) == {"other"}
    assert usable(user, pool=a_pool("v100"), time_limit_s=3601) is None
    assert usable(user, pool=a_pool("a100"), time_limit_s=3600) == {"other"}


def test_an_image_runs_where_images_are_run() -> None:
    """Also where the user is not known: then nowhere."""
    a_cluster()
    hpc, other = a_cluster("hpc", kind="slurm"), a_cluster("hpc2", kind="slurm")
    user = a_user(an_organization())
    ClusterUser.objects.create(cluster=other, user=user, name="ana")
    assert usable(user, image="docker.io/pytorch/pytorch:2.4") == set()
    other.options = {"containers": "pyxis"}
    other.save()
    assert usable(user, image="docker.io/pytorch/pytorch:2.4") == {"hpc2"}
    assert usable(user, image="docker.io/pytorch/pytorch:2.4", pinned=hpc) == set()
    assert usable(user) == {"local", "hpc2"}


def test_no_image_runs_on_this_machine() -> None:
    local = a_cluster()
    local.options = {"containers": "pyxis"}
    local.save()
    assert usable(a_user(an_organization()), image="docker.io/pytorch/pytorch:2.4") == set()


KUBERNETES = {
    "in_cluster": True,
    "allowed_registries": ["docker.io/pytorch"],
    "pools": {
        "h100": {"image": "ghcr.io/acme/base:1"},
        "slices": {"resource": "nvidia.com/mig-1g.10gb", "mgpu_per_unit": 125},
    },
}


def test_kubernetes_runs_what_its_policy_allows_and_its_pool_has() -> None:
    a_cluster()
    kube = a_cluster("kube", kind="kubernetes")
    kube.options = KUBERNETES
    kube.save()
    user = a_user(an_organization())
    h100, slices = a_pool("h100"), a_pool("slices")
    assert usable(user, pool=h100) is None
    assert usable(user, pool=h100, image="pytorch/pytorch:2.4") == {"kube"}
    assert usable(user, pool=h100, image="pytorch/vision:2.4") == {"kube"}
    assert usable(user, pool=h100, image="quay.io/pytorch/pytorch:2.4") == set()
    assert usable(user, pool=slices) == {"local"}, "a job that names no image has none there"
    assert usable(user, pool=slices, image="pytorch/pytorch:2.4") == {"kube"}


def test_kubernetes_gives_out_what_its_pools_are_made_of() -> None:
    a_cluster()
    kube = a_cluster("kube", kind="kubernetes")
    kube.options = KUBERNETES
    kube.save()
    user = a_user(an_organization())
    h100, slices = a_pool("h100"), a_pool("slices")
    image = "pytorch/pytorch:2.4"
    assert usable(user, pool=h100, mgpu_per_node=1500) == set()
    assert usable(user, pool=h100, mgpu_per_node=2000) is None
    assert usable(user, pool=slices, mgpu_per_node=250, image=image) == {"kube"}
    assert usable(user, pool=slices, mgpu_per_node=300, image=image) == set()


def test_a_native_runs_as_its_cluster_took_it() -> None:
    """Planted: it was asked for whole devices and for an image, as what is submitted here is, and
    waited for ever."""
    a_cluster()
    kube = a_cluster("kube", kind="kubernetes")
    kube.options = {
        "in_cluster": True,
        "pools": {
            "h100": {"node_selector": {"example.com/pool": "h100"}},
            "v100": {"node_selector": {"example.com/pool": "v100"}, "image": "any"},
        },
    }
    kube.save()
    user = a_user(an_organization())

    def runs(pool: Pool, mgpu_per_node: int, *, is_native: bool) -> bool:
        found = rules.of(
            team="",
            user=str(user.pk),
            pool=str(pool.pk),
            mgpu_per_node=mgpu_per_node,
            time_limit_s=None,
            pinned=str(kube.pk),
            image=None,
            is_native=is_native,
        )
        return found == {str(kube.pk)}

    pools = a_pool("h100"), a_pool("v100")
    rules = UsableClusters()
    asked = [(pool, mgpu) for pool in pools for mgpu in (1500, 1000)]
    assert [runs(*each, is_native=True) for each in asked] == [True] * 4
    assert [runs(*each, is_native=False) for each in asked] == [False, False, False, True]


def compared(cluster: Cluster, kind: str, status: str, *changes: tuple[Node, str]) -> None:
    """What became of a comparison: of these teams' namespaces."""
    waiting = status == "waiting"
    QuotaPush.objects.create(
        cluster=cluster,
        kind=kind,
        status=status,
        requested_at=NOW,
        done_at=None if waiting else NOW,
        changes=[
            {
                "kind": "create",
                "subject": team_subject(team.display_path),
                "after": {} if result == "waits for its owner" else {"team": "x"},
                "result": result,
            }
            for team, result in changes
        ],
        change_count=len(changes),
    )


def test_a_team_runs_where_it_is_set_up() -> None:
    """Planted: it was offered a cluster without its namespace, which refused it again and again
    until it was held; and a plan said that it would start there."""
    a_cluster()
    kube = a_cluster("kube", kind="kubernetes")
    kube.options = KUBERNETES
    kube.save()
    organization = an_organization()
    user, h100 = a_user(organization), a_pool("h100")
    nlp, vision = (a_team(organization, name) for name in ("nlp", "vision"))

    def runs(team: Node) -> set[str] | None:
        return usable(user, team=team, pool=h100)

    assert runs(nlp) is None
    compared(kube, "check", "done", (nlp, "planned"), (vision, "waits"))
    assert (runs(nlp), runs(vision)) == ({"local"}, {"local"})
    assert usable(user, team=nlp, pool=h100, pinned=kube) == set()
    compared(kube, "push", "waiting", (nlp, "done"))
    compared(kube, "push", "failed")
    compared(kube, "accept", "done")
    assert runs(nlp) == {"local"}
    compared(kube, "push", "failed", (nlp, "done"), (vision, "not tried"))
    assert (runs(nlp), runs(vision)) == (None, {"local"})
    # The namespace is there, and of another entry for the same cluster.
    compared(kube, "check", "done", (vision, "waits for its owner"))
    assert runs(vision) is None
    compared(kube, "check", "done")
    assert (runs(nlp), runs(vision)) == (None, None)
    let_stand = QuotaPush.objects.latest("pk")
    AcceptedDifference.objects.create(
        cluster=kube,
        subject=team_subject(nlp.display_path),
        setting="*",
        before={},
        after={"team": "x"},
        push=let_stand,
    )
    assert (runs(nlp), runs(vision)) == ({"local"}, None)
