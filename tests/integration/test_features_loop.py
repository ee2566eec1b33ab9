"""Features of nodes from the options of a cluster to the processes that run on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.loop_builders import LoopOn, a_job
from builders.portal_builders import Company, a_company, a_user
from jobs.models import Attempt, Job
from outbox.models import Message
from tenants.models import User

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def company() -> Company:
    company = a_company(nodes=4)
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


@pytest.fixture
def loop(company: Company, tmp_path: Path) -> LoopOn:
    """On two plain nodes, and two with features."""
    company.cluster.options = {
        "root": str(tmp_path / "cluster"),
        "nodes": [
            {"count": 2, "gpus": 8, "pool": "h100", "prefix": "plain-"},
            {"count": 1, "gpus": 8, "pool": "h100", "prefix": "ib-", "features": ["ib"]},
            {"count": 1, "gpus": 8, "pool": "h100", "prefix": "both-", "features": ["ib", "gold"]},
        ],
        "use_real_gpus": False,
        # What jobs write, tests look at.
        "isolation": "off",
    }
    return LoopOn(company.cluster)


def nodes_of(job: Job) -> list[str]:
    return [slot["node"] for slot in Attempt.objects.get(job=job).slots]


def test_jobs_run_where_their_features_are(loop: LoopOn, company: Company, bob: User) -> None:
    gold = a_job(company.inference, bob, company.pool, gpus=8, features=["gold", "ib"])
    any_ib = a_job(company.inference, bob, company.pool, gpus=8, features=["ib"])
    plain = a_job(company.nlp, bob, company.pool, gpus=8)
    for job in (gold, any_ib, plain):
        loop.until(job, "succeeded", "failed")
        assert job.state == "succeeded"
    assert nodes_of(gold) == ["both-001"]
    assert nodes_of(any_ib) in (["both-001"], ["ib-001"])
    assert len(nodes_of(plain)) == 1


def test_what_no_node_has_is_never_sent(loop: LoopOn, company: Company, bob: User) -> None:
    job = a_job(company.nlp, bob, company.pool, features=["silver"])
    pictured = a_job(company.nlp, bob, company.pool, image="x:1")
    for _ in range(2):
        loop.turn()
    told = {one.pk: one.explanation for one in Job.objects.all()}
    assert told[job.pk]["sentence"] == (
        "This job will never start as it is: no node of pool h100 has the feature silver."
    )
    assert told[job.pk]["numbers"]["nodes_with_features"] == 0
    assert (told[pictured.pk]["code"], told[pictured.pk]["sentence"]) == (
        "cluster_unavailable",
        "No cluster with such GPUs that runs container images and on which you have a user "
        "accepts jobs now.",
    )
    assert not Message.objects.filter(kind="start_attempt").exists()


def test_a_node_that_gets_the_feature_takes_the_job(
    loop: LoopOn, company: Company, bob: User
) -> None:
    job = a_job(company.nlp, bob, company.pool, features=["silver"])
    loop.turn()
    assert Job.objects.get(pk=job.pk).state == "queued"
    loop.cluster.options["nodes"][0]["features"] = ["silver"]
    loop.cluster.save(update_fields=["options"])
    loop.until(job, "succeeded", "failed")
    assert nodes_of(job) == ["plain-001"]
