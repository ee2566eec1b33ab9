"""Slurm does not answer for a while: everything else goes on, and all is made up for later."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.api_callers import by_token
from builders.job_builders import a_body
from builders.portal_builders import a_cluster, a_grant
from clusters.models import Cluster
from conformance.rigs import SlurmRig
from jobs.models import Attempt, Job
from slurm.company_on_slurm import FINAL, SCRIPT, CompanyOnSlurm, poll
from slurm.own_bed import own_bed
from slurm.portal_processes import portal_processes
from slurm_bed import SlurmBed
from tenants.roles import Role

__all__ = ["own_bed"]

AWAY_S = 25
BACK_WITHIN_S = 60

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slurm,
    pytest.mark.timeout(400),
]


@pytest.fixture
def rig(own_bed: SlurmBed) -> Iterator[SlurmRig]:
    opened = SlurmRig(own_bed, settle_s=7)
    yield opened
    own_bed.start("ctld", "rest")
    opened.close()


@pytest.mark.parametrize("how", ["the controller is stopped", "the REST server hangs"])
def test_a_cluster_that_is_away_is_made_up_for(how: str, rig: SlurmRig, tmp_path: Path) -> None:
    """Jobs are accepted, the other cluster is as fast as ever, and nothing runs twice."""
    on_slurm = CompanyOnSlurm(rig)
    away = rig.bed.without("ctld") if "controller" in how else rig.bed.frozen("rest")
    here = a_cluster("here", seen_at=None)
    here.options = {
        "root": str(tmp_path / "here"),
        "nodes": {"count": 4, "gpus": 8, "pool": "h100", "prefix": "node-"},
        "use_real_gpus": False,
        # What jobs write, tests look at.
        "isolation": "off",
    }
    here.save()
    bob = on_slurm.people[0]
    a_grant(bob, Role.RESEARCHER, on_slurm.company.nlp)
    caller = by_token(bob)

    def submit(cluster: str, count: int) -> list[Job]:
        bodies = [
            a_body(
                team="ai-company/research/nlp",
                cluster=cluster,
                script=SCRIPT.format(proofs=on_slurm.proofs, seconds=0),
            )
            for _ in range(count)
        ]
        answers = [caller.post("jobs", body) for body in bodies]
        assert {answer.status_code for answer in answers} == {201}
        return list(Job.objects.filter(pk__in=[answer.json()["id"] for answer in answers]))

    def took_s(jobs: list[Job], within_s: float) -> float:
        began = time.monotonic()
        left = Job.objects.filter(pk__in=[job.pk for job in jobs]).exclude(state__in=FINAL)
        assert poll(lambda: not left.exists(), within_s=within_s, every_s=0.1)
        return time.monotonic() - began

    with portal_processes(tmp_path / "processes.log") as processes:
        for role in ("arbiter", "observer"):
            processes.start(role)
        assert poll(lambda: not Cluster.objects.filter(seen_at=None).exists(), within_s=30)
        everything = submit("local", 2) + submit("here", 2)
        took_s(everything, 60)
        with away:
            began = time.monotonic()
            waiting = submit("local", 10)
            told = [took_s(batch, BACK_WITHIN_S) for batch in (submit("here", 3) for _ in range(5))]
            everything += waiting + list(Job.objects.filter(cluster=here))
            time.sleep(max(0.0, AWAY_S - (time.monotonic() - began)))
            assert not any(on_slurm.proofs_of(job) for job in waiting)
        back_s = took_s(waiting, BACK_WITHIN_S)
    print({"here_s": told, "all_done_after_the_return_s": back_s})
    assert set(Job.objects.values_list("state", "attempt_number")) == {("succeeded", 1)}
    assert Attempt.objects.count() == Job.objects.count() == 2 + 2 + 10 + 15
    for job in Job.objects.filter(cluster__name="local"):
        assert len(on_slurm.proofs_of(job)) == 1
    for job in Job.objects.filter(cluster=here):
        # Its one run, the first attempt, and when it began.
        ((attempt, _),) = map(str.split, (on_slurm.proofs / str(job.id)).read_text().splitlines())
        assert attempt == "1"
