"""Jobs that leave GPUs idle, or use little of the memory and the CPUs that they asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import BigIntegerField, Case, F, Func, IntegerField, Q, QuerySet, Value, When
from django.db.models.functions import Cast, Coalesce, Extract, NullIf

from jobs.access import visible_jobs
from jobs.execution.sampling import REACH_S
from jobs.models import Attempt, Job
from jobs.reading.metrics import MIB, MetricSummary, summary_of
from jobs.reading.part_costs import Part, Work, WorkCost, costs_of_work
from primitives.units import DeviceKind
from tenants.access import Actor, under, visible_node

#: GPUs count as unused after so long without work.
IDLE_FOR = timedelta(minutes=10)
#: Memory and CPUs of a job are judged once it has run for so long.
JUDGED_AFTER_S = 600
#: Jobs that ended are listed for so long.
ENDED_WITHIN = timedelta(days=7)
#: A job that used less than this part of its memory or CPUs asked for far too much.
LITTLE_PERMILLE = 250
#: Less than that is not worth a person's time.
MEMORY_UNUSED_MIN_BYTES = 1 << 30
CPU_UNUSED_MIN_MILLI = 1_000
ROWS_MAX = 50


@dataclass(frozen=True, slots=True)
class UnusedRow:
    """An attempt of a job, and its figures.

    `idle_s` is the time since its GPUs had work, and `cost` that of all of them in this time; None
    for those who may not see it. Both only in the list of idle GPUs.
    """

    attempt: Attempt
    summary: MetricSummary
    idle_s: int | None = None
    cost: WorkCost | None = None


@dataclass(frozen=True, slots=True)
class Unused:
    """Jobs at or below the node `path` that use little, the largest waste first in each list.

    `reports_gpus` says whether the cluster of any running job there reports GPUs. Without it, an
    empty list of idle GPUs means nothing.
    """

    path: str
    idle_gpus: Sequence[UnusedRow]
    memory: Sequence[UnusedRow]
    cpus: Sequence[UnusedRow]
    reports_gpus: bool


def unused_below(path: str, *, actor: Actor, now: datetime) -> Unused:
    """Return the jobs below a node that use little, as far as the actor may see them.

    Raises NotFound for an invisible node.
    """
    node = visible_node(actor, path)
    jobs = visible_jobs(actor).filter(under([node.path], "team__path"))
    metered = Attempt.objects.filter(metrics__isnull=False, started_at__isnull=False)
    running = metered.filter(job__in=jobs.values("pk"), released_at=None)
    idle = running.filter(
        metrics__gpus_idle_since__lte=now - IDLE_FOR,
        metrics__sampled_at__gte=now - timedelta(seconds=2 * REACH_S),
    )
    # As in the index of jobs by their ends.
    by_end = Coalesce("ended_at", Value(datetime(1970, 1, 1, tzinfo=UTC)))
    ended: QuerySet[Job] = jobs.alias(by_end=by_end).filter(by_end__gte=now - ENDED_WITHIN)
    of_ended = metered.filter(job__in=ended.values("pk"))
    # An OR of both conditions would be checked for every attempt.
    judged = metered.filter(pk__in=running.values("pk").union(of_ended.values("pk")))
    judged = judged.annotate(elapsed_s=_ELAPSED_S).filter(elapsed_s__gte=JUDGED_AFTER_S)
    gpus_known = Q(metrics__gpus_are_held__isnull=False) | Q(metrics__gpu_measured_s__gt=0)
    return Unused(
        path=node.path.rstrip("/"),
        idle_gpus=_with_costs(
            _rows(idle.order_by(F("metrics__gpus_idle_since").asc(), F("mgpu").desc(), "pk"), now),
            actor,
            now,
        ),
        memory=_rows(
            judged.annotate(asked_bytes=_MEMORY_ASKED)
            .annotate(unused_bytes=F("asked_bytes") - F("metrics__memory_peak_bytes"))
            .filter(
                unused_bytes__gte=MEMORY_UNUSED_MIN_BYTES,
                metrics__memory_peak_bytes__lt=F("asked_bytes") * LITTLE_PERMILLE / 1_000,
            )
            .order_by("-unused_bytes", "pk"),
            now,
        ),
        cpus=_rows(
            judged.annotate(given_ms=_CPU_MILLI * F("elapsed_s"))
            .annotate(used_ms=_CPU_USED_MS)
            .annotate(unused_ms=F("given_ms") - F("used_ms"))
            .filter(
                unused_ms__gte=CPU_UNUSED_MIN_MILLI * F("elapsed_s"),
                used_ms__lt=F("given_ms") * LITTLE_PERMILLE / 1_000,
            )
            .order_by("-unused_ms", "pk"),
            now,
        ),
        reports_gpus=running.filter(gpus_known).exists(),
    )


def _rows(attempts: QuerySet[Attempt], now: datetime) -> list[UnusedRow]:
    found = attempts.select_related(
        "metrics", "cluster", "job__pool", "job__team", "job__user"
    ).defer("job__script", "job__environment", "job__notes", "job__explanation")
    return [
        UnusedRow(attempt, summary_of(attempt, attempt.metrics, now=now))
        for attempt in found[:ROWS_MAX]
    ]


def _with_costs(rows: Sequence[UnusedRow], actor: Actor, now: datetime) -> list[UnusedRow]:
    work: list[Work] = []
    seconds: list[int] = []
    for row in rows:
        attempt, since = row.attempt, row.attempt.metrics.gpus_idle_since
        assert since is not None
        seconds.append(int((now - since).total_seconds()))
        job = attempt.job
        parts = [Part(attempt.pk, since, now)]
        work.append(Work(job.user_id, job.team.path, job.organization_id, parts))
    return [
        replace(row, idle_s=idle_s, cost=cost)
        for row, idle_s, cost in zip(rows, seconds, costs_of_work(work, actor), strict=True)
    ]


# The database multiplies integers of 32 bits to one of 32 bits.
_NODES: Any = Cast(
    Func(F("slots"), function="jsonb_array_length", output_field=IntegerField()),
    BigIntegerField(),
)
_MEMORY_ASKED: Any = Coalesce(
    F("metrics__memory_given_bytes"),
    F("job__memory_mib_per_node") * _NODES * Value(MIB, output_field=BigIntegerField()),
    output_field=BigIntegerField(),
)
_CPU_MILLI: Any = Coalesce(
    F("metrics__cpu_milli"),
    Case(
        When(job__pool__device=DeviceKind.CPU.value, then=F("mgpu")),
        default=F("job__cpus_per_node") * _NODES * 1_000,
        output_field=BigIntegerField(),
    ),
    output_field=BigIntegerField(),
)
# A rate of milli-cores for a second is CPU time in milliseconds.
_CPU_USED_MS: Any = Coalesce(
    F("metrics__cpu_time_ms"),
    F("metrics__cpu_rate_milli_s") / NullIf(F("metrics__cpu_measured_s"), 0) * F("elapsed_s"),
    output_field=BigIntegerField(),
)
_ELAPSED_S: Any = Func(
    Extract(Coalesce("ended_at", "metrics__sampled_at") - F("started_at"), "epoch"),
    function="floor",
    template="%(function)s(%(expressions)s)::bigint",
    output_field=BigIntegerField(),
)
