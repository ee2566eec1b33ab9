"""kill -9, SIGSTOP and a bad network, while jobs go through the product's loops to a real Slurm.

TIDEGATE_CHAOS_JOBS (100) and TIDEGATE_CHAOS_SEED (1) make a run longer or another one; `-s` shows
what was done to it. Nobody can promise more than the cluster keeps, so some things are counted
apart: what Slurm itself repeats, under one number or after saying that a node failed; what it
cancels as root since its node refuses to repeat it; and what it lets nobody release, or takes for
running for ever, since it was killed at a bad moment. Of an end that it told and then forgot its
first word counts; of a start without an end the second, as in its account.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from billing.models import UsageSegment
from conformance.rigs import SlurmRig
from jobs.models import Attempt, Job
from outbox.models import Message
from slurm.company_on_slurm import FINAL, CompanyOnSlurm, Run, poll, resume_nodes, unfinished
from slurm.fault_proxy import FaultProxy, a_fault_proxy
from slurm.own_bed import node_names, own_bed
from slurm.portal_processes import TTL_S, PortalProcesses, portal_processes
from slurm_bed import SlurmBed

__all__ = ["own_bed"]

JOBS = int(os.environ.get("TIDEGATE_CHAOS_JOBS", "100"))
SEED = int(os.environ.get("TIDEGATE_CHAOS_SEED", "1"))
#: Jobs come so fast that 100 of them take a minute; the chaos goes on for half as long again.
JOB_EVERY_S = 0.6
STRIKE_EVERY_S = 2.0
CTLD_EVERY_S = 15
SETTLED_WITHIN_S = 120

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slurm,
    pytest.mark.chaos,
    pytest.mark.timeout(600 + 3 * JOBS),
]


class Chaos:
    """Does harm by the dice of its seed, one strike after the other."""

    def __init__(
        self, bed: SlurmBed, processes: PortalProcesses, proxy: FaultProxy, seed: int
    ) -> None:
        self.done: Counter[str] = Counter()
        self._bed = bed
        self._processes = processes
        self._proxy = proxy
        self._dice = random.Random(seed)
        self._frozen: dict[int, float] = {}
        self._ctld_at = time.monotonic() + CTLD_EVERY_S

    def begin(self) -> None:
        """Start everything, and the bad network."""
        self._complete()
        self._proxy.is_armed = True

    def strike(self) -> None:
        """One act of harm, and new processes for those that are gone."""
        now = time.monotonic()
        for pid in [pid for pid, until in self._frozen.items() if until <= now]:
            self._thaw(pid)
        if now >= self._ctld_at:
            self._bed.kill9("ctld")
            self._bed.start("ctld")
            resume_nodes(self._bed)
            self._ctld_at = time.monotonic() + CTLD_EVERY_S
            self.done["kill -9 of slurmctld"] += 1
        else:
            role = self._dice.choices(("observer", "arbiter"), (5, 1))[0]
            leader = self._processes.leader(role)
            if leader is not None and leader not in self._frozen:
                if self._dice.random() < 0.2:
                    self._processes.freeze(leader)
                    self._frozen[leader] = now + self._dice.uniform(0.5, 2.5 * TTL_S)
                    self.done[f"SIGSTOP of the {role}"] += 1
                else:
                    self._processes.kill9(role, leader)
                    self.done[f"kill -9 of the {role}"] += 1
        self._complete()

    def end(self) -> None:
        """Peace: whatever is frozen or down comes back."""
        self._proxy.is_armed = False
        for pid in list(self._frozen):
            self._thaw(pid)
        self._bed.start("ctld", "rest")
        resume_nodes(self._bed)
        # What a killed controller forgot to have ended it learns when nodes register again.
        self._bed.restart(*node_names(self._bed))
        self._complete()

    def _complete(self) -> None:
        for role, pids in self._processes.pids.items():
            while sum(pid not in self._frozen for pid in pids) < 2:
                self._processes.start(role)

    def _thaw(self, pid: int) -> None:
        del self._frozen[pid]
        self._processes.thaw(pid)


@pytest.fixture
def rig(own_bed: SlurmBed) -> Iterator[SlurmRig]:
    opened = SlurmRig(own_bed, settle_s=7)
    yield opened
    own_bed.start("ctld", "rest", "dbd")
    resume_nodes(own_bed)
    opened.close()


def test_nothing_is_lost_and_nothing_runs_twice(rig: SlurmRig, tmp_path: Path) -> None:
    with (
        a_fault_proxy(rig.bed.url, seed=SEED) as proxy,
        portal_processes(tmp_path / "processes.log") as processes,
    ):
        on_slurm = CompanyOnSlurm(rig, url=proxy.url)
        chaos = Chaos(rig.bed, processes, proxy, SEED)
        began = time.monotonic()
        chaos.begin()
        jobs: list[Job] = []
        while (passed_s := time.monotonic() - began) < 1.5 * JOBS * JOB_EVERY_S:
            due = int(passed_s / JOB_EVERY_S) + 1
            jobs += [on_slurm.submit(number) for number in range(len(jobs), min(due, JOBS))]
            time.sleep(STRIKE_EVERY_S)
            chaos.strike()
        chaos.end()
        all_of = Job.objects.filter(pk__in=[job.pk for job in jobs])
        left = all_of.exclude(state__in=FINAL)
        given_up: set[str] = set()
        if not poll(lambda: not left.exists(), within_s=45):
            # Of a job that it recovered as running it believes only a later registration.
            rig.bed.restart(*node_names(rig.bed))
            poll(lambda: not left.exists(), within_s=30)
            given_up = cancel_what_slurm_got_wrong(rig.bed)
        is_done = poll(lambda: not left.exists(), within_s=90)
        took_s = int(time.monotonic() - began)
    runs = settled_accounting(on_slurm)
    told = {
        "jobs": JOBS,
        "seconds": took_s,
        **chaos.done,
        **dict(sorted(proxy.counts.items())),
        "jobs made at Slurm": proxy.accepted,
        **figures(on_slurm, runs),
        "given up by Slurm": len(given_up),
    }
    print(told)
    assert is_done, (told, unfinished(rig.bed, left))
    assert unsuccessful(runs, given_up) == [], told
    assert no_job_ran_twice(on_slurm, jobs, runs, given_up) == [], told
    assert differences_from(on_slurm, runs, given_up | cancelled_by_root(runs)) == [], told
    assert proxy.counts.total() > 0
    assert chaos.done["kill -9 of the observer"] > 0


def settled_accounting(on_slurm: CompanyOnSlurm) -> list[Run]:
    """The accounting, once no run in it goes on."""

    def is_settled() -> bool:
        return all(run.ended_at is not None for run in on_slurm.accounting())

    assert poll(is_settled, within_s=SETTLED_WITHIN_S), on_slurm.accounting()
    return on_slurm.accounting()


def cancel_what_slurm_got_wrong(bed: SlurmBed) -> set[str]:
    """Do what an operator does about held jobs that Slurm lets nobody release, and about scripts
    of a second that it takes for running since minutes. Returns their numbers."""
    script = (
        "for job in $(squeue -h -t running -o %i); do scancel $job; echo $job; done; "
        "for job in $(squeue -h -t pending -o %i); do "
        "scontrol release $job 2>/dev/null || { scancel $job; echo $job; }; done"
    )
    return set(bed.run(["bash", "-c", script]).split())


def unsuccessful(runs: list[Run], given_up: set[str]) -> list[str]:
    """Attempts that ended otherwise than well, and not by the cluster's fault."""
    return [
        f"{one} {one.native_id}: {one.outcome}, {one.native_state}, {one.exit_codes}, {one.message}"
        for one in Attempt.objects.exclude(outcome__in=["succeeded", "node_failed", "lost"])
        if one.outcome != "stopped" or one.native_id not in cancelled_by_root(runs) | given_up
    ]


def cancelled_by_root(runs: list[Run]) -> set[str]:
    """What Slurm itself cancelled; it may forget by whom. We would do it as the service user."""
    return {run.native_id for run in runs if run.state in ("CANCELLED by 0", "CANCELLED")}


def no_job_ran_twice(
    on_slurm: CompanyOnSlurm, jobs: list[Job], runs: list[Run], given_up: set[str]
) -> list[str]:
    """Complaints, by what the scripts wrote and by what the cluster counted.

    A job runs under one number of the cluster. It may have another attempt only where the
    cluster itself said that the earlier one failed by its node.
    """
    excused = {
        (attempt.job_id, attempt.number)
        for attempt in Attempt.objects.filter(outcome="node_failed")
    }
    complaints = []
    ran: dict[str, set[str]] = {}
    for run in runs:
        if run.started_at is not None:
            ran.setdefault(run.key, set()).add(run.native_id)
    for attempt in Attempt.objects.all():
        numbers = ran.get(attempt.key, set())
        if not numbers <= {attempt.native_id}:
            complaints.append(f"{attempt} is {attempt.native_id} and ran as {numbers}")
    for job in jobs:
        proofs = {one for one in on_slurm.proofs_of(job) if (job.id, one[1]) not in excused}
        may_be_without = job.attempts.filter(native_id__in=given_up).exists()
        if len(proofs) > 1 or not (proofs or may_be_without):
            complaints.append(f"{job} wrote {on_slurm.proofs_of(job)}")
    return complaints


def differences_from(on_slurm: CompanyOnSlurm, runs: list[Run], confused: set[str]) -> list[str]:
    """Where an attempt's times, its outcome or its meter are not the cluster's. Of what Slurm got
    wrong itself (`confused`) its account is no measure: the meter is what it told us then."""
    by_id: dict[tuple[str, str | None], list[Run]] = {}
    for run in runs:
        if run.started_at is not None:
            by_id.setdefault((run.key, run.native_id), []).append(run)
    outcomes = {
        "COMPLETED": "succeeded",
        "NODE_FAIL": "node_failed",
        "CANCELLED by 0": "stopped",
        "CANCELLED": "stopped",
    }
    found = []
    for attempt in Attempt.objects.all():
        of_it = sorted(by_id.get((attempt.key, attempt.native_id), []), key=_end)
        segments = list(UsageSegment.objects.filter(attempt_id=attempt.id).order_by("start"))
        if not of_it:
            if segments or attempt.outcome == "succeeded":
                found.append(f"{attempt} is {attempt.outcome} and the cluster never ran it")
            continue
        ours = (
            attempt.outcome,
            int(attempt.started_at.timestamp()) if attempt.started_at else None,
            int(attempt.released_at.timestamp()) if attempt.released_at else None,
        )
        theirs = (outcomes.get(of_it[-1].state), of_it[0].started_at, of_it[-1].ended_at)
        is_right = ours == theirs or (
            # Repeated by Slurm itself under one number: seen from any of its starts on.
            len(of_it) > 1
            and (ours[0], ours[2]) == (theirs[0], theirs[2])
            and ours[1] in [run.started_at for run in of_it]
        )
        # A killed controller forgot the end that it had told us: it took it for a lost node, or
        # for running again until we stopped what is back after its end.
        has_forgotten = theirs[0] == "node_failed" or of_it[-1].state.startswith("CANCELLED by ")
        is_right |= has_forgotten and ours[:2] == ("succeeded", theirs[1])
        is_right |= is_forgotten_whole(ours, theirs[1], on_slurm.begins_of(attempt))
        is_right |= attempt.native_id in confused
        metered_s = sum(int((one.end - one.start).total_seconds()) for one in segments)
        held_s = (ours[2] or 0) - (ours[1] or 0)
        if not is_right or metered_s != held_s:
            found.append(f"{attempt}: {ours}, the cluster {theirs}, metered {metered_s} s: {of_it}")
    return found


def is_forgotten_whole(
    ours: tuple[str | None, int | None, int | None], again_at: int | None, begins: list[int]
) -> bool:
    """Whether the cluster told of the whole run that is `ours` (outcome, start, end), forgot it and
    began again at `again_at`, after the end.

    It writes that second start over the first one in the same line of its account
    (as_mysql_job_start: `update ... set time_start ... where job_db_inx`), so the account cannot
    tell of the run that was used, and metered. The script can, which began within it. The second
    run is nobody's here: what is begun anew after its end is outside (`jobs.execution.strays`).
    """
    outcome, start, end = ours
    if outcome != "succeeded" or start is None or end is None or again_at is None:
        return False
    return end <= again_at and any(start <= at <= end for at in begins)


def _end(run: Run) -> int:
    return run.ended_at or 0


def figures(on_slurm: CompanyOnSlurm, runs: list[Run]) -> dict[str, int]:
    """What the chaos led to, in counts."""
    begins = [on_slurm.begins_of(attempt) for attempt in Attempt.objects.all()]
    started = [run for run in runs if run.started_at is not None]
    starts = Message.objects.filter(kind="start_attempt")
    ids = {(run.key, run.native_id) for run in started}
    return {
        "attempts": Attempt.objects.count(),
        "sent more than once": starts.filter(sends__gt=1).count(),
        "repeated by Slurm under one number": len(started) - len(ids),
        "begun anew by a Slurm that forgot": sum(len(each) > 1 for each in begins),
        "repeated since a node failed": Attempt.objects.filter(outcome="node_failed").count(),
        "cancelled by Slurm itself": len(cancelled_by_root(runs)),
        "lost before they ran": Attempt.objects.filter(outcome="lost").count(),
        "unknown": Attempt.objects.filter(outcome="unknown").count(),
    }
