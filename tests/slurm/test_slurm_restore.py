"""A backup is restored after 20 jobs ran on Slurm: none of them runs again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.utils import timezone

from audit.models import AuditEvent
from billing.models import UsageSegment
from clusters.models import Cluster
from conformance.rigs import SlurmRig
from jobs.execution.restoring import RECALL_AFTER
from jobs.models import Attempt, Job
from outbox.quarantine import is_quarantined, open_quarantine
from slurm.company_on_slurm import FINAL, CompanyOnSlurm, poll
from slurm.own_bed import own_bed
from slurm.portal_processes import PortalProcesses, portal_processes
from slurm_bed import SlurmBed

__all__ = ["own_bed"]

JOBS = 20
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slurm,
    pytest.mark.timeout(400),
]


@pytest.fixture
def rig(own_bed: SlurmBed) -> Iterator[SlurmRig]:
    opened = SlurmRig(own_bed)
    yield opened
    opened.close()


class Drill:
    """A portal whose database can be kept and put back."""

    def __init__(
        self,
        rig: SlurmRig,
        processes: PortalProcesses,
        owner: psycopg.Connection[tuple[object, ...]],
        folder: Path,
    ) -> None:
        self.on_slurm = CompanyOnSlurm(rig)
        self.processes = processes
        self._owner = owner
        self._folder = folder
        self._backed_up_at = timezone.now()
        self._tables = [
            name for name in connection.introspection.table_names() if name != "django_migrations"
        ]

    def back_up(self) -> None:
        """Keep the rows of every table, as `pg_dump` would."""
        self._backed_up_at = timezone.now()
        with self._owner.transaction(), self._owner.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            for table in self._tables:
                with (
                    (self._folder / table).open("wb") as file,
                    cursor.copy(f'COPY "{table}" TO STDOUT') as rows,
                ):
                    for piece in rows:
                        file.write(piece)

    def restore(self) -> None:
        """End every process; then the old rows come back, and what came after them is gone."""
        for role, pids in self.processes.pids.items():
            for pid in list(pids):
                self.processes.kill9(role, pid)
        connection.close()
        names = ", ".join(f'"{table}"' for table in self._tables)
        with self._owner.transaction(), self._owner.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute(f"TRUNCATE {names} CASCADE")
            for table in self._tables:
                with cursor.copy(f'COPY "{table}" FROM STDIN') as rows:
                    rows.write((self._folder / table).read_bytes())

    def start(self) -> None:
        """The portal's processes."""
        for role in ("arbiter", "observer"):
            self.processes.start(role)

    def until_done(self, jobs: list[Job]) -> None:
        """Until all jobs have ended."""
        left = Job.objects.filter(pk__in=[job.pk for job in jobs]).exclude(state__in=FINAL)
        assert poll(lambda: not left.exists(), within_s=90), list(left.values("id", "state"))

    def until_forgotten(self) -> None:
        """Until the controller lists none of our jobs any more; the accounting keeps them. The bed
        may forget within seconds, real clusters do not: until the backup is of an age, too, at
        which accounting is asked."""
        run = self.on_slurm.bed.run
        ours = set(Attempt.objects.exclude(native_id=None).values_list("native_id", flat=True))
        assert poll(
            lambda: (
                self._age_of_backup() > RECALL_AFTER
                and ours.isdisjoint(run(["squeue", "-h", "-t", "all", "-o", "%i"]).split())
            ),
            within_s=120,
        )

    def _age_of_backup(self) -> timedelta:
        return timezone.now() - self._backed_up_at

    def runs(self, jobs: list[Job]) -> list[int]:
        """How often each job's script ran, by its own word."""
        return [len(self.on_slurm.proofs_of(job)) for job in jobs]


@pytest.fixture
def drill(
    rig: SlurmRig,
    owner_connection: psycopg.Connection[tuple[object, ...]],
    tmp_path: Path,
) -> Iterator[Drill]:
    with portal_processes(tmp_path / "processes.log") as processes:
        yield Drill(rig, processes, owner_connection, tmp_path)


def test_what_ran_after_the_backup_does_not_run_again(drill: Drill) -> None:
    """Jobs that were queued at the backup, ended since, and are in no list of Slurm any more.

    Planted: the accounting is asked only after 60 s of silence (no quarantine begins).
    """
    jobs = [drill.on_slurm.submit(number) for number in range(JOBS)]
    drill.back_up()
    drill.start()
    drill.until_done(jobs)
    before = {
        (one.id, one.native_id, one.outcome, one.started_at, one.released_at)
        for one in Attempt.objects.all()
    }
    drill.until_forgotten()
    drill.restore()
    assert Attempt.objects.count() == 0
    drill.start()
    assert poll(is_quarantined, within_s=60)
    drill.until_done(jobs)
    # The last job is taken up a moment before the cluster's answer is kept.
    assert poll(_is_answered, within_s=60)
    quarantine = open_quarantine()
    assert quarantine is not None
    assert quarantine.reason.startswith("local knows 20 workloads of ours that this database")
    assert list(quarantine.answers.values()) == [{"adopted": JOBS, "strangers": 0}]
    assert drill.runs(jobs) == [1] * JOBS
    assert {
        (one.id, one.native_id, one.outcome, one.started_at, one.released_at)
        for one in Attempt.objects.all()
    } == before
    assert metered() == {(attempt, start, end) for attempt, _, _, start, end in before}
    late = drill.on_slurm.submit(JOBS)
    call_command("end_quarantine")
    assert not is_quarantined()
    drill.until_done([late])
    assert drill.runs([*jobs, late]) == [1] * (JOBS + 1)
    assert list(
        AuditEvent.objects.filter(subject_kind="quarantine").order_by("id").values_list("action")
    ) == [("quarantine.began",), ("quarantine.ended",)]


def _is_answered() -> bool:
    """Whether a cluster has said what it knows."""
    found = open_quarantine()
    return found is not None and bool(found.answers)


def metered() -> set[tuple[object, object, object]]:
    """Attempt, start and end of every usage segment."""
    return set(UsageSegment.objects.values_list("attempt_id", "start", "end"))


def test_what_runs_and_waits_on_slurm_is_taken_over(drill: Drill) -> None:
    """The command freezes first; jobs in the queue and running ones go on, once."""
    running = drill.on_slurm.submit(0, seconds=30)
    granted = drill.on_slurm.submit(1)
    drill.back_up()
    drill.start()
    assert poll(lambda: drill.runs([running]) == [1], within_s=60)
    drill.restore()
    call_command("begin_quarantine")
    later = drill.on_slurm.submit(2)
    drill.start()
    assert poll(lambda: Attempt.objects.filter(state="running").exists(), within_s=60)
    drill.until_done([granted])
    # Frozen: what only waits here stays where it is.
    later.refresh_from_db()
    assert (later.state, drill.runs([later])) == ("queued", [0])
    assert later.explanation is None or later.explanation["code"] == "cluster_unavailable"
    call_command("end_quarantine")
    drill.until_done([running, granted, later])
    assert drill.runs([running, granted, later]) == [1, 1, 1]
    assert set(Job.objects.values_list("state", "attempt_number")) == {("succeeded", 1)}


def test_what_may_have_run_on_a_silent_cluster_is_held(drill: Drill) -> None:
    """Slurm's controller is down after the restore, and somebody ends the quarantine all the
    same: nobody knows, so a person decides."""
    jobs = [drill.on_slurm.submit(number) for number in range(3)]
    drill.back_up()
    drill.start()
    drill.until_done(jobs)
    drill.restore()
    bed = drill.on_slurm.bed
    with bed.without("ctld"):
        call_command("begin_quarantine")
        drill.start()
        with pytest.raises(CommandError, match="have not answered yet: local"):
            call_command("end_quarantine")
        call_command("end_quarantine", "--hold-rest")
    assert set(Job.objects.values_list("state", "attempts__outcome")) == {("held", "unknown")}
    assert poll(lambda: Cluster.objects.get().failing_since is None, within_s=60)
    assert drill.runs(jobs) == [1, 1, 1]
