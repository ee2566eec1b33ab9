"""Jobs that ask for one rack, block or NVLink domain: what is refused, stored and handed on."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from arbiter.api.snapshot import NOWHERE, Domains, Level
from builders.job_builders import a_body
from builders.portal_builders import NOW, Company, a_company, an_actor
from clusters.queries import read_fleet
from jobs.arbitration.snapshots import load_snapshot
from jobs.errors import NeverFits
from jobs.models import Job
from jobs.submission.requests import read_job_request
from jobs.submission.submission import submit_job_here
from primitives.errors import InvalidRequest
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def company() -> Company:
    """Three nodes of 8 GPUs: two in rack r1 of block b, with infiniband one of them, and one of
    which nothing is known."""
    company = a_company(nodes=3)
    first, second, _ = company.cluster.nodes.order_by("name")
    for node, features in ((first, ["ib"]), (second, [])):
        node.domains, node.features = {"block": "b", "rack": "r1"}, features
        node.save()
    return company


@pytest.fixture
def bob(company: Company) -> Actor:
    return an_actor(company.nlp, Role.RESEARCHER, "bob")


def submit(actor: Actor, **changes: Any) -> Job:
    with transaction.atomic():
        return submit_job_here(read_job_request(a_body(**changes)), actor=actor, now=NOW)


def test_the_arbiter_is_told_where_nodes_stand_and_what_jobs_ask_for(bob: Actor) -> None:
    """Mutant: what is preferred was read as required."""
    rack = submit(bob, gpus=16, required_topology="rack")
    block = submit(bob, gpus=24, preferred_topology="block")
    assert (rack.required_topology, rack.preferred_topology) == ("rack", None)
    assert (block.required_topology, block.preferred_topology) == (None, "block")
    asked = {
        job.id: (job.required_topology, job.preferred_topology) for job in load_snapshot(NOW).queued
    }
    assert asked == {str(rack.pk): (Level.RACK, None), str(block.pk): (None, Level.BLOCK)}
    stand = [device.domains for device in read_fleet().devices]
    assert stand == [*[Domains("b", "r1")] * 2, NOWHERE]


@pytest.mark.parametrize(
    ("changes", "told", "together"),
    [
        (
            {"gpus": 24, "required_topology": "rack"},
            "24 GPUs of h100 can never run: it needs 3 nodes with 8 GPUs each in one rack, and none"
            " of the pool has more than 2.",
            2,
        ),
        (
            {"gpus": 16, "required_topology": "nvlink", "cluster": "local"},
            "16 GPUs of h100 can never run: it needs 2 nodes with 8 GPUs each in one NVLink domain,"
            " and no NVLink domain on local is known to have even one such node. If the"
            " clusters do not report NVLink domains, make it a preference or leave it out.",
            0,
        ),
        (
            {"gpus": 16, "required_topology": "node"},
            "16 GPUs of h100 can never run: it must have its 16 GPUs on one node, and no node of"
            " the pool is so large.",
            1,
        ),
    ],
)
def test_what_no_domain_can_ever_hold_is_refused(
    bob: Actor, changes: dict[str, Any], told: str, together: int
) -> None:
    """With the same wish as a preference it is accepted."""
    with pytest.raises(NeverFits) as refusal:
        submit(bob, **changes)
    assert refusal.value.detail == told
    assert [error.pointer for error in refusal.value.errors] == ["/required_topology"]
    assert refusal.value.data["numbers"]["nodes_in_one_domain"] == together
    wish = {**changes, "preferred_topology": changes["required_topology"]}
    del wish["required_topology"]
    assert submit(bob, **wish).state == "queued"


def test_only_nodes_with_the_features_count_in_a_rack(company: Company, bob: Actor) -> None:
    """Mutant: the places of all nodes were taken for those of the nodes that have the features."""
    company.cluster.nodes.filter(domains={}).update(features=["ib"])
    with pytest.raises(NeverFits, match=r"in one rack, and none of the pool has more than 1\.$"):
        submit(bob, gpus=16, features=["ib"], required_topology="rack")


def test_a_drained_node_stays_in_its_rack(company: Company, bob: Actor) -> None:
    company.cluster.nodes.filter(domains__rack="r1").update(is_schedulable=False)
    assert submit(bob, gpus=16, required_topology="rack").state == "queued"


@pytest.mark.parametrize(
    ("changes", "pointer", "told"),
    [
        (
            {"required_topology": "row"},
            "/required_topology",
            "must be one of node, nvlink, rack, block",
        ),
        ({"preferred_topology": 1}, "/preferred_topology", "must be a text"),
        (
            {"required_topology": "rack", "preferred_topology": "block"},
            "/preferred_topology",
            "is given beside required_topology; give one of the two",
        ),
    ],
)
def test_other_wishes_are_refused(changes: dict[str, Any], pointer: str, told: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        read_job_request(a_body(**changes))
    assert [(error.pointer, error.detail) for error in refusal.value.errors] == [(pointer, told)]


@pytest.mark.parametrize(
    ("changes", "constraint"),
    [
        (
            {"required_topology": "rack", "preferred_topology": "rack"},
            "job_requires_a_known_topology_or_prefers_one",
        ),
        ({"required_topology": "row"}, "job_requires_a_known_topology_or_prefers_one"),
        ({"preferred_topology": "row"}, "job_prefers_a_known_topology"),
    ],
)
def test_the_database_keeps_other_wishes_out(
    bob: Actor, changes: dict[str, str], constraint: str
) -> None:
    job = submit(bob)
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        Job.objects.filter(pk=job.pk).update(**changes)
