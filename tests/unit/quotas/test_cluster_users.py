"""Who is called what on a cluster with users of its own."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import Caller, by_token
from builders.portal_builders import NOW, a_cluster, a_user, an_actor, an_organization
from clusters.models import Cluster
from quotas.cluster_users import names_on, users_by_name
from quotas.models import ClusterUser
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db


def hpc() -> Cluster:
    return a_cluster("hpc", kind="slurm", seen_at=NOW)


def platform() -> Caller:
    return by_token(an_actor(None, Role.PLATFORM_ADMIN).user)


def ana() -> User:
    return a_user(an_organization("ai-company"), "ana")


def test_a_user_is_mapped_listed_and_unmapped() -> None:
    cluster, user, admin = hpc(), ana(), platform()
    other = a_user(user.organization, "leo")
    answer = admin.put(f"clusters/{cluster.pk}/users", {"user": user.login, "name": "ana"})
    assert answer.status_code == 200
    mapped = ClusterUser.objects.get()
    assert answer.json() == {"id": str(mapped.pk), "user": "ana@ai-company", "name": "ana"}
    assert admin.get(f"clusters/{cluster.pk}/users").json()["items"] == [answer.json()]
    assert names_on(cluster, [user.pk, other.pk]) == {user.pk: "ana"}
    assert users_by_name(cluster) == {"ana": user.pk}
    assert admin.delete(f"clusters/{cluster.pk}/users/{mapped.pk}").status_code == 204
    assert users_by_name(cluster) == {}
    assert [
        (event.action, event.detail)
        for event in AuditEvent.objects.filter(action__startswith="cluster_user").order_by("id")
    ] == [
        (action, {"cluster": "hpc", "user": "ana@ai-company", "name": "ana"})
        for action in ("cluster_user.mapped", "cluster_user.unmapped")
    ]


def test_mapping_again_replaces_the_name() -> None:
    cluster, user, admin = hpc(), ana(), platform()
    for name in ("ana", "ana", "amuster"):
        admin.put(f"clusters/{cluster.pk}/users", {"user": user.login, "name": name})
    assert users_by_name(cluster) == {"amuster": user.pk}


def test_a_name_is_of_one_user_on_a_cluster() -> None:
    cluster, user, admin = hpc(), ana(), platform()
    stranger = a_user(an_organization("rival-lab"), "ana")
    admin.put(f"clusters/{cluster.pk}/users", {"user": user.login, "name": "ana"})
    answer = admin.put(f"clusters/{cluster.pk}/users", {"user": stranger.login, "name": "ana"})
    assert answer.status_code == 409
    assert answer.json()["detail"] == (
        "ana on hpc is mapped to another user. Remove that mapping first."
    )
    second = a_cluster("hpc2", kind="slurm")
    answer = admin.put(f"clusters/{second.pk}/users", {"user": stranger.login, "name": "ana"})
    assert answer.status_code == 200
    assert users_by_name(cluster) == {"ana": user.pk}


@pytest.mark.parametrize(
    "name",
    [
        "root",
        "slurm",
        "nobody",
        "",
        "Ana",
        "1ana",
        "-rf",
        "a b",
        "ana\n",
        "\u00e4",
        "a" * 33,
        "a$(id)",
    ],
)
def test_a_name_that_is_no_person_is_refused(name: str) -> None:
    cluster, user = hpc(), ana()
    answer = platform().put(f"clusters/{cluster.pk}/users", {"user": user.login, "name": name})
    assert answer.status_code == 400
    assert users_by_name(cluster) == {}


def test_nobody_is_the_user_as_whom_tidegate_acts() -> None:
    """It is an administrator of the cluster, and pushing quotas made it a member of a team."""
    cluster, user = hpc(), ana()
    Cluster.objects.update(options={"service_user": "tidegate"})
    answer = platform().put(
        f"clusters/{cluster.pk}/users", {"user": user.login, "name": "tidegate"}
    )
    assert answer.status_code == 400
    assert answer.json()["detail"] == (
        "tidegate is the user of Tidegate itself on hpc, so jobs cannot run as it. "
        "Give the person a UNIX user of their own."
    )
    assert users_by_name(cluster) == {}


def test_the_database_refuses_root_and_odd_names() -> None:
    cluster, user = hpc(), ana()
    for name in ("root", "a b", "ana\n"):
        with pytest.raises(IntegrityError), transaction.atomic():
            ClusterUser.objects.create(cluster=cluster, user=user, name=name)


def test_a_cluster_without_users_maps_nobody() -> None:
    cluster, user = a_cluster(), ana()
    answer = platform().put(f"clusters/{cluster.pk}/users", {"user": user.login, "name": "ana"})
    assert answer.status_code == 400
    assert "no users of its own" in answer.json()["detail"]


def test_a_mapping_of_another_cluster_is_not_found() -> None:
    cluster, user, admin = hpc(), ana(), platform()
    admin.put(f"clusters/{cluster.pk}/users", {"user": user.login, "name": "ana"})
    second = a_cluster("hpc2", kind="slurm")
    mapped = ClusterUser.objects.get()
    assert admin.delete(f"clusters/{second.pk}/users/{mapped.pk}").status_code == 404
    assert users_by_name(cluster) == {"ana": user.pk}
