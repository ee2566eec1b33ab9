"""A database that was restored from a backup: detect it, and adopt the attempts that it forgot.

Each attempt's key follows from its job and its number (`jobs.models.attempt_id`). So the tag alone
identifies workloads that a later incarnation of this database started. They have our signature, and
an attempt that this database never made. Then nothing is started (`outbox.quarantine`) until a
person ends the quarantine. Meanwhile each cluster's queue and accounting are read, and the
workloads found become attempts here, with the cluster's times.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from audit.recording import record
from billing.metering import Grant, record_lost, register_attempts
from clusters.models import Cluster, ClusterNode
from connectors.protocol import Listing, Observation, WorkloadPhase
from jobs import lifecycle
from jobs.execution.concluding import conclude
from jobs.execution.held_submissions import known_ids, next_number
from jobs.execution.observation import apply_one
from jobs.leadership import Leadership
from jobs.models import Attempt, AttemptState, Job, JobOrigin, JobState, attempt_id
from jobs.timeline import Happening, record_events
from live.publishing import publish
from live.waking import wake
from outbox.models import Quarantine
from outbox.quarantine import begin_quarantine, last_end, open_quarantine
from primitives.clock import from_epoch
from primitives.errors import Conflict
from quotas.cluster_users import names_on
from quotas.user_numbers import needs_number, numbers_of
from webapi.middleware import current_request_id

log = logging.getLogger(__name__)

#: If the portal was away for longer, a cluster's accounting is asked before anything is started
#: there. Shorter than any cluster's memory of ended workloads.
RECALL_AFTER = timedelta(seconds=15)
#: How far a cluster's clock may differ from ours.
SKEW = timedelta(seconds=60)
#: The most attempts of one job that a later incarnation may have made.
NUMBERS_AHEAD = 20
_KEY_PREFIX = "tg-"

Found = Mapping[str, tuple[Observation, ...]]
#: Returns the cluster's record of workloads that ended since a time (epoch seconds). The second
#: argument is the native ids that it lists now.
Ask = Callable[[int, Collection[str]], Found]


class ClusterMemory:
    """Compares the knowledge of one cluster with the database, for one observer."""

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()
        #: Whether the cluster has answered all questions, so that starts may be sent.
        self.is_compared = False

    def compare(
        self,
        cluster: Cluster,
        listing: Listing,
        *,
        ask: Ask,
        leadership: Leadership,
        now: datetime,
    ) -> None:
        """Begin a quarantine if the cluster knows attempts that this database forgot; adopt them.

        Only a restored database forgets attempts. Cheap when there is nothing new. `cluster` must
        be as stored before this listing. Raises the errors of `ask`; then nothing may be started
        there yet.
        """
        listed = {key: listing.all_of(key) for key in listing.observations}
        ahead = now - from_epoch(listing.observed_at)
        # An observer without interruption knows each start.
        has_been_away = not self.is_compared
        new = {key: listed[key] for key in listed if key not in self._known}
        strange = _strange(new, ahead, has_been_away=has_been_away)
        quarantine = open_quarantine()
        if quarantine is not None and str(cluster.pk) in quarantine.answers:
            self.is_compared = True
            return
        since = _since(cluster, quarantine, strange, now, is_first=not self.is_compared)
        if since is not None:
            native_ids = [one.native_id for found in listed.values() for one in found]
            ended = _of_attempts(
                ask(int(since.timestamp()), native_ids), has_been_away=has_been_away
            )
            ended_strange = _strange(ended, ahead, has_been_away=has_been_away)
            strange = {**ended_strange, **strange}
            if quarantine is None and strange:
                quarantine = _begin(cluster, since, len(strange), leadership, now)
            _adopt(cluster, {**ended, **strange}, quarantine, leadership, now)
        self._known = frozenset(listed) - strange.keys()
        self.is_compared = True


def _since(
    cluster: Cluster,
    quarantine: Quarantine | None,
    strange: Found,
    now: datetime,
    *,
    is_first: bool,
) -> datetime | None:
    """Return the moment from which the cluster must be asked; None if it need not be."""
    moments = [cluster.observed_at] if cluster.observed_at is not None else []
    if quarantine is not None:
        moments.append(quarantine.since)
    elif strange:
        moments += [_submitted(one) or now for found in strange.values() for one in found]
    elif not (is_first and moments and now - moments[0] > RECALL_AFTER):
        return None
    return min(moments) - SKEW


def _strange(
    found: Found, ahead: timedelta, *, has_been_away: bool
) -> dict[str, tuple[Observation, ...]]:
    """Return the workloads of attempts that this database neither made nor submitted held.

    Workloads that an earlier quarantine covered are not strange again. `ahead` is our clock minus
    the cluster's.
    """
    if not found:
        return {}
    ids = {key: pk for key in found if (pk := _id_of(key)) is not None}
    known = set(Attempt.objects.filter(pk__in=list(ids.values())).values_list("id", flat=True))
    known |= _only_held(found, ids, known, has_been_away=has_been_away)
    looked_at = last_end()
    return {
        key: found[key]
        for key, pk in ids.items()
        if pk not in known
        and (
            looked_at is None
            or any((_submitted(one) or looked_at) + ahead > looked_at for one in found[key])
        )
    }


def _of_attempts(found: Found, *, has_been_away: bool) -> Found:
    """Return `found` without submissions that were only held, since no attempt had those."""
    ids = {key: pk for key in found if (pk := _id_of(key)) is not None}
    known = set(Attempt.objects.filter(pk__in=list(ids.values())).values_list("id", flat=True))
    held = _only_held(found, ids, known, has_been_away=has_been_away)
    return {key: those for key, those in found.items() if ids.get(key) not in held}


def _only_held(
    found: Found, ids: Mapping[str, UUID], attempts: Collection[UUID], *, has_been_away: bool
) -> set[UUID]:
    unknown = {pk: found[key] for key, pk in ids.items() if pk not in attempts}
    return known_ids(unknown, has_been_away=has_been_away) if unknown else set()


def _submitted(observation: Observation) -> datetime | None:
    at = observation.submitted_at or observation.started_at
    return None if at is None else from_epoch(at)


def _id_of(key: str) -> UUID | None:
    try:
        return UUID(key.removeprefix(_KEY_PREFIX))
    except ValueError:
        return None


def _begin(
    cluster: Cluster, since: datetime, count: int, leadership: Leadership, now: datetime
) -> Quarantine:
    reason = (
        f"{cluster.name} knows {count} workloads of ours that this database did not start. "
        "The database is older than they are, as after a restore from a backup."
    )
    with leadership.fence():
        return freeze(reason, since=since, now=now)


@transaction.atomic
def freeze(reason: str, *, since: datetime, now: datetime) -> Quarantine:
    """Begin a quarantine; one that is open stays as it is."""
    quarantine, is_new = begin_quarantine(reason, since=since, now=now)
    if is_new:
        log.error("quarantine: %s", reason)
        record(
            action="quarantine.began",
            subject_kind="quarantine",
            subject_id=quarantine.pk,
            now=now,
            detail={"reason": reason},
        )
        _tell()
    return quarantine


def _tell() -> None:
    publish("clusters", organization_id=None)
    wake("arbiter")
    wake("observer")


def _adopt(
    cluster: Cluster,
    found: Found,
    quarantine: Quarantine | None,
    leadership: Leadership,
    now: datetime,
) -> None:
    """Store the cluster's knowledge here, attempt by attempt of each job."""
    ids = {pk: key for key in found if (pk := _id_of(key)) is not None}
    known = Attempt.objects.filter(pk__in=list(ids))
    adopted = updated = 0
    open_ones = list(known.filter(released_at=None).order_by("number"))
    unknown = ids.keys() - set(known.values_list("id", flat=True))
    for attempt in open_ones:
        updated += _take_over(attempt, found[attempt.key], leadership, now)
    numbered = sorted(_jobs_of(unknown), key=lambda one: (one[0], one[1]))
    strangers = len(unknown) - len(numbered)
    for job_id, number in numbered:
        key = ids[attempt_id(job_id, number)]
        with leadership.fence():
            again = _remember(cluster, job_id, number, found[key], leadership.epoch, now)
        if again is None:
            strangers += 1
        else:
            adopted += 1
            _take_over(again, found[key], leadership, now)
    if quarantine is not None:
        with leadership.fence():
            kept = Quarantine.objects.select_for_update().get(pk=quarantine.pk)
            kept.answers[str(cluster.pk)] = {
                "adopted": adopted + updated,
                "strangers": strangers,
            }
            kept.save(update_fields=["answers"])
            publish("clusters", organization_id=None)
    if updated:
        # This is normal after every interruption of the portal, such as a restart.
        log.info("%s: %d attempts ended while nobody looked", cluster.name, updated)
    if adopted or strangers:
        log.warning(
            "%s: %d attempts are taken over, %d workloads belong to no job here",
            cluster.name,
            adopted,
            strangers,
        )


def _jobs_of(attempts: Collection[UUID]) -> list[tuple[UUID, int]]:
    """Return job and number of each of these attempts that an open job may have had."""
    if not attempts:
        return []
    return [
        (job_id, number)
        for job_id, last in Job.objects.filter(state__in=list(lifecycle.OPEN)).values_list(
            "id", "attempt_number"
        )
        for number in range(last + 1, last + 1 + NUMBERS_AHEAD)
        if attempt_id(job_id, number) in attempts
    ]


def _the_one(attempt: Attempt, found: Sequence[Observation]) -> Observation:
    """Return the submission of an attempt that ran last, else the recorded one."""
    return max(
        found,
        key=lambda one: (
            one.started_at is not None,
            one.started_at or 0,
            one.native_id == attempt.native_id,
        ),
    )


def _take_over(
    attempt: Attempt, found: Sequence[Observation], leadership: Leadership, now: datetime
) -> bool:
    """Apply the cluster's report of an open attempt; return whether that is news."""
    seen = _the_one(attempt, found)
    if seen.phase is WorkloadPhase.HELD:
        return False
    with leadership.fence():
        # The job before its attempt, as everywhere.
        Job.objects.select_for_update(of=("self",)).only("id").get(pk=attempt.job_id)
        Attempt.objects.filter(pk=attempt.pk, released_at=None).update(
            native_id=seen.native_id, release_sent_at=attempt.release_sent_at or now
        )
        apply_one(attempt.id, attempt.job_id, seen, None, now)
    return True


def _remember(
    cluster: Cluster,
    job_id: UUID,
    number: int,
    found: Sequence[Observation],
    epoch: int,
    now: datetime,
) -> Attempt | None:
    """Create again the attempt of a later incarnation; return None if that is impossible."""
    job = (
        Job.objects.select_for_update(of=("self",)).select_related("priority_class").get(pk=job_id)
    )
    if job.state in lifecycle.FINAL or job.attempt_number >= number:
        return None
    before = Attempt.objects.select_for_update().filter(job=job, released_at=None).first()
    if before is not None:
        _give_up(job, before, "lost", now)
    seen = found[0]
    _find_pool(job, cluster, seen)
    attempt = Attempt(
        id=attempt_id(job.id, number),
        job=job,
        number=number,
        cluster=cluster,
        slots=[{"node": slot.node, "mgpu": slot.mgpu} for slot in seen.slots or ()],
        mgpu=_granted(job, seen),
        # The borrowed part is unknown. For a running attempt the next cycle decides it.
        guaranteed_mgpu=_granted(job, seen),
        state=AttemptState.STARTING,
        epoch=epoch,
        granted_at=_submitted(seen) or now,
        native_id=seen.native_id,
        cluster_user=_user_on(cluster, job),
    )
    attempt.save(force_insert=True)
    _register(job, attempt, now)
    job.state = JobState.STARTING
    job.attempt_number = number
    job.explanation = None
    job.explained_at = None
    job.save(update_fields=["pool", "state", "attempt_number", "explanation", "explained_at"])
    detail = {"attempt": number, "cluster": str(cluster.pk)}
    record_events([Happening(job.id, now, "adopted", detail)])
    publish("jobs", ids=[job.id], organization_id=job.organization_id)
    return attempt


def _find_pool(job: Job, cluster: Cluster, seen: Observation) -> None:
    """Set the pool of a job that accepts several pools to the pool of its nodes.

    If the cluster does not name the nodes, it is the first accepted pool on the cluster.
    """
    nodes = ClusterNode.objects.filter(cluster=cluster, pool__in=job.pools)
    if seen.slots is not None:
        nodes = nodes.filter(name__in=[slot.node for slot in seen.slots])
    there = set(nodes.values_list("pool_id", flat=True))
    job.pool_id = next((pool for pool in job.pools if pool in there), job.pool_id)


def _register(job: Job, attempt: Attempt, now: datetime) -> None:
    grant = Grant(
        attempt_id=attempt.id,
        job_id=job.id,
        job_name=job.name,
        number=attempt.number,
        organization_id=job.organization_id,
        team_id=job.team_id,
        user_id=job.user_id,
        pool_id=job.pool_id,
        cluster_id=attempt.cluster_id,
        priority_class=job.priority_class.name,
        multiplier_ppm=job.priority_class.price_multiplier_ppm,
        job_type=job.type,
        mgpu=attempt.mgpu,
        guaranteed_mgpu=attempt.guaranteed_mgpu,
        at=attempt.granted_at,
        use_factor_percent=job.priority_class.use_factor_percent,
    )
    register_attempts([grant], now=now)


def _give_up(job: Job, attempt: Attempt, outcome: str, now: datetime) -> None:
    """Close a locked attempt of which no cluster knows, and move its locked job on."""
    attempt.state = AttemptState.ENDED
    attempt.outcome = outcome
    attempt.ended_at = attempt.ended_at or now
    attempt.released_at = attempt.ended_at
    attempt.message = "Unknown since the database was restored from a backup."
    attempt.save()
    if attempt.started_at is not None:
        record_lost(attempt.id, at=attempt.ended_at, now=now)
    happenings = [Happening(job.id, now, outcome, {"attempt": attempt.number})]
    conclude(job, attempt, now=now, happenings=happenings)
    job.save()
    record_events(happenings)


@dataclass(frozen=True, slots=True)
class Ended:
    """The counts at the end of a quarantine.

    They are adopted attempts, workloads of no job here, and jobs held because it is unknown whether
    they ran.
    """

    adopted: int
    strangers: int
    held: int


@transaction.atomic
def end_quarantine(*, actor_id: UUID | None, actor: str, now: datetime) -> Ended:
    """End the quarantine, so that starts go on. The caller has checked the right to do so.

    A job that may have run on a cluster that has not answered since the quarantine began is held
    with outcome `unknown`, for a person to check. Raises Conflict when there is no quarantine.
    """
    quarantine = Quarantine.objects.select_for_update().filter(ended_at=None).first()
    if quarantine is None:
        raise Conflict("There is no quarantine to end.")
    held = _hold_what_may_have_run(_silent(quarantine), now)
    quarantine.ended_at = now
    quarantine.save(update_fields=["ended_at"])
    counts = quarantine.answers.values()
    ended = Ended(
        sum(count["adopted"] for count in counts), sum(count["strangers"] for count in counts), held
    )
    record(
        action="quarantine.ended",
        subject_kind="quarantine",
        subject_id=quarantine.pk,
        now=now,
        actor_id=actor_id,
        actor=actor,
        detail={"adopted": ended.adopted, "strangers": ended.strangers, "held": held},
        request_id=current_request_id(),
    )
    _tell()
    return ended


def silent_clusters(quarantine: Quarantine) -> list[str]:
    """Return the names of clusters that have not answered since the quarantine began."""
    return [cluster.name for cluster in _silent(quarantine)]


def _silent(quarantine: Quarantine) -> list[Cluster]:
    return list(
        Cluster.objects.filter(
            Q(is_enabled=True)
            | Exists(Attempt.objects.filter(cluster=OuterRef("pk"), released_at=None))
        )
        .exclude(pk__in=[UUID(pk) for pk in quarantine.answers])
        .exclude(seen_at=None)
        .order_by("name")
    )


def _hold_what_may_have_run(clusters: Sequence[Cluster], now: datetime) -> int:
    """Hold every queued or starting job that may have run on one of `clusters`; return how many.

    An attempt that is known to have started there is left to observation: its cluster will report
    its end.
    """
    if not clusters:
        return 0
    held = 0
    for attempt_pk, job_id in _unstarted_on(clusters):
        # The job before its attempt, as everywhere.
        job = Job.objects.select_for_update(of=("self",)).get(pk=job_id)
        attempt = Attempt.objects.select_for_update().get(pk=attempt_pk)
        if attempt.released_at is None and attempt.started_at is None:
            _give_up(job, attempt, "unknown", now)
            held += 1
    pools = ClusterNode.objects.filter(cluster__in=clusters).values("pool_id")
    on_them = Q(cluster__in=clusters) | (
        Q(cluster=None)
        & (Q(pool__in=pools) | Q(pools__overlap=list(pools.values_list("pool_id", flat=True))))
    )
    for job in (
        Job.objects.select_for_update(of=("self",))
        .select_related("priority_class")
        # A native job is one workload, which its cluster lists if it runs.
        .filter(on_them, state=JobState.QUEUED, origin=JobOrigin.PORTAL)
        .order_by("pk")
    ):
        _suspect(job, next(one for one in clusters if job.cluster_id in (None, one.pk)), now)
        held += 1
    return held


def _unstarted_on(clusters: Sequence[Cluster]) -> list[tuple[UUID, UUID]]:
    return list(
        Attempt.objects.filter(
            job__origin=JobOrigin.PORTAL,
            cluster__in=clusters,
            released_at=None,
            started_at=None,
            state__in=[AttemptState.RESERVED, AttemptState.STARTING],
        )
        .order_by("job_id")
        .values_list("id", "job_id")
    )


def _granted(job: Job, seen: Observation) -> int:
    """Return the GPUs that the attempt holds; for an elastic job as the cluster reports."""
    told = sum(slot.mgpu for slot in seen.slots or ())
    return told if told and job.node_count_min is not None else job.mgpu


def _suspect(job: Job, cluster: Cluster, now: datetime) -> None:
    """Create the attempt that a queued job may have had, and hold the job."""
    job.state = JobState.STARTING
    job.attempt_number = next_number(job.id)
    attempt = Attempt(
        id=attempt_id(job.id, job.attempt_number),
        job=job,
        number=job.attempt_number,
        cluster=cluster,
        slots=[],
        mgpu=job.mgpu,
        guaranteed_mgpu=job.mgpu,
        state=AttemptState.STARTING,
        epoch=0,
        granted_at=now,
    )
    attempt.save(force_insert=True)
    _register(job, attempt, now)
    _give_up(job, attempt, "unknown", now)


def _user_on(cluster: Cluster, job: Job) -> str | None:
    users = [job.user_id]
    names = numbers_of(users) if needs_number(cluster) else names_on(cluster, users)
    return names.get(job.user_id)
