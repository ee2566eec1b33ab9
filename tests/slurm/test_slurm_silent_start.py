"""Slurm falls silent before it acknowledges a start: the job runs elsewhere, and there never."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.api_callers import by_token
from builders.job_builders import a_body
from builders.portal_builders import a_cluster, a_grant
from clusters.models import Cluster
from conformance.rigs import SlurmRig
from jobs.models import Attempt, Job, JobEvent
from slurm.company_on_slurm import SCRIPT, CompanyOnSlurm, poll
from slurm.own_bed import own_bed
from slurm.portal_processes import portal_processes
from slurm_bed import SlurmBed
from tenants.roles import Role

__all__ = ["own_bed"]

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


@pytest.mark.parametrize("frozen", ["rest", "ctld"])
def test_a_job_placed_on_a_slurm_that_fell_silent_runs_elsewhere(
    frozen: str, rig: SlurmRig, tmp_path: Path
) -> None:
    """Against: it waited for 3 min 22 s beside hundreds of free GPUs; the thread that waits for
    Slurm took it back, after its time-out of 30 s. What Slurm was sent by then never runs there."""
    on_slurm = CompanyOnSlurm(rig)
    here = a_cluster("here", seen_at=None)
    here.options = {
        "root": str(tmp_path / "here"),
        "nodes": {"count": 1, "gpus": 8, "pool": "h100", "prefix": "node-"},
        "use_real_gpus": False,
        # What jobs write, tests look at.
        "isolation": "off",
    }
    here.save()
    bob = on_slurm.people[0]
    a_grant(bob, Role.RESEARCHER, on_slurm.company.nlp)
    caller = by_token(bob)
    go = tmp_path / "go"

    def submit(**values: object) -> Job:
        answer = caller.post("jobs", a_body(team="ai-company/research/nlp", gpus=8, **values))
        assert answer.status_code == 201
        return Job.objects.get(pk=answer.json()["id"])

    with portal_processes(tmp_path / "processes.log") as processes:
        for role in ("arbiter", "observer"):
            processes.start(role)
        assert poll(lambda: not Cluster.objects.filter(seen_at=None).exists(), within_s=30)
        blocker = submit(cluster="here", script=f"while ! [ -e {go} ]; do sleep 0.1; done")
        running = Job.objects.filter(state="running")
        assert poll(running.filter(pk=blocker.pk).exists, within_s=30)
        with rig.bed.frozen(frozen):
            job = submit(script=SCRIPT.format(proofs=on_slurm.proofs, seconds=0))
            attempts = Attempt.objects.filter(job=job)
            assert poll(attempts.exists, within_s=10, every_s=0.1)
            go.touch()
            done = Job.objects.filter(pk=job.pk, state="succeeded")
            assert poll(done.exists, within_s=60, every_s=0.1)
        first, second = attempts.order_by("number")

        def is_gone() -> bool:
            listed = rig.bed.run(["squeue", "-h", "-t", "all", "-o", "%j %T"]).splitlines()
            mine = [line for line in listed if line.startswith(first.key)]
            return all(line.endswith("CANCELLED") for line in mine)

        # Slurm answers again, and nothing is left there of what it was sent.
        seen = Cluster.objects.filter(name="local", failing_since=None, seen_at__gt=second.ended_at)
        assert poll(seen.exists, within_s=60)
        assert poll(is_gone, within_s=60)
        runs = [run for run in on_slurm.accounting() if run.key == first.key]
    print({"frozen": frozen, "late submissions": [run.state for run in runs]})
    assert first.cluster.name == "local"
    assert (first.outcome, first.started_at) == ("not_started", None)
    assert first.message == (
        "local did not answer within 20 s, so the start was withdrawn. Nothing of it runs there."
    )
    assert second.cluster.name == "here"
    assert first.released_at is not None
    assert second.started_at is not None
    assert (first.released_at - first.granted_at).total_seconds() >= 20
    assert second.started_at >= first.released_at
    assert [run for run in runs if not run.state.startswith("CANCELLED")] == []
    # Its one run: without a number at Slurm, as its second attempt.
    ((number, _),) = map(str.split, (on_slurm.proofs / str(job.id)).read_text().splitlines())
    assert number == "2"
    events = JobEvent.objects.filter(job=job).order_by("pk")
    assert [event.detail for event in events if event.event == "withdrawn"] == [
        {"attempt": 1, "because": first.message}
    ]
