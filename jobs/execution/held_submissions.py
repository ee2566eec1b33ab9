"""Submit a claim's job during the grace of its victims, so that only a release remains.

A cluster that holds submissions runs nothing before the submission was listed for `settle_s`
seconds and released. So a claim that is stored with its victims gets a held submission there at
once. The arbiter starts the job later. If the grant equals the submission, the new attempt takes
over its id, number and native id. From then on it is settled and released like any other attempt
(`jobs.execution.settling`).

This is safe for three reasons:

- Only an attempt is ever released, and only a start creates one. Until then the arbiter sees a
  queued job with a claim, and no GPUs are counted or charged.
- A start takes over a submission only while its claim is open, with the row locked, and closes the
  claim in the same transaction. If the cluster has not acknowledged the submission yet, its id is
  recorded with the first answer, as for any attempt.
- A claim that is closed without an attempt has lost its submission for good. Its number is never
  used again, so a late submission arrives under a key that is never released.
  `jobs.execution.settling` removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Exists, OuterRef

from bulk.arrays import uuid_array
from bulk.inserting import insert_rows
from clusters.models import Cluster
from connectors.errors import ClusterUnavailable, WorkloadRejected
from connectors.protocol import ClusterConnector, Observation, WorkloadPhase
from connectors.registry import kind_named, kinds_where
from jobs.execution.native_ids import record_native_id
from jobs.execution.workloads import workload_of
from jobs.intentions import hold_intention
from jobs.leadership import Leadership
from jobs.models import (
    Attempt,
    AttemptState,
    HeldSubmission,
    Job,
    JobOrigin,
    Reclaim,
    attempt_id,
)
from outbox.delivery import Finish, NotYet
from outbox.models import Message
from outbox.quarantine import is_quarantined
from outbox.recording import Intention
from quotas.cluster_users import names_on

#: SQL for the number of the next attempt of job `j`, which none of its held submissions ever had.
NEXT_NUMBER = f"""1 + greatest(
    j.attempt_number,
    (SELECT max(h.number) FROM {HeldSubmission._meta.db_table} h WHERE h.job_id = j.id)
)"""  # noqa: S608 - the name comes from the model

_RELEASED_BY_OTHERS = "Somebody released it on its cluster before it was started."


def next_number(job_id: UUID) -> int:
    """Return the number of the next attempt of a locked job."""
    return _next_numbers([job_id])[job_id]


def _next_numbers(jobs: Collection[UUID]) -> dict[UUID, int]:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT j.id, {NEXT_NUMBER} FROM jobs_job j "  # noqa: S608 - names of ours
            "WHERE j.id = ANY(%s::uuid[])",
            [uuid_array(jobs)],
        )
        return dict(cursor.fetchall())


def hold_for(claims: Sequence[Reclaim]) -> list[Intention]:
    """Store a held submission for each new claim whose cluster can hold one.

    Returns the intentions to submit them. The jobs must be locked and queued.
    """
    if not claims:
        return []
    kinds = kinds_where(lambda kind: kind.submits_held)
    clusters = Cluster.objects.filter(kind__in=kinds, pk__in={claim.cluster_id for claim in claims})
    holding = set(clusters.values_list("id", flat=True))
    claims = [claim for claim in claims if claim.cluster_id in holding]
    # Native jobs wait on their cluster already.
    ours = Job.objects.filter(
        pk__in=[claim.job_id for claim in claims], origin=JobOrigin.PORTAL
    ).values_list("id", flat=True)
    numbers = _next_numbers(ours) if claims else {}
    held = [(claim, numbers[claim.job_id]) for claim in claims if claim.job_id in numbers]
    insert_rows(
        HeldSubmission,
        [
            {
                "id": attempt_id(claim.job_id, number),
                "job_id": claim.job_id,
                "number": number,
                "reclaim_id": claim.id,
            }
            for claim, number in held
        ],
        returns_keys=False,
    )
    return [
        hold_intention(attempt_id(claim.job_id, number), claim.cluster_id) for claim, number in held
    ]


class Held(NamedTuple):
    """A held submission that an attempt may take over; `native_id` is None until recorded."""

    number: int
    native_id: str | None
    cluster_user: str | None
    cluster_id: UUID
    pool_id: UUID | None
    mgpu_of_ranks: tuple[int, ...]
    closed_nodes: tuple[str, ...]


def held_for(jobs: Collection[UUID]) -> Mapping[UUID, Held]:
    """Return by job the held submissions of their open claims.

    Locks them until the end of the transaction. So no other process can mark one as released, or
    record its id, meanwhile.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT h.job_id, h.number, h.native_id, h.cluster_user, r.cluster_id, r.pool_id,
                   ARRAY(SELECT (slot->>'mgpu')::bigint FROM jsonb_array_elements(r.slots)
                         WITH ORDINALITY AS s(slot, place) ORDER BY place),
                   ARRAY(SELECT jsonb_array_elements_text(r.closed_nodes))
            FROM jobs_heldsubmission h JOIN jobs_reclaim r ON r.id = h.reclaim_id
            WHERE r.closed_at IS NULL AND h.refusal = ''
              AND h.job_id = ANY(%s::uuid[])
            ORDER BY h.id FOR NO KEY UPDATE OF h
            """,
            [uuid_array(jobs)],
        )
        return {
            job: Held(number, native_id, user, cluster, pool, tuple(ranks), tuple(closed))
            for job, number, native_id, user, cluster, pool, ranks, closed in cursor.fetchall()
        }


def submit_held(
    message: Message, leadership: Leadership, connect: Callable[[Cluster], ClusterConnector]
) -> Finish | None:
    """Submit the next attempt of a claim's job, held, and return the action that records its id.

    Does nothing if the claim is closed by now. Raises NotYet in quarantine, and when the cluster
    did not answer.
    """
    if is_quarantined():
        raise NotYet("Tidegate is in quarantine; nothing is submitted.")
    held = HeldSubmission.objects.select_related(
        *("reclaim__cluster", "reclaim__pool"),
        *("job__team", "job__pool", "job__user", "job__array", "job__priority_class"),
    ).get(pk=message.subject)
    claim = held.reclaim
    if claim.closed_at is not None or held.native_id is not None or held.refusal:
        return None
    if kind_named(claim.cluster.kind).has_users and held.cluster_user is None:
        name = names_on(claim.cluster, [held.job.user_id]).get(held.job.user_id)
        if name is None:
            return lambda: _refuse(held.pk, "Its user has no user on the cluster.")
        # Committed before it is sent, so that a repeat uses the same user.
        with leadership.fence():
            HeldSubmission.objects.filter(pk=held.pk).update(cluster_user=name)
        held.cluster_user = name
    try:
        native_id = connect(claim.cluster).submit(
            workload_of(_attempt_of(held)), is_first=message.sends == 1
        )
    except ClusterUnavailable as error:
        raise NotYet(str(error)) from error
    except WorkloadRejected as error:
        # The start of the job reports the consequence.
        refusal = str(error)[:2000]
        return lambda: _refuse(held.pk, refusal)
    return lambda: _record_id(held.pk, native_id)


def _attempt_of(held: HeldSubmission) -> Attempt:
    """Return the attempt that would take over `held`; it is never stored.

    All of it counts as guaranteed. If that turns out wrong, the start does not take it over.
    """
    claim = held.reclaim
    if claim.pool is not None:
        held.job.pool = claim.pool
    mgpu = sum(slot["mgpu"] for slot in claim.slots)
    return Attempt(
        id=held.pk,
        job=held.job,
        number=held.number,
        cluster=claim.cluster,
        slots=claim.slots,
        closed_nodes=claim.closed_nodes,
        mgpu=mgpu,
        guaranteed_mgpu=mgpu,
        cluster_user=held.cluster_user,
        granted_at=claim.created_at,
    )


def _record_id(held_id: UUID, native_id: str) -> None:
    """Record the submission's id. The first recorded id wins.

    The update waits for a start that is taking the submission over. Then the id belongs to the
    attempt.
    """
    HeldSubmission.objects.filter(pk=held_id, native_id=None).update(native_id=native_id)
    record_native_id(held_id, native_id)


def _refuse(held_id: UUID, refusal: str) -> None:
    HeldSubmission.objects.filter(pk=held_id).update(refusal=refusal)


class Unadopted(NamedTuple):
    """Held submissions that no attempt has taken over.

    `waiting` ones may still be taken over by a start. `lost` ones may not, because their claim was
    closed or they were refused.
    """

    waiting: frozenset[UUID]
    lost: frozenset[UUID]


def unadopted_among(ids: Collection[UUID], cluster: Cluster) -> Unadopted:
    """Return the held submissions on `cluster` among these ids that no attempt has taken over.

    One statement, which sees the start of an attempt and the end of its claim together.
    """
    if not ids:
        return Unadopted(frozenset(), frozenset())
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT h.id, r.closed_at IS NOT NULL OR h.refusal <> ''
            FROM jobs_heldsubmission h JOIN jobs_reclaim r ON r.id = h.reclaim_id
            WHERE h.id = ANY(%s::uuid[]) AND r.cluster_id = %s
              AND NOT EXISTS (SELECT FROM jobs_attempt a WHERE a.id = h.id)
            """,
            [uuid_array(ids), cluster.pk],
        )
        found = dict(cursor.fetchall())
    return Unadopted(
        frozenset(pk for pk, is_lost in found.items() if not is_lost),
        frozenset(pk for pk, is_lost in found.items() if is_lost),
    )


def refuse_released(ids: Collection[UUID], cluster: Cluster) -> frozenset[UUID]:
    """Return the held submissions among these ids, and refuse that attempts take them over.

    The workloads of the ids run on `cluster`, and no attempt has these ids. Must run behind the
    fence.
    """
    if not ids:
        return frozenset()
    # Locked first, so that the next statement sees a start that is taking one over.
    list(
        HeldSubmission.objects.select_for_update(no_key=True, of=("self",))
        .filter(pk__in=ids, reclaim__cluster=cluster)
        .order_by("pk")
        .values_list("pk")
    )
    found = frozenset(
        HeldSubmission.objects.filter(pk__in=ids, reclaim__cluster=cluster)
        .exclude(pk__in=Attempt.objects.filter(pk__in=ids).values("pk"))
        .values_list("pk", flat=True)
    )
    HeldSubmission.objects.filter(pk__in=found, refusal="").update(refusal=_RELEASED_BY_OTHERS)
    return found


def known_ids(found: Mapping[UUID, Sequence[Observation]], *, has_been_away: bool) -> set[UUID]:
    """Return the held submissions among the keys that a cluster lists.

    `has_been_away` means that the portal did not observe for a while. Then a running one counts
    only if it was marked before as released by others, since a restore may have lost the start of
    its attempt.
    """
    rows = HeldSubmission.objects.filter(pk__in=list(found)).values_list("pk", "refusal")
    return {
        pk
        for pk, refusal in rows
        if refusal == _RELEASED_BY_OTHERS
        or not has_been_away
        or not any(_has_run(one) for one in found[pk])
    }


def _has_run(one: Observation) -> bool:
    """Return whether it holds or held GPUs, or is about to.

    A submission that is cancelled while it waits has equal start and end times.
    """
    is_live = one.phase in (
        WorkloadPhase.STARTING,
        WorkloadPhase.RUNNING,
        WorkloadPhase.STOPPING,
    )
    was_there = one.started_at is not None and one.started_at != one.ended_at
    return is_live or bool(one.slots) or was_there


def due_for_release(cluster_id: UUID) -> frozenset[UUID]:
    """Return the attempts with a held submission on this cluster that await their release.

    The next listing releases them.
    """
    return frozenset(
        Attempt.objects.filter(
            Exists(HeldSubmission.objects.filter(pk=OuterRef("pk"))),
            cluster_id=cluster_id,
            released_at=None,
            release_sent_at=None,
            state=AttemptState.STARTING,
        ).values_list("pk", flat=True)
    )
