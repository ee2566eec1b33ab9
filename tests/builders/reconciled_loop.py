"""A day of a loop's cluster, compared as the observer does it, and faults of the meter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any

import psycopg
from uuid_utils.compat import uuid7

from billing.models import MeteredAttempt, UsageSegment
from billing.reconciliation_models import Reconciliation
from billing.reconciliations import account_shard, request_day
from builders.loop_builders import LoopOn
from builders.portal_builders import Company, an_actor
from jobs.execution.dispatch import handlers
from jobs.models import Job
from outbox.delivery import deliver_due
from tenants.models import Node
from tenants.roles import Role

OwnerConnection = psycopg.Connection[Any]


def reconciled(loop: LoopOn, day: date | None = None) -> Reconciliation:
    """Today of the cluster, compared as the observer does it."""
    root = an_actor(None, Role.PLATFORM_ADMIN, f"root-{uuid7()}")
    now = loop.clock.now()
    row = request_day(loop.cluster.name, day or now.date(), actor=root, now=now)
    carry_out(loop)
    row.refresh_from_db()
    assert row.request_id is None
    return row


def carry_out(loop: LoopOn) -> int:
    """Carry out the requests to the cluster's accounting; return how many."""
    return deliver_due(
        handlers(
            loop.observer,  # type: ignore[arg-type]
            loop.clock.now,
            lambda cluster: loop.connector,
        ),
        shard=account_shard(loop.cluster.pk),
        clock=loop.clock.now,
        fence=loop.observer.fence,
    )


def ours(row: Reconciliation, company: Company) -> list[tuple[str, str, int]]:
    """The differences of the company's teams: team, cause, milli-GPU-seconds."""
    return [
        (account.team.slug, item["cause"], item["mgpu_s"])
        for account in row.accounts.filter(team__organization=company.organization)
        .select_related("team")
        .order_by("account")
        if account.team is not None
        for item in account.differences
    ]


def sums(row: Reconciliation, company: Company) -> tuple[int, int]:
    """The milli-GPU-seconds of the company by the meter, and by the cluster."""
    accounts = list(row.accounts.filter(team__organization=company.organization))
    return (
        sum(account.metered_mgpu_s for account in accounts),
        sum(account.accounted_mgpu_s for account in accounts),
    )


def residual_mgpu_s(row: Reconciliation) -> int:
    """The part of the day's difference that no listed difference explains."""
    return sum(
        account.accounted_mgpu_s
        - account.metered_mgpu_s
        - sum(item["mgpu_s"] for item in account.differences)
        for account in row.accounts.all()
    )


def seconds_of(job: Job) -> int:
    """How long the only attempt of an ended job held its GPUs."""
    attempt = job.attempts.get()
    assert attempt.started_at is not None
    assert attempt.released_at is not None
    return int((attempt.released_at - attempt.started_at).total_seconds())


def drop(job: Job, team: Node, owner: OwnerConnection) -> None:
    """The meter loses the use of a job."""
    UsageSegment.objects.filter(attempt_id=job.attempts.get().pk).delete()


def duplicate(job: Job, team: Node, owner: OwnerConnection) -> None:
    """The meter counts the use of a job once more, for an attempt that never was."""
    ghost = MeteredAttempt.objects.get(pk=job.attempts.get().pk)
    segments = list(UsageSegment.objects.filter(attempt=ghost))
    ghost.pk = uuid7()
    ghost.save(force_insert=True)
    for segment in segments:
        segment.pk = None
        segment.attempt = ghost
        segment.save()


def shift(job: Job, team: Node, owner: OwnerConnection) -> None:
    """The meter has the use of a job a second later than it was."""
    for segment in UsageSegment.objects.filter(attempt_id=job.attempts.get().pk):
        assert segment.end is not None
        segment.start += timedelta(seconds=1)
        segment.end += timedelta(seconds=1)
        segment.save()


def retag(job: Job, team: Node, owner: OwnerConnection) -> None:
    """The meter counts the use of a job for another team, which the database allows its owner."""
    trigger = "TRIGGER metered_attempt_is_append_only"
    owner.execute(f"ALTER TABLE billing_meteredattempt DISABLE {trigger}".encode())
    owner.execute(
        "UPDATE billing_meteredattempt SET team_id = %s WHERE id = %s",
        [team.pk, job.attempts.get().pk],
    )
    owner.execute(f"ALTER TABLE billing_meteredattempt ENABLE {trigger}".encode())


#: By fault of the meter: the team, cause and sign of each difference that it makes to a job of nlp.
FAULTS: Mapping[Callable[[Job, Node, OwnerConnection], None], list[tuple[str, str, int]]] = {
    drop: [("nlp", "only_in_account", 1)],
    duplicate: [("nlp", "only_in_meter", -1)],
    shift: [("nlp", "end_differs", -1), ("nlp", "start_differs", 1)],
    retag: [("inference", "account_differs", -1), ("nlp", "account_differs", 1)],
}
