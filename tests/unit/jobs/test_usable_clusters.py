"""Where a job may run at all."""

from __future__ import annotations

import pytest

from builders.portal_builders import a_cluster, a_user, an_organization
from clusters.models import Cluster
from jobs.usable_clusters import UsableClusters
from quotas.models import ClusterUser
from tenants.models import User

pytestmark = pytest.mark.django_db


def usable(
    user: User,
    *,
    mgpu_per_node: int = 1000,
    pinned: Cluster | None = None,
    has_image: bool = False,
) -> set[str] | None:
    found = UsableClusters().of(
        user=str(user.pk),
        mgpu_per_node=mgpu_per_node,
        pinned=None if pinned is None else str(pinned.pk),
        has_image=has_image,
    )
    names = {str(cluster.pk): cluster.name for cluster in Cluster.objects.all()}
    return None if found is None else {names[cluster] for cluster in found}


def test_without_clusters_that_have_users_everybody_may_run_everywhere() -> None:
    local, user = a_cluster(), a_user(an_organization())
    assert usable(user) is None
    assert usable(user, mgpu_per_node=500) is None
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
    a_cluster()
    hpc = a_cluster("hpc", kind="slurm")
    user = a_user(an_organization())
    ClusterUser.objects.create(cluster=hpc, user=user, name="ana")
    assert usable(user, mgpu_per_node=1500) == {"local"}
    assert usable(user, mgpu_per_node=2000) is None


def test_an_image_runs_where_images_are_run() -> None:
    """Also where the user is not known: then nowhere."""
    a_cluster()
    hpc, other = a_cluster("hpc", kind="slurm"), a_cluster("hpc2", kind="slurm")
    user = a_user(an_organization())
    ClusterUser.objects.create(cluster=other, user=user, name="ana")
    assert usable(user, has_image=True) == set()
    other.options = {"containers": "pyxis"}
    other.save()
    assert usable(user, has_image=True) == {"hpc2"}
    assert usable(user, has_image=True, pinned=hpc) == set()
    assert usable(user) == {"local", "hpc2"}


def test_no_image_runs_on_this_machine() -> None:
    local = a_cluster()
    local.options = {"containers": "pyxis"}
    local.save()
    assert usable(a_user(an_organization()), has_image=True) == set()
