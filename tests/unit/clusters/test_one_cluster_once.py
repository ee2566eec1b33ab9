"""A cluster is watched under one name only: under two, all of it would be offered and paid twice.

Planted and seen to die: no refusal; the address compared as it was written; a disabled cluster in
the way for ever; one that was disabled enabled beside its successor; no look at the nodes.
"""

from __future__ import annotations

from typing import Any

import pytest
from uuid_utils.compat import uuid7

from builders.loop_builders import a_job
from builders.portal_builders import NOW, a_cluster, a_company, a_user
from clusters.models import Cluster
from clusters.observation import record_inventory
from clusters.registration import Administrator, add_cluster, change_cluster
from connectors.protocol import Inventory, NodeCapacity
from jobs.models import Attempt
from primitives.errors import Conflict

pytestmark = pytest.mark.django_db

ADMIN = Administrator(uuid7(), "admin")
OPTIONS: dict[str, Any] = {
    "url": "http://localhost:6820",
    "service_user": "tidegate",
    "token_socket": "/run/tidegate/minter",
    "tag_secret": "0123456789abcdef0123456789abcdef",
    "pools": {"h100": {"partition": "h100", "gres_type": "h100"}},
}
SENTENCE = (
    "hpc is the cluster at http://localhost:6820 already. Change that one; under two names "
    "everything on it would be offered and charged twice."
)


@pytest.fixture(autouse=True)
def trusted(settings: Any) -> None:
    settings.SLURM_ORIGINS = frozenset({"http://localhost:*"})
    settings.SLURM_MINTERS = frozenset({"/run/tidegate/minter"})


def added(name: str, **options: Any) -> Cluster:
    return add_cluster(name, "slurm", {**OPTIONS, **options}, by=ADMIN, now=NOW)


def set_enabled(cluster: Cluster, is_enabled: bool) -> Cluster:
    return change_cluster(cluster, is_enabled=is_enabled, by=ADMIN, now=NOW)


@pytest.mark.parametrize("url", ["http://localhost:6820", "HTTP://LocalHost:6820/"])
def test_an_address_is_one_cluster(url: str) -> None:
    added("hpc")
    with pytest.raises(Conflict) as caught:
        added("again", url=url)
    assert caught.value.detail == SENTENCE
    other = added("lab", url="http://localhost:6821")
    with pytest.raises(Conflict):
        change_cluster(other, options=OPTIONS, by=ADMIN, now=NOW)
    other.refresh_from_db()
    assert other.options["url"] == "http://localhost:6821"


def test_a_disabled_one_is_in_nobody_s_way_once_it_is_empty() -> None:
    company = a_company()
    first = set_enabled(added("hpc"), False)
    attempt = Attempt.objects.create(
        job=a_job(company.nlp, a_user(company.organization, "bob"), company.pool, now=NOW),
        number=1,
        cluster=first,
        slots=[],
        mgpu=1000,
        guaranteed_mgpu=0,
        state="running",
        epoch=1,
        granted_at=NOW,
    )
    with pytest.raises(Conflict):
        added("again")
    Attempt.objects.filter(pk=attempt.pk).update(
        state="ended", ended_at=NOW, released_at=NOW, outcome="failed"
    )
    second = added("again")
    with pytest.raises(Conflict):
        set_enabled(first, True)
    set_enabled(second, False)
    assert set_enabled(first, True).is_enabled


def test_what_looks_like_another_by_another_address_says_so() -> None:
    company = a_company()
    for name, node in (("one", "h001"), ("two", "h001"), ("three", "x1")):
        cluster = a_cluster(name, kind="slurm")
        nodes = (NodeCapacity(node, company.pool.name, 8000, True, "idle"),)
        told = Inventory(int(NOW.timestamp()), nodes, identity={"cluster": "linux"})
        record_inventory(cluster, told, now=NOW)
    assert list(
        Cluster.objects.filter(kind="slurm").order_by("id").values_list("name", "message")
    ) == [
        ("one", ""),
        (
            "two",
            "It has the name linux and nodes of one: if they are one cluster, everything on it is "
            "offered and charged twice, so disable one of them.",
        ),
        ("three", ""),
    ]
