"""The filters and the order of the list of jobs, as query parameters."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from billing.models import HELD_CLASSES
from jobs.models import JobOrigin, JobState, JobType
from jobs.reading.job_csv import COLUMNS
from jobs.reading.job_orders import ORDERS, Order
from jobs.reading.listing import JobFilter
from webapi.parameters import (
    PageParameters,
    Parameters,
    choice,
    in_order,
    several,
    text,
    time,
    uuid,
)

_TEXT_MAX = 1_000


class JobFilterParameters(Parameters):
    """The filters of jobs."""

    state: frozenset[str] | None = several(JobState, "One state or several, comma-separated")
    team: str | None = text(
        "Path of a node: its jobs and those of all nodes below it", most=_TEXT_MAX
    )
    user: str | None = text("A username", most=_TEXT_MAX)
    pool: str | None = text(most=_TEXT_MAX)
    cluster: str | None = text(
        "The cluster of the latest attempt, or of a waiting job that is pinned", most=_TEXT_MAX
    )
    priority_class: str | None = text("The name of a priority class", most=_TEXT_MAX)
    type: str | None = choice(JobType)
    q: str | None = text(
        "A part of the name, the last 4 to 12 digits of the id, or at least its first 8, the "
        "beginning of a username, or the id that the cluster gave an attempt",
        most=_TEXT_MAX,
    )
    submitted_at__gte: datetime | None = time()
    submitted_at__lt: datetime | None = time()
    ended_at__gte: datetime | None = time("Only jobs that ended, from this time on")
    ended_at__lt: datetime | None = time("Only jobs that ended before this time")
    usage_class: str | None = choice(
        HELD_CLASSES, "Only jobs that hold GPUs now: all guaranteed, or in part borrowed"
    )
    origin: str | None = choice(JobOrigin, "native: only jobs submitted directly to a cluster")
    array: UUID | None = uuid("The tasks of this array")
    schedule: UUID | None = uuid("The jobs that this recurring schedule submitted")

    @property
    def filter(self) -> JobFilter:
        """The filter of the jobs in the list."""
        return JobFilter(
            states=self.state,
            team=self.team,
            username=self.user,
            pool=self.pool,
            cluster=self.cluster,
            priority_class=self.priority_class,
            type=self.type,
            search=self.q,
            submitted_from=self.submitted_at__gte,
            submitted_before=self.submitted_at__lt,
            ended_from=self.ended_at__gte,
            ended_before=self.ended_at__lt,
            usage_class=self.usage_class,
            origin=self.origin,
            array=self.array,
            schedule=self.schedule,
        )


class SortedJobParameters(JobFilterParameters):
    """The filters of jobs, and the order of the list."""

    sort: str = choice(
        ORDERS,
        "Equal values are ordered by the time of submission. Jobs without the time of the order "
        "come before all others, and at the end of the reverse order",
        default=Order().name,
    )

    @property
    def order(self) -> Order:
        """The order of the list."""
        return Order(self.sort)


class JobFormatParameters(SortedJobParameters):
    """The same, and the format of the list."""

    format: str = choice(("json", "csv"), default="json")


class JobParameters(JobFormatParameters, PageParameters):
    """The parameters of a page of jobs."""


class JobCsvParameters(JobFormatParameters):
    """The parameters of all matching jobs as CSV, which has no pages."""

    columns: tuple[str, ...] = in_order(
        COLUMNS, "The columns of CSV, in their order", default=tuple(COLUMNS)
    )


class JobListParameters(JobParameters, JobCsvParameters):
    """The parameters of the list in both formats."""
