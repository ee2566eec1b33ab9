"""What `settle_s` 0 may lose: a controller that is killed forgets what it has just accepted.

Such jobs are held for a person, as `unknown`; none of them runs twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db.models import QuerySet

from conformance.rigs import SlurmRig
from jobs.models import Attempt, Job
from slurm.company_on_slurm import CompanyOnSlurm, poll, resume_nodes, unfinished
from slurm.own_bed import own_bed
from slurm.portal_processes import portal_processes
from slurm_bed import SlurmBed

__all__ = ["own_bed"]

ROUNDS = 2
JOBS_A_ROUND = 8
#: Long enough to be there when the controller dies.
SECONDS = 4

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slurm,
    pytest.mark.chaos,
    pytest.mark.timeout(400),
]


@pytest.fixture
def rig(own_bed: SlurmBed) -> Iterator[SlurmRig]:
    opened = SlurmRig(own_bed, settle_s=0)
    yield opened
    own_bed.start("ctld")
    opened.close()


def test_what_fast_mode_loses_is_held_and_never_runs_twice(rig: SlurmRig, tmp_path: Path) -> None:
    on_slurm = CompanyOnSlurm(rig)
    bed = rig.bed
    with portal_processes(tmp_path / "processes.log") as processes:
        processes.start("arbiter")
        processes.start("observer")
        for number in range(ROUNDS):
            jobs = [on_slurm.submit(one, seconds=SECONDS) for one in range(JOBS_A_ROUND)]
            released = Attempt.objects.filter(job__in=jobs).exclude(release_sent_at=None)
            assert poll(released.exists, within_s=30, every_s=0.05), number
            bed.kill9("ctld")
            bed.start("ctld")
            # Jobs whose end the controller forgot it learns of when their nodes register.
            if not poll(are_settled, within_s=30):
                bed.restart(*{node for one in Attempt.objects.all() for node in nodes_of(one)})
                resume_nodes(bed)
            assert poll(are_settled, within_s=60), unfinished(bed, unsettled())
    held = Attempt.objects.filter(job__state="held")
    print({"jobs": ROUNDS * JOBS_A_ROUND, "held as unknown": held.count()})
    assert set(held.values_list("outcome", flat=True)) <= {"unknown"}
    excused = set(Attempt.objects.filter(outcome="node_failed").values_list("job_id", "number"))
    for job in Job.objects.all():
        runs = {run for run in on_slurm.proofs_of(job) if (job.id, run[1]) not in excused}
        assert len(runs) <= 1, (job, runs)
        assert len(runs) == 1 or job.state == "held"


def are_settled() -> bool:
    """Whether every job has succeeded or is held."""
    return not unsettled().exists()


def unsettled() -> QuerySet[Job]:
    """The others."""
    return Job.objects.exclude(state__in=["succeeded", "held"])


def nodes_of(attempt: Attempt) -> list[str]:
    """Where it is or was."""
    return [slot["node"] for slot in attempt.slots]
