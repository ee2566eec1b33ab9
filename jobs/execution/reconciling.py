"""Compare a cluster's account of a day with the meter, on request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from billing.agreements import with_agreement
from billing.reconciliation import MeteredRun, Span, reconcile
from billing.reconciliation_models import Reconciliation, ReconciliationStatus
from billing.reconciliations import (
    attempts_between,
    metered_runs,
    start_of,
    store_failure,
    store_result,
    team_nodes,
)
from clusters.models import Cluster
from connectors.accounts import AccountedRun, AccountedRuns, AccountLate, ClusterAccount
from connectors.errors import ConnectorError, WorkloadRejected
from connectors.protocol import ClusterConnector
from connectors.registry import kind_named
from jobs.leadership import Leadership
from jobs.models import Attempt, JobOrigin
from outbox.models import Message
from primitives.clock import from_epoch
from quotas.cluster_users import users_by_name
from tenants.models import Node, NodeKind, User
from tenants.places import former_paths

#: Seconds before now, by the cluster's clock, that are not compared yet, because both sides may
#: still receive records.
LAG_S = 60
_KEY_PREFIX = "tg-"
log = logging.getLogger(__name__)


def reconcile_day(
    message: Message,
    leadership: Leadership,
    clock: Callable[[], datetime],
    connect: Callable[[Cluster], ClusterConnector],
) -> None:
    """Answer the reconciliation request that is the message's subject, once.

    If the cluster does not give its account, the result says so, and the request is asked again
    later.
    """
    request_id = message.subject
    row = Reconciliation.objects.select_related("cluster").filter(request_id=request_id).first()
    if row is None:
        return
    start = start_of(row.day)
    end = start + timedelta(days=1)
    try:
        opener = kind_named(row.cluster.kind).open_account
        assert opener is not None, "refused when it was requested"
        account = opener(connect(row.cluster))
        found = account.runs(start=int(start.timestamp()), end=int(end.timestamp()))
        until = min(end, from_epoch(found.as_of - LAG_S))
        if until <= start:
            raise AccountLate("the day has only just begun")
    except ConnectorError as error:
        is_late = isinstance(error, AccountLate)
        status = ReconciliationStatus.PENDING if is_late else ReconciliationStatus.UNAVAILABLE
        with leadership.fence():
            store_failure(request_id, status, str(error), now=clock())
        return
    named = _named_teams(account, row.cluster)
    names = {team.pk: name for name, team in named}
    # If several teams share an account, its runs count for the last team.
    teams = dict(named)
    found = replace(found, runs=_by_present_account(found.runs, account, names))
    metered_at = clock()
    reports = reconcile(
        _metered(row.cluster, start, until, found, names),
        found.runs,
        Span(int(start.timestamp()), int(until.timestamp())),
        owned=_owned(row.cluster, found.runs, teams),
    )
    reports = with_agreement(row, reports)
    with leadership.fence():
        store_result(
            request_id,
            reports,
            as_of=from_epoch(found.as_of),
            until=until,
            teams={name: team.pk for name, team in teams.items()},
            metered_at=metered_at,
            now=clock(),
        )


def _named_teams(account: ClusterAccount, cluster: Cluster) -> list[tuple[str, Node]]:
    """Return every team with its account name on the cluster, which two teams may share.

    A team without a possible account gets a name that no account has. So its metered use is
    reported, and the other teams are compared as usual.
    """
    found: list[tuple[str, Node]] = []
    for team in team_nodes():
        try:
            name = account.account_of(team.path.rstrip("/"))
        except WorkloadRejected as error:
            log.warning("team %s has no account on %s: %s", team.pk, cluster.name, error)
            name = f"no account: team {team.pk}"
        found.append((name, team))
    return found


def _by_present_account(
    runs: Iterable[AccountedRun], account: ClusterAccount, names: Mapping[UUID, str]
) -> tuple[AccountedRun, ...]:
    """Return the runs, with former accounts of moved teams replaced by the present ones of `names`.

    The jobs of a moved team go on under its former account.
    """
    renamed: dict[str, str] = {}
    for node_id, path in former_paths(NodeKind.TEAM):
        # A path without an account has no runs.
        with suppress(WorkloadRejected):
            renamed[account.account_of(path)] = names[node_id]
    return tuple(
        replace(run, account=renamed[run.account]) if run.account in renamed else run
        for run in runs
    )


def _metered(
    cluster: Cluster,
    start: datetime,
    until: datetime,
    found: AccountedRuns,
    names: Mapping[UUID, str],
) -> list[MeteredRun]:
    """Return the meter's runs in the time, and those of every run in the account.

    Native runs are left out if the account has no natives.
    """
    named = {_attempt_of(run.key) for run in found.runs if run.key is not None} - {None}
    numbers = {run.native_id for run in found.runs}
    adopted = Attempt.objects.filter(cluster=cluster, job__origin=JobOrigin.NATIVE)
    ids = attempts_between(cluster, start, until) | {pk for pk in named if pk is not None}
    ids |= set(adopted.filter(native_id__in=numbers).values_list("pk", flat=True))
    natives = {
        pk: (native_id or "", int(submitted_at.timestamp()))
        for pk, native_id, submitted_at in adopted.filter(pk__in=ids).values_list(
            "pk", "native_id", "job__submitted_at"
        )
    }
    recorded = Attempt.objects.filter(pk__in=ids - natives.keys()).exclude(native_id=None)
    if not found.has_natives:
        ids -= natives.keys()
    return metered_runs(
        cluster,
        ids,
        account_of=names,
        natives=natives,
        native_ids={
            pk: native_id or "" for pk, native_id in recorded.values_list("pk", "native_id")
        },
    )


def _attempt_of(key: str) -> UUID | None:
    """Return the attempt with this key; None for a key that no attempt has."""
    try:
        return UUID(key.removeprefix(_KEY_PREFIX))
    except ValueError:
        return None


def _owned(
    cluster: Cluster, runs: Iterable[AccountedRun], teams: Mapping[str, Node]
) -> frozenset[tuple[str, str]]:
    """Return the (account, user) pairs of `runs` that the portal knows.

    The account is a team's, and the user is a member of its organization. Their native jobs are
    metered (`jobs.natives.natives`).
    """
    users = users_by_name(cluster)
    organizations = dict(
        User.objects.filter(pk__in=users.values()).values_list("pk", "organization_id")
    )
    pairs = {(run.account, run.user) for run in runs if run.key is None}
    return frozenset(
        (account, user)
        for account, user in pairs
        if account in teams
        and user in users
        and organizations.get(users[user]) == teams[account].organization_id
    )
