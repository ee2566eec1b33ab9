"""A company whose only cluster is a real Slurm, and what that Slurm says of its jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from django.db.models import QuerySet

from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_user
from builders.slurm_loop import SlurmLoop
from conformance.rigs import SlurmRig
from jobs.models import Attempt, Job
from slurm_bed import SlurmBed
from tenants.models import User

FINAL = frozenset({"succeeded", "failed", "cancelled", "timed_out"})
#: Each run of a script leaves one line: by which job of Slurm, in which attempt, and when it began.
SCRIPT = (
    'echo "$SLURM_JOB_ID $TIDEGATE_ATTEMPT $(date +%s)" >> {proofs}/$TIDEGATE_JOB_ID; '
    "sleep {seconds}"
)


@dataclass(frozen=True)
class Run:
    """One run of a job of Slurm by its accounting; `started_at` None for one that never ran."""

    native_id: str
    key: str
    state: str
    started_at: int | None
    ended_at: int | None


class CompanyOnSlurm:
    """The company, two people who may submit for all of its teams, and their jobs' proofs."""

    def __init__(self, rig: SlurmRig, *, url: str | None = None) -> None:
        self.rig = rig
        self.bed: SlurmBed = rig.bed
        if url is not None:
            rig.options["url"] = url
        self.company: Company = a_company(nodes=16)
        self.company.cluster.nodes.all().delete()
        self.loop = SlurmLoop(self.company.cluster, rig)
        self.people: list[User] = []
        for index, username in enumerate(("bob", "eve")):
            person = a_user(self.company.organization, username)
            self.loop.let_in(
                person,
                *(self.company.nlp, self.company.vision, self.company.inference),
                name=self.bed.users[index],
            )
            self.people.append(person)
        self.proofs = rig.scratch / "proofs"
        self.proofs.mkdir()
        self.proofs.chmod(0o777)
        self.began_at = int(time.time())

    def submit(self, number: int, *, gpus: int = 1, seconds: int = 1, **values: object) -> Job:
        """A job of one of the teams and people in turn."""
        teams = (self.company.nlp, self.company.vision, self.company.inference)
        return a_job(
            teams[number % 3],
            self.people[number % 2],
            self.company.pool,
            gpus=gpus,
            name=f"job-{number}",
            script=SCRIPT.format(proofs=self.proofs, seconds=seconds),
            **values,  # type: ignore[arg-type]
        )

    def proofs_of(self, job: Job) -> list[tuple[str, int]]:
        """Every run that the job's script wrote down: the number at Slurm, and the attempt."""
        return [(native_id, int(attempt)) for native_id, attempt, _ in self._written(job.id)]

    def begins_of(self, attempt: Attempt) -> list[int]:
        """When its script began under its number at Slurm, by the script's own clock (epoch
        seconds), once for each run."""
        mine = (attempt.native_id, str(attempt.number))
        return [int(at) for *whose, at in self._written(attempt.job_id) if tuple(whose) == mine]

    def _written(self, job_id: UUID) -> list[list[str]]:
        path: Path = self.proofs / str(job_id)
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def accounting(self) -> list[Run]:
        """All runs of our jobs, as sacct prints them."""
        printed = self.bed.run(
            [
                *("env", "SLURM_TIME_FORMAT=%s", "sacct", "-nPXDa", "-S", f"now-{self._age_s()}"),
                "--format=JobIDRaw,JobName%100,State%40,Start,End",
            ]
        )
        known = set(Attempt.objects.values_list("id", flat=True))
        keys = {f"tg-{attempt_id}" for attempt_id in known}
        runs = []
        for line in printed.splitlines():
            native_id, name, state, start, end = line.split("|")
            key = name.rpartition("-")[0]
            if key in keys:
                runs.append(Run(native_id, key, state, _time(start), _time(end)))
        return runs

    def _age_s(self) -> str:
        return f"{int(time.time()) - self.began_at + 60}seconds"


def _time(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def resume_nodes(bed: SlurmBed) -> None:
    """Do what an operator does about nodes that a confused controller drained, where it lets us."""
    resume = 'scontrol update nodename="$node" state=resume || true'
    bed.run(["bash", "-c", f"for node in $(sinfo -hN -t drain -o %N | sort -u); do {resume}; done"])


def poll(condition: Callable[[], bool], *, within_s: float, every_s: float = 0.5) -> bool:
    """Whether the condition came true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


def unfinished(bed: SlurmBed, jobs: QuerySet[Job]) -> str:
    """What we and what the cluster know of jobs that should have ended."""
    known = jobs.values_list(
        "id",
        "state",
        "explanation",
        "attempts__native_id",
        "attempts__state",
        "attempts__native_state",
        "attempts__outcome",
        "attempts__missed_listings",
    )
    listed = bed.run(["squeue", "-h", "-t", "all", "-o", "%i %T %r %N %S"])
    return "\n".join(("not ended:", *map(str, known), "the cluster's queue:", listed))
