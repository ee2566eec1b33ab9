"""The parameters that the report and the jobs behind it have in common."""

from __future__ import annotations

from datetime import date, datetime

from billing.models import ExtraCharge, UsageClass
from billing.scopes import AttemptFilter
from chargeback.dimensions import UNCODED
from chargeback.reports import Asked, Narrowed, charged_as
from webapi.parameters import Parameters, choice, day_or_time, text, time


class PeriodParameters(Parameters):
    """The period of a report, and its pool."""

    start: date | datetime | None = day_or_time(
        "2026-11-01, its midnight in the organization's time zone, or a time with an offset. "
        "Default: this month"
    )
    end: date | datetime | None = day_or_time("End, excluded; at most 400 days after start")
    as_of: datetime | None = time(
        "Count running jobs until this time. Default: now", is_in_seconds=True
    )
    pool: str | None = text("Only this pool")

    @property
    def asked(self) -> Asked:
        """The period as it was asked for."""
        return Asked(self.start, self.end, self.as_of)


class NarrowedParameters(PeriodParameters):
    """The period of a report, and the part of all use that it covers."""

    node: str | None = text("Only the node with this path, and below it")
    user: str | None = text("Only use of this username")
    cluster: str | None = text("Only use of this cluster")
    priority_class: str | None = text("Only use of this priority class")
    job_type: str | None = text("Only use of jobs of this type")
    cost_centre: str | None = text(
        f"Only use of teams in the months in which they have this cost centre; {UNCODED}: none"
    )
    project_code: str | None = text(
        f"Only use of teams in the months in which they have this project code; {UNCODED}: none"
    )
    usage_class: str | None = choice(
        [*UsageClass, *ExtraCharge], "Only this usage class, or this charge beside use"
    )

    @property
    def narrowed(self) -> Narrowed:
        """The part of all use."""
        return Narrowed(
            node_path=self.node,
            pool=self.pool,
            usage_class=None if self.usage_class is None else charged_as(self.usage_class),
            attempts=AttemptFilter(self.user, self.cluster, self.priority_class, self.job_type),
            cost_centre=self.cost_centre,
            project_code=self.project_code,
        )
