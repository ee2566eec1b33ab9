"""What would become of a request if it were sent now: the arbiter, asked without effect."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from uuid_utils.compat import uuid7

from arbiter.cycle import decide
from arbiter.decisions import Plan
from arbiter.policy import Policy
from arbiter.snapshot import QueuedJob, Snapshot
from billing.queries import cost_per_hour_nano
from clusters.models import Cluster
from jobs.dependencies import fate
from jobs.explaining import HELD_BY_USER, WOULD_START, plain_explanation, waited_for_sentence
from jobs.reasons import reason_document
from jobs.requests import JobRequest
from jobs.sbatch import refused_of
from jobs.snapshots import display_names, load_snapshot
from jobs.submission import ResolvedRequest, never_sentence, resolve
from jobs.usable_clusters import UsableClusters
from jobs.withholding import DEPENDENCY
from tenants.access import Actor


@dataclass(frozen=True, slots=True)
class Preview:
    """The arbiter's answer. Feasibility at this moment, not a reservation.

    `guaranteed_mgpu` of the job would be inside the team's guarantee, now or when it starts;
    `cost` is nano-currency an hour, with its currency.
    """

    resolved: ResolvedRequest
    fits: bool
    would_start_now: bool
    guaranteed_mgpu: int
    cluster: str | None
    cost: tuple[int, str] | None
    explanation: dict[str, Any]


def preview_job(request: JobRequest, *, actor: Actor, now: datetime) -> Preview:
    """Decide as if `request` were queued now, and forget it. Changes nothing.

    Raises as `jobs.submission.resolve` does.
    """
    resolved = resolve(request, actor=actor)
    # One snapshot of one instant: it must be the outermost transaction.
    snapshot = load_snapshot(now)
    names = display_names()
    job = QueuedJob(
        id=str(uuid7()),
        team=str(resolved.team.pk),
        user=str(actor.user.pk),
        pool=str(resolved.pool.pk),
        mgpu_per_node=resolved.mgpu_per_node,
        node_count=resolved.node_count,
        priority_class=str(resolved.priority_class.pk),
        submitted_at=snapshot.taken_at,
        time_limit_s=request.time_limit_s,
        clusters=UsableClusters().of(
            user=str(actor.user.pk),
            pool=str(resolved.pool.pk),
            mgpu_per_node=resolved.mgpu_per_node,
            pinned=None if resolved.cluster is None else str(resolved.cluster.pk),
            image=request.image,
        ),
        features=frozenset(request.features) or None,
        has_image=request.image is not None,
    )
    plan = decide(replace(snapshot, queued=(*snapshot.queued, job)), Policy())
    start = next((item for item in plan.starts if item.job == job.id), None)
    waiting = next((item for item in plan.waiting if item.job == job.id), None)
    cluster = None
    if start is not None:
        guaranteed_mgpu = start.guaranteed_mgpu
        cluster = Cluster.objects.values_list("name", flat=True).get(pk=start.cluster)
        explanation = plain_explanation(
            WOULD_START,
            f"It would start now on {cluster}.",
            now,
            {"need_mgpu": job.mgpu, "borrowed_mgpu": job.mgpu - guaranteed_mgpu},
        )
    else:
        guaranteed_mgpu = _guaranteed_later(snapshot, plan, job)
        assert waiting is not None
        explanation = {**reason_document(waiting, job, names, now=now), "victims": []}
    is_refused = bool(refused_of(resolved.notes))
    unmet = [one for one in resolved.predecessors if not fate(one.condition, one.state)]
    is_lost = any(fate(one.condition, one.state) is False for one in unmet)
    if resolved.never is not None:
        sentence, numbers = never_sentence(resolved, resolved.never)
        explanation = plain_explanation("never_fits", sentence, now, numbers)
    elif request.is_held and not is_lost:
        explanation = plain_explanation(
            HELD_BY_USER, "It would be held until somebody releases it.", now
        )
    elif unmet:
        told = waited_for_sentence([(one.name, one.condition, one.state) for one in unmet], 0)
        explanation = plain_explanation(DEPENDENCY, told, now, {"jobs_waited_for": len(unmet)})
    return Preview(
        resolved=resolved,
        fits=resolved.never is None and not is_refused and not is_lost,
        would_start_now=start is not None and not request.is_held and not is_refused and not unmet,
        guaranteed_mgpu=guaranteed_mgpu,
        cluster=cluster,
        cost=cost_per_hour_nano(
            organization_id=resolved.team.organization_id,
            pool_id=resolved.pool.pk,
            guaranteed_mgpu=guaranteed_mgpu,
            borrowed_mgpu=job.mgpu - guaranteed_mgpu,
            multiplier_ppm=resolved.priority_class.price_multiplier_ppm,
            now=now,
        ),
        explanation=explanation,
    )


def _guaranteed_later(snapshot: Snapshot, plan: Plan, job: QueuedJob) -> int:
    """What of a job that waits is inside its team's guarantee as things stand: all of it while
    it fits beside the protected ones, else what of the guarantee is not in use at all."""
    guaranteed_mgpu = next(
        (
            quota.guaranteed_mgpu
            for quota in snapshot.quotas
            if quota.node == job.team and quota.pool == job.pool
        ),
        0,
    )
    use = next((use for use in plan.use if use.node == job.team and use.pool == job.pool), None)
    if use is None or use.protected_mgpu + job.mgpu <= guaranteed_mgpu:
        return min(job.mgpu, guaranteed_mgpu)
    return min(job.mgpu, max(0, guaranteed_mgpu - use.in_use_mgpu))
