"""Racks from the options of a cluster to the processes of a gang that is in one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.loop_builders import LoopOn, a_job
from builders.portal_builders import a_company, a_user
from jobs.models import Attempt, Job

pytestmark = pytest.mark.django_db(transaction=True)


def nodes_of(job: Job) -> list[str]:
    return [slot["node"] for slot in Attempt.objects.get(job=job).slots]


def test_a_gang_runs_in_one_rack_and_another_waits_for_one(tmp_path: Path) -> None:
    """Two nodes that are not in one rack come first by name."""
    company = a_company(nodes=4)
    company.cluster.nodes.all().delete()
    company.cluster.options = {
        "root": str(tmp_path / "cluster"),
        "nodes": [
            {
                **{"count": count, "gpus": 8, "pool": "h100", "prefix": f"{rack}-"},
                "domains": {"block": "b", "rack": rack},
            }
            for rack, count in (("r1", 1), ("r2", 1), ("r3", 2))
        ],
        "use_real_gpus": False,
        # What jobs write, tests look at.
        "isolation": "off",
    }
    loop = LoopOn(company.cluster)
    bob = a_user(company.organization, "bob")
    wish = {"gpus": 8, "nodes": 2, "required_topology": "rack"}
    go = tmp_path / "go"
    until_told = f"while ! [ -e {go} ]; do sleep 0.02; done"
    first = a_job(company.inference, bob, company.pool, **wish, script=until_told)
    second = a_job(company.inference, bob, company.pool, **wish)
    loop.until(first, "running")
    assert nodes_of(first) == ["r3-001", "r3-002"]
    second.refresh_from_db()
    assert (second.state, second.explanation["code"]) == ("queued", "topology_fragmented")
    assert second.explanation["sentence"] == (
        "16 GPUs are free on one cluster, but scattered: it needs 2 nodes of one rack with 8 free"
        " each, and none has more than 1."
    )
    wide = a_job(company.inference, bob, company.pool, gpus=8, nodes=2, preferred_topology="rack")
    loop.until(wide, "succeeded", "failed")
    assert (wide.state, nodes_of(wide)) == ("succeeded", ["r1-001", "r2-001"])
    go.touch()
    loop.until(second, "succeeded", "failed")
    assert (second.state, nodes_of(second)) == ("succeeded", ["r3-001", "r3-002"])
