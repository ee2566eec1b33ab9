"""The plan of a longer time limit: its end, its cost, and the jobs that it delays (R-116)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from arbiter.explain.phrases import duration_text
from clusters.models import Cluster, Pool
from jobs.access import check_may_manage, may_manage, visible_jobs
from jobs.actions.extending import check_extendable, ends_at, extended_limit_s, notice_ahead
from jobs.arbitration.snapshots import read_queue
from jobs.models import Attempt, Job
from jobs.submission.offers import offer_to
from jobs.whatif.extension_costs import ExtensionCosts, extension_costs
from jobs.whatif.heavy_answers import FUTURE, worked_out
from primitives.clock import from_epoch
from primitives.errors import FieldError, InvalidRequest, NotFound
from quotas.time_limits import longest_of
from simulator.what_if import HORIZON_S_MAX, Difference, LongerLimit, Shift, what_if
from tenants.access import Actor
from tenants.models import Node
from webapi.row_access import all_rows

_HORIZON_S_MIN = 86_400
_UNSEEN_REFUSAL = (
    "It may delay waiting jobs that you may not manage, later than the look-ahead reaches. "
    "Ask for less, or ask somebody who may manage these jobs to extend it."
)
#: The most delayed jobs that a plan names; it counts all.
NAMED_MAX = 50


class Delay(NamedTuple):
    """A waiting job that starts later; `after` is None if not before the look-ahead ends."""

    job: str
    name: str
    team: str
    user: str
    before: datetime | None
    after: datetime | None
    later_s: int
    is_at_least: bool


@dataclass(frozen=True, slots=True)
class ExtensionPlan:
    """The effect of a longer time limit.

    Times are None for a job that waits. `delays` has the delayed jobs that the actor may see, and
    `delayed_jobs` counts all. `unseen` says why there may be more delays than these; it is "" where
    the look-ahead saw the new end. `refusal` is "" where the actor may extend the job so.
    """

    job_id: UUID
    before_s: int
    limit_s: int
    ends_before: datetime | None
    ends_at: datetime | None
    notice_at: datetime | None
    mgpu: int
    costs: ExtensionCosts
    delays: Sequence[Delay]
    delayed_jobs: int
    until: datetime
    is_cut: bool
    unseen: str
    refusal: str


def plan_extension(
    job_id: UUID, *, by_s: int | None, to_s: int | None, actor: Actor, now: datetime
) -> ExtensionPlan:
    """Return the plan of a time limit longer by `by_s`, or of `to_s` seconds. Changes nothing.

    Raises NotFound, Forbidden, and Conflict for a job that cannot be extended. Raises
    InvalidRequest for a limit that its pools, team, class or clusters do not allow, and
    TooManyRequests while another look-ahead is computed.
    """
    job = (
        visible_jobs(actor)
        .filter(pk=job_id)
        .select_related("team", "user", "pool", "priority_class", "cluster")
        .first()
    )
    if job is None:
        raise NotFound("There is no such job that you can see.")
    check_may_manage(job, actor)
    attempt = Attempt.objects.select_related("cluster").filter(job=job, released_at=None).first()
    limit_s = extended_limit_s(job, by_s=by_s, to_s=to_s)
    check_extendable(job, attempt, now)
    pools = list(Pool.objects.filter(pk__in=job.pools or [job.pool_id]))
    _check_longest(job, pools, limit_s, by_s)
    _check_clusters(job, attempt, pools, limit_s, by_s)
    before_s = job.time_limit_s
    assert before_s is not None
    with worked_out(FUTURE):
        # One snapshot of one instant: it must be the outermost transaction.
        snapshot, policy, *_ = read_queue(now)
        change = LongerLimit(str(job.pk), frozenset(str(pool.pk) for pool in pools), limit_s)
        found = what_if(snapshot, policy, change, _horizon_s(job, attempt, limit_s, now))
    end = ends_at(job, attempt, limit_s)
    delays, delayed, refusal = _delays(found, actor)
    unseen = _unseen(found, job, attempt, limit_s)
    if unseen and not refusal and _has_foreign(found, job, actor):
        refusal = _UNSEEN_REFUSAL
    costs = extension_costs(job, attempt, limit_s, actor=actor, now=now)
    return ExtensionPlan(
        job_id=job.pk,
        before_s=before_s,
        limit_s=limit_s,
        ends_before=ends_at(job, attempt, before_s),
        ends_at=end,
        notice_at=None if end is None else end - notice_ahead(job, limit_s),
        mgpu=job.mgpu if attempt is None else attempt.mgpu,
        costs=costs,
        delays=delays,
        delayed_jobs=delayed,
        until=from_epoch(found.until),
        is_cut=found.is_cut,
        unseen=unseen,
        refusal=refusal or costs.refusal,
    )


def _check_longest(job: Job, pools: Sequence[Pool], limit_s: int, by_s: int | None) -> None:
    """Raise InvalidRequest for a limit above the longest of the pools, team or class (R-114)."""
    longest = longest_of(offer_to(job.team, job.user).bounds(job.priority_class, pools))
    if longest is not None and limit_s > longest.limit_s:
        _refuse(
            f"{duration_text(limit_s)} is longer than {duration_text(longest.limit_s)}, the "
            f"longest time limit of {longest.owner}",
            by_s,
        )


def _check_clusters(
    job: Job, attempt: Attempt | None, pools: Sequence[Pool], limit_s: int, by_s: int | None
) -> None:
    """Raise InvalidRequest if the job's cluster, or every cluster of one that waits, ends it."""
    names = [pool.name for pool in pools]
    if attempt is not None:
        clusters, names = [attempt.cluster], [job.pool.name]
    elif job.cluster is not None:
        clusters = [job.cluster]
    else:
        clusters = list(Cluster.objects.filter(nodes__pool__in=pools, archived_at=None).distinct())
    longest = [cluster.time_limits.get(name) for cluster in clusters for name in names]
    if longest and all(most_s is not None and most_s < limit_s for most_s in longest):
        most_s = max(most_s for most_s in longest if most_s is not None)
        where = clusters[0].name if len(clusters) == 1 else "any cluster of its pool"
        _refuse(
            f"{duration_text(limit_s)} is longer than {duration_text(most_s)}, the longest time "
            f"limit on {where}",
            by_s,
        )


def _refuse(detail: str, by_s: int | None) -> None:
    name = "time_limit_s" if by_s is None else "by_s"
    raise InvalidRequest(
        f"{name}: {detail}; ask for at most that.",
        errors=[FieldError(f"/{name}", detail, "out_of_range")],
    )


def _horizon_s(job: Job, attempt: Attempt | None, limit_s: int, now: datetime) -> int:
    """Return how far to look ahead: a day beyond the new end, or as far as possible.

    The end of a waiting job is not known before the look-ahead.
    """
    end = ends_at(job, attempt, limit_s)
    if end is None:
        return HORIZON_S_MAX
    left_s = int((end - now).total_seconds()) + _HORIZON_S_MIN
    return max(_HORIZON_S_MIN, min(left_s, HORIZON_S_MAX))


def _unseen(found: Difference, job: Job, attempt: Attempt | None, limit_s: int) -> str:
    """Return the sentence for a look-ahead that ends before the new end of the job, or "".

    A job that is held or withheld is in no look-ahead, so its limit delays none of its starts.
    """
    running_end = ends_at(job, attempt, limit_s)
    if running_end is not None:
        end: float | None = running_end.timestamp()
    elif all(one.id != str(job.pk) for one in found.waiting):
        return ""
    else:
        start = found.starts.get(str(job.pk))
        end = None if start is None else start + limit_s
    if end is not None and end <= found.until:
        return ""
    return (
        f"The look-ahead covers {duration_text(found.until - found.taken_at)}, and the new end is "
        "later. More waiting jobs may be delayed than it shows."
    )


@all_rows()
def _has_foreign(found: Difference, job: Job, actor: Actor) -> bool:
    """Return whether the actor may not manage one of the waiting jobs beside `job`."""
    owners = {(one.user, one.team) for one in found.waiting if one.id != str(job.pk)}
    teams = Node.objects.filter(pk__in={team for _, team in owners})
    paths = {str(pk): path for pk, path in teams.values_list("pk", "path")}
    return any(
        not may_manage(actor, user_id=UUID(user), team_path=paths[team]) for user, team in owners
    )


@all_rows()
def _delays(found: Difference, actor: Actor) -> tuple[list[Delay], int, str]:
    """Return the delays that the actor may see, the number of all, and why they are too many.

    An extension may delay only jobs that the actor may manage, so those of other organizations
    count.
    """
    later: dict[UUID, Shift] = {UUID(one.job): one for one in found.shifts if one.sooner_s < 0}
    if not later:
        return [], 0, ""
    rows = list(
        Job.objects.filter(pk__in=later).values_list(
            "pk", "name", "team__path", "user_id", "user__username"
        )
    )
    foreign = [
        pk
        for pk, _, path, user_id, _ in rows
        if not may_manage(actor, user_id=user_id, team_path=path)
    ]
    seen = set(visible_jobs(actor).filter(pk__in=later).values_list("pk", flat=True))
    delays = [_delay(later[pk], name, path, user) for pk, name, path, _, user in rows if pk in seen]
    delays.sort(key=lambda one: (-one.later_s, one.job))
    return delays[:NAMED_MAX], len(later), _refusal([later[pk] for pk in foreign])


def _refusal(foreign: Sequence[Shift]) -> str:
    if not foreign:
        return ""
    longest_s = max(-one.sooner_s for one in foreign)
    many = "1 waiting job" if len(foreign) == 1 else f"{len(foreign)} waiting jobs"
    return (
        f"It would delay {many} that you may not manage, by up to {duration_text(longest_s)}. "
        "Ask for less, or ask somebody who may manage these jobs to extend it."
    )


def _delay(shift: Shift, name: str, path: str, user: str) -> Delay:
    return Delay(
        job=shift.job,
        name=name,
        team=path.rstrip("/"),
        user=user,
        before=None if shift.before is None else from_epoch(shift.before),
        after=None if shift.after is None else from_epoch(shift.after),
        later_s=-shift.sooner_s,
        is_at_least=shift.is_at_least,
    )
