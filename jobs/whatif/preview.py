"""The preview of a request: the arbiter decides as if it were submitted now, without effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from uuid_utils.compat import uuid7

from arbiter.api.plan import Code
from arbiter.api.policy import Policy
from arbiter.api.snapshot import OtherPool, QueuedJob, Snapshot
from arbiter.cycle.result import Decided
from arbiter.cycle.scheduler import Core
from arbiter.explain.sentences import Names
from billing.queries import PresentCost, present_cost
from clusters.models import Cluster, Pool
from jobs.arbitration.reasons import reason_document, withheld_document
from jobs.arbitration.snapshots import display_names, one_instant, read_queue
from jobs.models import Condition, Launch
from jobs.queue.budget_stops import BudgetStops
from jobs.queue.dependencies import fate
from jobs.queue.reason_documents import HELD_BY_USER
from jobs.queue.withheld_by_amount import withheld_by_amount
from jobs.queue.withholding import (
    BEGIN_TIME,
    BUDGET_EXHAUSTED,
    DEPENDENCY,
    SINGLETON,
    USER_CAP_REACHED,
    Withheld,
    first_open_of_name,
    withheld_sentence,
)
from jobs.reading.explaining import (
    WOULD_START,
    not_set_up,
    plain_explanation,
    waited_for_sentence,
)
from jobs.submission.never_fits import never_sentence
from jobs.submission.requests import JobRequest
from jobs.submission.resolved_requests import ResolvedRequest
from jobs.submission.sbatch_notes import refused_of
from jobs.submission.submission import check_begin, resolve
from jobs.submission.usable_clusters import UsableClusters
from jobs.whatif.budget_effects import BudgetEffect, budget_effects, wanted_job
from jobs.whatif.heavy_answers import ONE_CYCLE, worked_out
from quotas.unprepared import unprepared_clusters
from tenants.access import Actor


@dataclass(frozen=True, slots=True)
class Preview:
    """The arbiter's answer to a request at this moment. It reserves nothing.

    - `mgpu`: the milli-GPU that the job would start with now, or would wait for.
    - `guaranteed_mgpu`: the part of them inside the team's guarantee.
    - `pool`: the pool of the start, or of the reason why the job would wait.
    - `cost`: that of an hour; None without a price.
    - `budgets`: the effect on the budgets that the actor may see.
    """

    resolved: ResolvedRequest
    fits: bool
    would_start_now: bool
    mgpu: int
    guaranteed_mgpu: int
    cluster: str | None
    pool: str
    cost: PresentCost | None
    budgets: Sequence[BudgetEffect]
    explanation: dict[str, Any]

    @property
    def cost_cap_after_s(self) -> int | None:
        """Return the seconds of run until the cost cap at `cost`; None without a cap or cost."""
        cap_nano = self.resolved.request.cost_cap_nano
        if cap_nano is None or self.cost is None or self.cost.billed_nano == 0:
            return None
        return -(-cap_nano * 3_600 // self.cost.billed_nano)


def preview_job(request: JobRequest, *, actor: Actor, now: datetime) -> Preview:
    """Decide as if `request` were submitted now. Changes nothing.

    Raises as `jobs.submission.submission.resolve` does, and TooManyRequests while other previews
    are computed.
    """
    resolved = check_begin(resolve(request, actor=actor), now)
    with worked_out(ONE_CYCLE):
        return Previews(read_moment(now), actor=actor, now=now).of(resolved)


class Moment(NamedTuple):
    """The input of decisions, read at one instant."""

    snapshot: Snapshot
    policy: Policy
    names: Names
    usable: UsableClusters
    stops: BudgetStops
    withheld: tuple[Withheld, ...]


def read_moment(now: datetime) -> Moment:
    """Return the input of decisions at this moment.

    It must be the outermost transaction, or run within `one_instant`.
    """
    with one_instant():
        snapshot, policy, withheld, stops = read_queue(now)
        return Moment(snapshot, policy, display_names(), UsableClusters(), stops, withheld)


class Previews:
    """Previews of requests of one actor, each decided as if it alone were queued at one moment.

    `instead_of` is the id of a queued job that each of them would replace.
    """

    def __init__(
        self, moment: Moment, *, actor: Actor, now: datetime, instead_of: str | None = None
    ) -> None:
        self._moment = moment
        self._instead_of = instead_of
        self._core = Core.of(moment.snapshot, moment.policy)
        self._actor = actor
        self._now = now

    def of(self, resolved: ResolvedRequest) -> Preview:
        """Return the preview of the request."""
        job = _as_queued(resolved, self._moment, self._actor)
        self._core.queue(job)
        try:
            decided = self._core.decide(job.submitted_at)
            return _preview_of(
                resolved,
                job,
                decided,
                self._moment,
                self._now,
                self._same_name(resolved),
                self._budgets(job, resolved),
            )
        finally:
            self._core.withdraw(job.id)

    def _budgets(
        self, job: QueuedJob, resolved: ResolvedRequest
    ) -> tuple[Withheld | None, Sequence[BudgetEffect]]:
        """Return how a cap or budget would stop the request, and its effect on all budgets."""
        wanted = wanted_job(job.id, resolved, self._actor, self._now)
        by_amount = (BUDGET_EXHAUSTED, USER_CAP_REACHED)
        left_out = {one.job for one in self._moment.withheld if one.code not in by_amount}
        if self._instead_of is not None:
            left_out.add(self._instead_of)
        withheld = withheld_by_amount(self._moment.stops, left_out, self._now, wanted)
        stop = next((one for one in withheld if one.job == wanted.id), None)
        array = resolved.request.array
        return stop, budget_effects(
            wanted.shape,
            resolved.team,
            tasks=1 if array is None else array.size,
            actor=self._actor,
            now=self._now,
        )

    def _same_name(self, resolved: ResolvedRequest) -> tuple[str, str] | None:
        """Return the name and state of the job that a singleton would wait for."""
        if not resolved.request.is_singleton:
            return None
        return first_open_of_name(
            resolved.request.name,
            user_id=self._actor.user.pk,
            organization_id=resolved.team.organization_id,
        )


def _as_queued(resolved: ResolvedRequest, moment: Moment, actor: Actor) -> QueuedJob:
    """Return the queued job that the request would become."""
    request, usable = resolved.request, moment.usable
    return QueuedJob(
        id=str(uuid7()),
        team=str(resolved.team.pk),
        user=str(actor.user.pk),
        pool=str(resolved.pool.pk),
        mgpu_per_node=resolved.mgpu_per_node,
        node_count=resolved.node_count,
        priority_class=str(resolved.priority_class.pk),
        submitted_at=moment.snapshot.taken_at,
        time_limit_s=request.time_limit_s,
        clusters=_usable(resolved, usable, actor),
        features=frozenset(request.features) or None,
        has_image=request.image is not None,
        required_topology=request.required_topology,
        preferred_topology=request.preferred_topology,
        cpu_milli=request.cpu_milli_per_node,
        memory_mib=request.memory_mib_per_node,
        node_count_max=resolved.node_count_max,
        others=tuple(
            OtherPool(str(one.pool.pk), _usable(one, usable, actor)) for one in resolved.others
        ),
    )


def _preview_of(
    resolved: ResolvedRequest,
    job: QueuedJob,
    decided: Decided,
    moment: Moment,
    now: datetime,
    same_name: tuple[str, str] | None,
    budgets: tuple[Withheld | None, Sequence[BudgetEffect]],
) -> Preview:
    request = resolved.request
    stop, effects = budgets
    start = next((item for item in decided.plan.starts if item.job == job.id), None)
    # Reasons are computed only if this job is among those that wait.
    plan = decided.plan if start is not None else decided.explained()
    waiting = next((item for item in plan.waiting if item.job == job.id), None)
    cluster, mgpu = None, job.mgpu
    place = start or waiting
    assert place is not None
    here = next(
        one for one in resolved.in_each_pool if str(one.pool.pk) == (place.pool or job.pool)
    )
    if start is not None:
        mgpu, guaranteed_mgpu = sum(slot.mgpu for slot in start.slots), start.guaranteed_mgpu
        cluster = Cluster.objects.values_list("name", flat=True).get(pk=start.cluster)
        explanation = plain_explanation(
            WOULD_START,
            f"It would start now on {cluster}"
            f"{f' in {here.pool.name}' if job.others else ''}{_so_many(job, mgpu, here.pool)}.",
            now,
            {"need_mgpu": mgpu, "borrowed_mgpu": mgpu - guaranteed_mgpu},
        )
    else:
        guaranteed_mgpu = decided.guaranteed_of(job.in_pool(str(here.pool.pk)))
        assert waiting is not None
        explanation = {
            **reason_document(waiting, job, moment.names, stops=moment.stops, now=now),
            "victims": [],
        }
        if waiting.code is Code.CLUSTER_UNAVAILABLE:
            explanation["sentence"] += _not_set_up(here)
    refused = refused_of(resolved.notes)
    begins_later = request.begin_at is not None and request.begin_at > now
    unmet = [one for one in resolved.predecessors if not fate(one.condition, one.state)]
    is_lost = any(fate(one.condition, one.state) is False for one in unmet)
    if refused:
        lines = "; ".join(f"line {one.line}: {one.text}: {one.detail}" for one in refused[:3])
        more = "; and more" if len(refused) > 3 else ""
        explanation = plain_explanation(
            "never_fits",
            f"It would be refused and could run nowhere: {lines.rstrip('.')}{more}.",
            now,
        )
    elif resolved.hopeless is not None:
        sentence, numbers = never_sentence(*resolved.hopeless)
        explanation = plain_explanation("never_fits", sentence, now, numbers)
    elif request.held and not is_lost:
        explanation = plain_explanation(
            HELD_BY_USER, "The job would be held until a person releases it.", now
        )
    elif begins_later:
        assert request.begin_at is not None
        numbers = {"begin_at": int(request.begin_at.timestamp())}
        withheld = Withheld(job.id, BEGIN_TIME, numbers)
        explanation = plain_explanation(BEGIN_TIME, withheld_sentence(withheld), now, numbers)
    elif unmet:
        text = waited_for_sentence([(one.name, one.condition, one.state) for one in unmet], 0)
        explanation = plain_explanation(DEPENDENCY, text, now, {"jobs_waited_for": len(unmet)})
    elif same_name is not None:
        name, state = same_name
        text = waited_for_sentence([(name, Condition.ENDED.value, state)], 0)
        explanation = plain_explanation(SINGLETON, text, now)
    elif stop is not None:
        explanation = {**withheld_document(stop, now), "victims": []}
    return Preview(
        resolved=resolved,
        fits=resolved.hopeless is None and not refused and not is_lost,
        would_start_now=start is not None
        and not request.held
        and not refused
        and not unmet
        and same_name is None
        and not begins_later
        and stop is None,
        mgpu=mgpu,
        guaranteed_mgpu=guaranteed_mgpu,
        cluster=None if refused else cluster,
        pool=here.pool.name,
        cost=present_cost(
            organization_id=resolved.team.organization_id,
            pool_id=here.pool.pk,
            guaranteed_mgpu=guaranteed_mgpu,
            borrowed_mgpu=mgpu - guaranteed_mgpu,
            multiplier_ppm=resolved.priority_class.price_multiplier_ppm,
            seconds=3_600,
            now=now,
        ),
        budgets=effects,
        explanation=explanation,
    )


def _not_set_up(resolved: ResolvedRequest) -> str:
    """Return a sentence on clusters that need a push of the quotas; "" if there are none."""
    clusters = unprepared_clusters(
        resolved.team.pk,
        resolved.pool.pk,
        None if resolved.cluster is None else resolved.cluster.pk,
    )
    return f" {not_set_up(resolved.team.display_path, clusters)}" if clusters else ""


def _usable(
    resolved: ResolvedRequest, usable: UsableClusters, actor: Actor
) -> frozenset[str] | None:
    """Return the clusters that may run the request in its pool."""
    return usable.of(
        team=str(resolved.team.pk),
        user=str(actor.user.pk),
        pool=str(resolved.pool.pk),
        mgpu_per_node=resolved.mgpu_per_node,
        time_limit_s=resolved.request.time_limit_s,
        pinned=None if resolved.cluster is None else str(resolved.cluster.pk),
        image=resolved.request.image,
        batch_nodes=resolved.node_count_max if resolved.request.launch == Launch.BATCH else 0,
        is_manifest=resolved.request.launch == Launch.MANIFEST,
    )


def _so_many(job: QueuedJob, mgpu: int, pool: Pool) -> str:
    """Return the size that an elastic job would start with, in words; "" for other jobs."""
    if job.node_count_max is None or job.node_count_max == job.node_count:
        return ""
    return f" with {pool.kind.text(mgpu)}"
