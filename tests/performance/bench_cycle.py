"""One arbiter cycle with the database: what changed is read, a decision, a committed plan.

    python tests/performance/bench_cycle.py [--smoke | --queued N]

10,000 queued and 1,000 running jobs of 200 teams on 1,250 nodes with 8 GPUs, then 50,000 and
100,000 queued on 10,000 nodes, each in a process of its own. Printed apart: reading everything and
only what changed, deciding anew and by the core that lives on, explaining; then the cycle up to the
committed starts, up to the whole committed plan (with what is taken back for others), up to the
stored explanations, and the whole of it, with the record that it keeps;
for a cycle that starts nothing new, for one before which so many jobs have ended that about 500 can
start, where GPUs are taken back for one job at most and where they are for up to 100 others, for
each of whom victims are sought first, and for one with more starts. Target: under 100 ms with up
to 50,000 queued and under 250 ms with 100,000 from the begin of the reading to the committed plan
of 500 starts, the median. The CPU time up to there, of this process and of its session in the
database, is what they cost on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bed import a_database, spread

if TYPE_CHECKING:
    from arbiter.api.plan import Plan
    from jobs.arbitration.arbitration import CycleReport, Cycles
    from jobs.arbitration.reasons import Reason

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
#: Up to how many queued jobs, how many milliseconds.
TARGETS_MS = {50_000: 100, 100_000: 250}
#: By queued jobs: running ones, nodes, and jobs that end before a cycle, in the larger sizes so
#: many that about 500 can start; the second number is for the cycles with more starts.
SIZES = {
    10_000: (1_000, 1_250, 50, 90),
    50_000: (5_000, 10_000, 140, 200),
    100_000: (5_000, 10_000, 140, 200),
}


def main() -> None:
    """Fill a database, run cycles, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a tenth of the smallest, one round")
    parser.add_argument("--queued", type=int, choices=SIZES, help="this size alone")
    arguments = parser.parse_args()
    if not arguments.smoke and arguments.queued is None:
        for queued in SIZES:
            command = [sys.executable, __file__, "--queued", str(queued)]
            subprocess.run(command, check=True, timeout=1_800)
        return
    queued = arguments.queued or min(SIZES)
    scale, rounds = (10, 1) if arguments.smoke else (1, 7)
    with a_database():
        measure(queued // scale, *(size // scale for size in SIZES[queued]), rounds=rounds)


def measure(
    queued: int, running: int, nodes: int, ends: int, more_ends: int, *, rounds: int
) -> None:
    """Print the figures for one size."""
    from arbiter.api.policy import Policy
    from arbiter.cycle.decide import decide
    from builders.loop_builders import Fenced
    from jobs.arbitration.arbitration import Cycles
    from jobs.arbitration.memory import Memory
    from jobs.arbitration.snapshots import load_snapshot
    from jobs.models import Cycle
    from quotas.models import InstallationPolicy

    target_ms = min(ms for most, ms in TARGETS_MS.items() if queued <= most)

    fill(queued, running, nodes)
    cycles = Cycles(Fenced("arbiter"))  # type: ignore[arg-type]
    first = clock(lambda: cycles.run(NOW))
    # The first cycles class what runs and store every explanation, in bounded portions.
    settled = 0
    while cycles.run(NOW).explained:
        settled += 1
    print(f"{queued} queued, {running} running, {nodes} nodes x 8 GPUs")
    print(f"first cycle of a new process   {first:.0f} ms; {settled + 1} cycles until settled")
    snapshot = load_snapshot(NOW)
    memory = Memory()
    memory.read(NOW)
    memory.decide(NOW)
    explaining = []
    for label, act in (
        ("read everything", lambda: load_snapshot(NOW)),
        ("read what changed", lambda: memory.read(NOW)),
        ("decide anew", lambda: decide(snapshot, Policy(), explains=False)),
        ("decide, the core lives on", lambda: memory.decide(NOW)),
    ):
        print(f"{label:<30} {spread([clock(act) for _ in range(rounds)])}")
    for _ in range(rounds):
        explaining.append(clock(memory.decide(NOW).explained))
    print(f"{'explain':<30} {spread(explaining)}")
    moments: list[Moment] = []
    note_moments(moments)
    quiet = [timed(cycles, NOW, moments)[1:] for _ in range(rounds)]
    print("cycle, nothing new")
    tell(quiet, target_ms)
    records: list[float] = []
    note_records(records)
    now = NOW
    for count, reclaims_max in ((ends, 1), (ends, 100), (more_ends, 100)):
        InstallationPolicy.objects.update_or_create(pk=1, defaults={"reclaims_max": reclaims_max})
        reports, times = [], []
        for _ in range(rounds):
            free_some(count)
            now += timedelta(seconds=1)
            report, *took = timed(cycles, now, moments)
            reports.append(report)
            times.append(took)
        started = sum(report.started for report in reports) // rounds
        claims = sum(report.reclaims for report in reports) // rounds
        print(f"after {count} ends each cycle: {started} starts, {claims} claims on average")
        tell(times, target_ms)
        assert started > 0
    size = sorted(Cycle.objects.values_list("size", flat=True))[-1]
    print(f"{'of a cycle the record':<30} {spread(records)}; {size:,} bytes at most")


def timed(
    cycles: Cycles, now: datetime, moments: list[Moment]
) -> tuple[CycleReport, float, float, float, float, float, float]:
    """What a cycle did, the milliseconds until its starts are committed, until all of its plan is,
    until its explanations are, and until its end; and the CPU milliseconds until the first, here
    and in the database."""
    moments.clear()
    begin = Moment.now()
    report = cycles.run(now)
    started, committed, explained = moments
    ends = (started, committed, explained, Moment.now())
    here, there = started.here_s - begin.here_s, started.there_s - begin.there_s
    return report, *((end.at_s - begin.at_s) * 1000 for end in ends), here * 1000, there * 1000


class Moment(NamedTuple):
    """A time, and the CPU time so far of this process and of its session in the database."""

    at_s: float
    here_s: float
    there_s: float

    @classmethod
    def now(cls) -> Moment:
        """This moment."""
        # In nanoseconds; what `psutil` reads is in hundredths of a second.
        spent = Path(f"/proc/{session_pid()}/schedstat").read_text().split()[0]
        return cls(time.perf_counter(), time.process_time(), int(spent) / 1e9)


@cache
def session_pid() -> int:
    """The process of the database that serves this one."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def tell(times: Sequence[Sequence[float]], target_ms: int) -> None:
    """Print what `timed` took, round by round."""
    started, committed, explained, whole, here, there = zip(*times, strict=True)
    print(f"{'  until starts are committed':<30} {spread(started)}, {met(started, target_ms)}")
    print(f"{'    CPU of it, here':<30} {spread(here)}")
    print(f"{'    CPU of it, in the database':<30} {spread(there)}")
    print(f"{'  until the plan is committed':<30} {spread(committed)}")
    print(f"{'  until it is explained':<30} {spread(explained)}")
    print(f"{'  until its end':<30} {spread(whole)}")


def note_moments(moments: list[Moment]) -> None:
    """From now on note when a cycle's starts are committed, as the rest of its plan is written
    then, when that is, as it is explained then, and when its explanations are."""
    from arbiter.cycle.result import Decided
    from jobs.arbitration import arbitration
    from jobs.arbitration.reasons import Reasons

    claim, explained, remember = arbitration._apply_claims, Decided.explained, Reasons.remember

    def claiming(*arguments: Any) -> tuple[int, int]:
        moments.append(Moment.now())
        return claim(*arguments)

    def explaining(self: Decided) -> Plan:
        moments.append(Moment.now())
        return explained(self)

    def remembering(self: Reasons, news: Sequence[Reason]) -> None:
        moments.append(Moment.now())
        remember(self, news)

    arbitration._apply_claims = claiming
    Decided.explained = explaining  # type: ignore[method-assign]
    Reasons.remember = remembering  # type: ignore[method-assign]


def note_records(milliseconds: list[float]) -> None:
    """From now on note how long a cycle takes to keep its record."""
    from jobs.arbitration.recording import Recorder

    original = Recorder.record

    def noted(*arguments: Any, **more: Any) -> None:
        milliseconds.append(clock(lambda: original(*arguments, **more)))

    Recorder.record = noted  # type: ignore[method-assign]


def met(milliseconds: Sequence[float], target_ms: int) -> str:
    """Whether the median keeps the target."""
    word = "met" if statistics.median(milliseconds) < target_ms else "NOT met"
    return f"target {target_ms} ms {word}"


def clock(act: Callable[[], object]) -> float:
    """Milliseconds that `act` takes."""
    begin = time.perf_counter()
    act()
    return (time.perf_counter() - begin) * 1000


def fill(queued: int, running: int, nodes: int) -> None:
    """An organization of 10 departments x 20 teams; every GPU in use; many more wanted."""
    from billing.metering import Grant, record_started, register_attempts
    from builders.portal_builders import (
        a_cluster,
        a_department,
        a_pool,
        a_priority_class,
        a_quota,
        a_team,
        a_user,
        an_organization,
    )
    from clusters.models import ClusterNode
    from jobs.models import Attempt, Job

    organization = an_organization("company")
    pool, cluster = a_pool(), a_cluster(seen_at=NOW + timedelta(hours=1))
    gpus = nodes * 8
    a_quota(organization, pool, gpus)
    normal = a_priority_class(organization)
    user = a_user(organization)
    teams = []
    for _ in range(10):
        department = a_department(organization)
        a_quota(department, pool, gpus // 10)
        for _ in range(20):
            team = a_team(department)
            a_quota(team, pool, gpus // 200)
            teams.append(team)
    names = [f"node-{number:05d}" for number in range(nodes)]
    ClusterNode.objects.bulk_create(
        ClusterNode(
            cluster=cluster,
            pool=pool,
            name=name,
            capacity_mgpu=8_000,
            is_schedulable=True,
            state="up",
            seen_at=NOW,
        )
        for name in names
    )
    per_job = nodes // running if running < nodes else 1

    def started(number: int) -> datetime:
        # Over the last hour, as their limits then end over the next one.
        return NOW - timedelta(seconds=number * 3_600 // running)

    def job(number: int, node_count: int, state: str) -> Job:
        return Job(
            organization=organization, team=teams[number % len(teams)], user=user,
            name=f"job-{number}", type="training", pool=pool, priority_class=normal,
            mgpu_per_node=8_000 if node_count > 1 or number % 3 == 0 else 1_000 * (1 + number % 4),
            node_count=node_count, script="sleep 60", state=state, time_limit_s=3_600,
            submitted_at=NOW - timedelta(seconds=100_000 - number),
        )  # fmt: skip

    runs = [job(3 * number, per_job, "running") for number in range(running)]
    Job.objects.bulk_create(runs)
    Job.objects.bulk_create(
        [job(running + number, 1 if number % 10 else 4, "queued") for number in range(queued)],
        batch_size=2_000,
    )
    attempts = [
        Attempt(
            job=run, number=1, cluster=cluster, mgpu=8_000 * per_job, guaranteed_mgpu=0,
            slots=[
                {"node": names[(number * per_job + k) % nodes], "mgpu": 8_000}
                for k in range(per_job)
            ],
            state="running", epoch=1, granted_at=started(number), started_at=started(number),
            native_id="x",
        )
        for number, run in enumerate(runs)
    ]  # fmt: skip
    Attempt.objects.bulk_create(attempts)
    register_attempts(
        [
            Grant(
                attempt_id=attempt.id, job_id=attempt.job_id, job_name=attempt.job.name, number=1,
                organization_id=organization.id, team_id=attempt.job.team_id, user_id=user.id,
                pool_id=pool.id, cluster_id=cluster.id,
                priority_class="normal", multiplier_ppm=1_000_000,
                job_type=attempt.job.type, mgpu=attempt.mgpu,
                guaranteed_mgpu=0, at=attempt.started_at,
            )
            for attempt in attempts
        ],
        now=NOW,
    )  # fmt: skip
    for attempt in attempts:
        record_started(attempt.id, at=attempt.started_at, now=NOW)


def free_some(count: int) -> None:
    """Let the `count` oldest running attempts have ended."""
    from jobs.models import Attempt, Job

    ids = list(
        Attempt.objects.filter(released_at=None, state="running")
        .order_by("pk")
        .values_list("pk", "job_id")[:count]
    )
    Attempt.objects.filter(pk__in=[pk for pk, _ in ids]).update(
        state="ended", ended_at=NOW, released_at=NOW, outcome="succeeded"
    )
    Job.objects.filter(pk__in=[job for _, job in ids]).update(state="succeeded", ended_at=NOW)


if __name__ == "__main__":
    main()
