"""What makes another cluster of a cluster is not changed while something of ours is on it.

Planted and seen to die: no refusal; a refusal after all has ended; the identity kept; any option
refused; a later inventory that changes the identity; an answer to earlier options taken, of the
nodes and of what runs beside the portal.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from uuid_utils.compat import uuid7

from builders.loop_builders import a_job
from builders.portal_builders import NOW, Company, a_company, a_user
from clusters.models import Cluster
from clusters.observation import record_inventory
from clusters.outside import OutsideUse, record_outside_use
from clusters.registration import Administrator, change_cluster
from connectors.errors import ClusterUnavailable
from connectors.protocol import Inventory, NodeCapacity
from jobs.execution.connecting import connector_of
from jobs.models import Attempt
from primitives.errors import Conflict

pytestmark = pytest.mark.django_db

ADMIN = Administrator(uuid7(), "admin")
T0 = int(NOW.timestamp())
OPTIONS: dict[str, Any] = {
    "url": "http://127.0.0.1:6820",
    "service_user": "tidegate",
    "token_socket": "/run/tidegate/minter",
    "tag_secret": "0123456789abcdef0123456789abcdef",
    "pools": {"h100": {"partition": "h100", "gres_type": "h100"}},
}


@pytest.fixture
def company() -> Company:
    company = a_company()
    Cluster.objects.filter(pk=company.cluster.pk).update(
        kind="slurm", options=OPTIONS, identity={"cluster": "hpc"}
    )
    company.cluster.refresh_from_db()
    return company


@pytest.fixture
def attempt(company: Company) -> Attempt:
    user = a_user(company.organization, "bob")
    return Attempt.objects.create(
        job=a_job(company.nlp, user, company.pool, now=NOW),
        number=1,
        cluster=company.cluster,
        slots=[],
        mgpu=1000,
        guaranteed_mgpu=0,
        state="running",
        epoch=1,
        granted_at=NOW,
    )


def change(company: Company, **options: Any) -> Cluster:
    return change_cluster(company.cluster, options={**OPTIONS, **options}, by=ADMIN, now=NOW)


@pytest.mark.parametrize(
    "changed",
    [{"url": "http://127.0.0.1:6821"}, {"tag_secret": "f" * 32}, {"cluster_name": "lab"}],
)
def test_it_waits_until_nothing_is_on_it(
    company: Company, attempt: Attempt, changed: dict[str, Any]
) -> None:
    with pytest.raises(Conflict) as caught:
        change(company, **changed)
    assert str(caught.value) == (
        f"1 attempts are open on local, and with another {next(iter(changed))} they would be taken "
        "for lost. Disable the cluster, wait until they have ended or cancel their jobs, and "
        "change it then; if only its address moves, let the old address lead to the new one."
    )
    company.cluster.refresh_from_db()
    assert (company.cluster.options, company.cluster.identity) == (OPTIONS, {"cluster": "hpc"})
    Attempt.objects.update(state="ended", ended_at=NOW, released_at=NOW)
    kept = change(company, **changed)
    assert (kept.options, kept.identity) == ({**OPTIONS, **changed}, {})


def test_other_options_may_change_at_any_time(company: Company, attempt: Attempt) -> None:
    kept = change(company, settle_s=0)
    assert kept.options["settle_s"] == 0
    assert kept.identity == {"cluster": "hpc"}


def test_what_it_told_first_stays(company: Company) -> None:
    Cluster.objects.update(identity={})
    for after_s, name in enumerate(("hpc", "lab")):
        record_inventory(
            company.cluster,
            Inventory(T0 + after_s, (), identity={"cluster": name}),
            now=NOW + timedelta(seconds=after_s),
        )
    company.cluster.refresh_from_db()
    assert company.cluster.identity == {"cluster": "hpc"}


def test_an_answer_to_earlier_options_is_dropped(company: Company) -> None:
    """It was asked for before the change, and comes after it."""
    asked_with = Cluster.objects.get(pk=company.cluster.pk)
    change(company, url="http://127.0.0.1:6821", tag_secret="f" * 32)
    answer = Inventory(
        T0, (NodeCapacity("old-1", "h100", 8_000, True, "idle"),), identity={"cluster": "hpc"}
    )
    use = OutsideUse(T0, pending=3)

    assert not record_inventory(asked_with, answer, now=NOW)
    assert not record_outside_use(asked_with, use)

    kept = Cluster.objects.get(pk=company.cluster.pk)
    assert (kept.identity, kept.observed_at, kept.outside) == (
        {},
        asked_with.observed_at,
        asked_with.outside,
    )
    assert not kept.nodes.filter(name="old-1").exists()

    assert record_inventory(kept, replace(answer, identity={"cluster": "new"}), now=NOW)
    assert record_outside_use(kept, use)

    kept.refresh_from_db()
    assert (kept.identity, kept.outside["pending"]) == ({"cluster": "new"}, 3)
    assert kept.nodes.filter(name="old-1").exists()


def test_a_cluster_is_opened_as_what_it_told(company: Company) -> None:
    company.cluster.identity = {"tags": "another"}
    with pytest.raises(ClusterUnavailable, match="the tag secret is not the one with which"):
        connector_of(company.cluster)
