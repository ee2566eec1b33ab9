"""Jobs and everything around them that an actor may see, for lists, pages and the API.

A page of jobs costs a constant number of queries, whatever its size. It never loads scripts or
environments, and nothing is counted.

The ids of a page come from a first statement with the filter's values in its text, so that the
planner can choose among the indexes. A second statement reads the jobs by their ids; it is planned
once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import F, QuerySet

from arbiter.api.plan import Code
from audit.models import AuditEvent
from audit.recording import record
from billing.queries import USAGE_OF_JOB
from clusters.models import Cluster
from connectors.registry import kinds_where
from jobs.access import may_read_content, visible_arrays, visible_jobs
from jobs.lifecycle import NOT_STARTED, WAITING
from jobs.models import (
    Attempt,
    AttemptState,
    Condition,
    Dependency,
    Job,
    JobEvent,
    JobState,
    Schedule,
    ScheduleRun,
)
from jobs.queue.dependencies import array_states
from jobs.queue.withholding import (
    ARRAY_LIMIT_REACHED,
    DEPENDENCY,
    SINGLETON,
    FirstTask,
    first_of_their_name,
    first_tasks,
)
from jobs.reading.job_orders import Order, Position
from jobs.reading.listing import JobFilter, page_of_jobs
from jobs.submission.job_members import STORED_IN_LISTS, STORED_ON_PAGES
from outbox.models import Message
from outbox.quarantine import open_quarantine, sentence_of
from primitives.errors import Forbidden, NotFound
from quotas.models import Quota
from quotas.unprepared import unprepared_clusters
from quotas.user_numbers import demo_users, is_for_the_demo
from tenants.access import Actor
from tenants.models import Node
from tenants.roles import Permission
from webapi.middleware import current_request_id
from webapi.row_access import all_rows
from webapi.statements import array_text, prepared_cursor

#: Maximum number of victims in one explanation.
VICTIMS_MAX = 100
#: Maximum number of named predecessors in one explanation.
WAITED_FOR_MAX = 3
#: Maximum number of lines of a timeline: the latest.
HISTORY_MAX = 1_000
#: Repeated reading of a job by an administrator is recorded once in this time.
READING_RECORDED_EVERY = timedelta(minutes=15)
#: Number of the organization's latest audit events that are searched for that.
_EVENTS_SEARCHED = 200
#: In these states an attempt waits for its cluster.
_BETWEEN_STATES = frozenset({AttemptState.RESERVED, AttemptState.STARTING, AttemptState.STOPPING})
_WAITING = array_text(state.value for state in WAITING)
_PLACED = (JobState.STARTING, JobState.RUNNING)
_SHOWN_OUTCOMES = ("unknown", NOT_STARTED)
_SHOWN_KINDS = ("start_attempt", "notify_attempt", "stop_attempt")


def require_log(view: JobView, actor: Actor) -> None:
    """Raise Forbidden for a visible job whose log the actor may not read."""
    if not may_read_content(actor, user_id=view.job.user_id, team_path=view.job.team__path):
        raise Forbidden("You can see this job but not read its log; its owner can.")


class JobRow(NamedTuple):
    """A job as lists show it. The members have the order of `_PAGE`.

    `stored` are the members of its request that lists show (`jobs.submission.job_members`).
    """

    id: UUID
    name: str
    type: str
    origin: str
    state: str
    organization_id: UUID
    organization__slug: str
    team__path: str
    user_id: UUID
    user__username: str
    pool__name: str
    pool__device: str
    pool_names: Sequence[str]
    priority_class__name: str
    cluster__name: str | None
    mgpu_per_node: int
    node_count: int
    least_node_count: int
    submitted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    end_reason: str | None
    exit_code: int | None
    cancel_requested_at: datetime | None
    attempt_number: int
    explanation: Mapping[str, Any] | None
    explained_at: datetime | None
    array_id: UUID | None
    array_index: int | None
    array__size: int | None
    stored: Mapping[str, Any]

    @property
    def mgpu(self) -> int:
        """Return the milli-GPU that the job requests in total; of an elastic job the maximum."""
        return self.mgpu_per_node * self.node_count


class AttemptRow(NamedTuple):
    """An attempt as pages show it. The members have the order of `_PAGE`.

    `reclaim__*` name the job for which it is or was preempted. In a page of jobs `slots` and
    `exit_codes` are JSON texts, because nothing reads them.
    """

    id: UUID
    job_id: UUID
    number: int
    cluster__name: str
    state: str
    native_id: str | None
    native_state: str
    slots: Sequence[Mapping[str, Any]] | str
    mgpu: int
    guaranteed_mgpu: int
    granted_at: datetime
    started_at: datetime | None
    checkpoint_at: datetime | None
    notice_at: datetime | None
    grace_until: datetime | None
    ended_at: datetime | None
    released_at: datetime | None
    stop_reason: str | None
    outcome: str | None
    exit_codes: Mapping[str, int] | str
    message: str
    reclaim__job_id: UUID | None
    reclaim__job__user_id: UUID | None
    reclaim__job__team__path: str | None
    reclaim__job__name: str | None
    reclaim__job__mgpu_per_node: int | None
    reclaim__job__node_count: int | None


class VictimRow(NamedTuple):
    """A job that is preempted for the job `reclaim__job_id`."""

    reclaim__job_id: UUID
    job_id: UUID
    job__name: str
    job__user_id: UUID
    job__team__path: str
    mgpu: int
    notice_at: datetime | None
    grace_until: datetime | None
    started_at: datetime | None
    checkpoint_at: datetime | None
    job__checkpoint_path: str | None
    job__notice_signal: str


class Trouble(NamedTuple):
    """The reason why the portal cannot reach the cluster of an attempt.

    - `failing_since`: since when the cluster does not answer; None: it answers.
    - `kind`: the kind of the message that is not delivered yet; "" for none.
    - `tries`: the number of tries since `asked_at`.
    - `error`: the connector's words at the last try.
    """

    failing_since: datetime | None
    kind: str = ""
    tries: int = 0
    asked_at: datetime | None = None
    error: str = ""


class WaitedForRow(NamedTuple):
    """An open dependency of `job_id` and its predecessor: a job, or an array that runs."""

    job_id: UUID
    id: UUID
    name: str
    state: str
    user_id: UUID
    team_path: str
    condition: str


@dataclass(frozen=True, slots=True)
class JobView:
    """A job with everything around it that is shown. Usage so far is in milli-GPU-seconds.

    - `attempt`: the latest, unless the job waits.
    - `ended_attempt`: the latest of a job that waits again, if its end explains why.
    - `trouble`: that of an attempt which starts, runs or stops.
    - `waited_for`: the first open dependencies, or the first job of its name.
    - `unmapped`: the clusters that it may not use only because its user is not mapped there.
    - `unisolated`: the clusters that accept jobs of demo users only.
    - `unprepared`: the clusters that need a push of the quotas for its team.
    - `too_short`: the clusters with a shorter time limit than it requests, and that limit in
      seconds.
    - `quarantine`: the sentence of a quarantine, in which nothing starts; else "".
    - `first_task`: the task of its array that starts before it, if the array's limit delays it.
    - `archived`: the archived clusters with suitable nodes.
    - `guarantees`: the guarantees by which it could reclaim GPUs, as (path, milli-GPU). Only for a
      single job that waits for free GPUs.
    - `taken_back`: a sentence if its previous attempt was withdrawn from a silent cluster. Only for
      a single job that is placed.
    """

    job: JobRow
    attempt: AttemptRow | None
    victims: Sequence[VictimRow]
    guaranteed_mgpu_s: int
    borrowed_mgpu_s: int
    ended_attempt: AttemptRow | None = None
    trouble: Trouble | None = None
    waited_for: Sequence[WaitedForRow] = ()
    unmapped: Sequence[str] = ()
    unisolated: Sequence[str] = ()
    unprepared: Sequence[str] = ()
    too_short: Sequence[tuple[str, int]] = ()
    quarantine: str = ""
    first_task: FirstTask | None = None
    guarantees: Sequence[tuple[str, int]] = ()
    taken_back: str = ""
    why_chosen: str = ""
    archived: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class JobContent:
    """The content of a job, which only the page of that job shows.

    Script and environment are None if the actor may not read them. `stored` are the members of the
    request that only this page shows.
    """

    script: str | None
    environment: Mapping[str, str] | None
    notes: Sequence[Mapping[str, Any]]
    stored: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of the list of jobs, and the position after which the next page begins."""

    jobs: Sequence[JobView]
    following: Position | None


def list_jobs(
    actor: Actor,
    wanted: JobFilter,
    *,
    order: Order,
    after: Position | None,
    limit: int,
    now: datetime,
) -> JobPage:
    """Return the page of at most `limit` visible jobs after `after`.

    Raises InvalidRequest for a team that the actor cannot see.
    """
    found = page_of_jobs(actor, wanted, order=order, after=after, limit=limit + 1)
    shown = found[:limit]
    views = views_of([one.job_id for one in shown], now=now)
    return JobPage(views, shown[-1] if len(found) > limit else None)


def views_of(job_ids: Sequence[UUID], *, now: datetime) -> list[JobView]:
    """Return the jobs with these ids, in their order, without those deleted meanwhile."""
    return _views(array_text(job_ids), now=now)


def get_job(job_id: UUID, *, actor: Actor, now: datetime) -> JobView:
    """Return one visible job. Raises NotFound, whether the job is absent or not visible."""
    _require_visible(job_id, actor)
    view = _views(array_text([job_id]), now=now)[0]
    if _waits_for_free_gpus(view.job):
        return replace(view, guarantees=_guarantees(view.job))
    if view.job.state == JobState.PREEMPTING:
        return replace(view, why_chosen=_why_chosen(view.job))
    if view.job.state in _PLACED and view.job.attempt_number > 1:
        return replace(view, taken_back=_taken_back(view.job))
    return view


def _taken_back(row: JobRow) -> str:
    """Return the message of a previous attempt withdrawn from a silent cluster, or ""."""
    messages = Attempt.objects.filter(
        job=row.id, number=row.attempt_number - 1, outcome=NOT_STARTED, notice_at=None
    ).values_list("message", flat=True)
    return messages.first() or ""


def _why_chosen(row: JobRow) -> str:
    """Return why credits chose the job as a victim, or "" if they did not."""
    notices = JobEvent.objects.filter(job_id=row.id, event="preempting").order_by("-pk")
    detail = notices.values_list("detail", flat=True).first() or {}
    return str(detail.get("why", ""))


def _waits_for_free_gpus(row: JobRow) -> bool:
    return row.explanation is not None and row.explanation["code"] in (
        Code.WAITING_FOR_FREE_GPUS,
        Code.BEHIND_CREDITS,
    )


@all_rows()
def _guarantees(row: JobRow) -> list[tuple[str, int]]:
    """Return the guarantees by which the job could reclaim GPUs, with their paths.

    They are those of its team and of the departments above, in the pool of the explanation. The
    organization's guarantee counts too if other organizations have quota in the pool.
    """
    assert row.explanation is not None
    quotas = Quota.objects.filter(pool__name=row.explanation.get("pool") or row.pool__name)
    names = row.team__path.rstrip("/").split("/")
    paths = ["/".join(names[:depth]) + "/" for depth in range(len(names), 0, -1)]
    if not quotas.filter(node__parent=None).exclude(node__path=paths[-1]).exists():
        paths.pop()
    known = dict(quotas.filter(node__path__in=paths).values_list("node__path", "guaranteed_mgpu"))
    return [(path, known[path]) for path in paths if path in known]


def get_content(view: JobView, *, actor: Actor, now: datetime) -> JobContent:
    """Return the content of a visible job; script and environment if the actor may read them.

    A platform administrator who reads the content of another user's job leaves an audit event.
    """
    script, environment, notes, *values = Job.objects.values_list(
        "script", "environment", "notes", *STORED_ON_PAGES
    ).get(pk=view.job.id)
    stored = dict(zip(STORED_ON_PAGES, values, strict=True))
    if not may_read_content(actor, user_id=view.job.user_id, team_path=view.job.team__path):
        # A note quotes lines of the script.
        return JobContent(None, None, [{**note, "text": ""} for note in notes], stored)
    record_reading(view.job, "script", actor=actor, now=now)
    return JobContent(script, environment, notes, stored)


def record_reading(job: JobRow, what: str, *, actor: Actor, now: datetime) -> None:
    """Record an audit event if a platform administrator reads `what` of another user's job.

    Repeated reading within a quarter of an hour is recorded once, unless much happened meanwhile.
    """
    if job.user_id == actor.user.pk or not actor.is_platform_admin:
        return
    latest = AuditEvent.objects.filter(organization_id=job.organization_id).order_by("-pk")
    for event in latest[:_EVENTS_SEARCHED]:
        if (
            event.action == "content_read"
            and event.actor_id == actor.user.pk
            and event.subject_id == str(job.id)
            and event.detail == {"what": what}
            and event.at > now - READING_RECORDED_EVERY
        ):
            return
    record(
        action="content_read",
        subject_kind="job",
        subject_id=job.id,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=job.organization_id,
        node_path=job.team__path,
        detail={"what": what},
        request_id=current_request_id(),
    )


class DependencyRow(NamedTuple):
    """A dependency of a job and its predecessor. `predecessor__state` may be that of an array."""

    predecessor_id: UUID | None
    predecessor__name: str | None
    predecessor__state: str | None
    predecessor__user_id: UUID | None
    predecessor__team__path: str | None
    array_id: UUID | None
    array__name: str | None
    array__user_id: UUID | None
    array__team__path: str | None
    condition: str
    is_met: bool | None


def get_dependencies(view: JobView) -> list[DependencyRow]:
    """Return all dependencies of a visible job, in the order of its request.

    The state of an array is `running` until the results of all its tasks are known.
    """
    found = Dependency.objects.filter(job=view.job.id).order_by("pk")
    rows = [DependencyRow(*values) for values in found.values_list(*DependencyRow._fields)]
    states = array_states({row.array_id for row in rows if row.array_id is not None})
    return [
        row if row.array_id is None else row._replace(predecessor__state=states.get(row.array_id))
        for row in rows
    ]


def get_schedule(view: JobView) -> Schedule | None:
    """Return the schedule that submitted a visible job, or the array of that job.

    It may be deleted.
    """
    runs = ScheduleRun.objects.select_related("schedule")
    array = view.job.array_id
    found = runs.filter(job=view.job.id) if array is None else runs.filter(job__array=array)
    run = found.first()
    return None if run is None else run.schedule


def get_attempts(job_id: UUID, *, actor: Actor) -> list[AttemptRow]:
    """Return the latest 500 attempts of a visible job, oldest first. Raises NotFound."""
    _require_visible(job_id, actor)
    latest = Attempt.objects.filter(job_id=job_id).order_by("-number")
    return [AttemptRow(*values) for values in latest.values_list(*AttemptRow._fields)[:500]][::-1]


def get_history(job_id: UUID, *, actor: Actor) -> list[tuple[datetime, str, Mapping[str, Any]]]:
    """Return (time, event, detail) of a visible job, oldest first. Raises NotFound.

    Clusters are given by name, and the team for which the job was stopped by its path. The path is
    None if the actor cannot see that team. So is a job or array that was waited for; else its name
    is added.
    """
    _require_visible(job_id, actor)
    latest = JobEvent.objects.filter(job_id=job_id).order_by("-pk")
    events = list(latest.values_list("at", "event", "detail")[:HISTORY_MAX])[::-1]
    clusters = _named(Cluster.objects.all(), "name", [e[2].get("cluster") for e in events])
    teams = _named(Node.objects.all(), "path", [e[2].get("for_team") for e in events])
    predecessors = _named(visible_jobs(actor), "name", [e[2].get("waited_for") for e in events])
    arrays = _named(visible_arrays(actor), "name", [e[2].get("waited_for_array") for e in events])
    shown: list[tuple[datetime, str, Mapping[str, Any]]] = []
    for at, event, stored in events:
        detail = dict(stored)
        if "waited_for_array" in detail and detail["waited_for_array"] not in arrays:
            detail["waited_for_array"] = None
        elif "waited_for_array" in detail:
            detail["waited_for_name"] = arrays[detail["waited_for_array"]]
        if "waited_for" in detail and detail["waited_for"] not in predecessors:
            detail["waited_for"] = None
        elif "waited_for" in detail:
            detail["waited_for_name"] = predecessors[detail["waited_for"]]
        if "cluster" in detail:
            detail["cluster"] = clusters.get(detail["cluster"])
        if "for_team" in detail:
            path = teams.get(detail["for_team"])
            is_seen = path is not None and actor.holds(Permission.VIEW_TREE, path)
            detail["for_team"] = path.rstrip("/") if path is not None and is_seen else None
        shown.append((at, event, detail))
    return shown


def _named(rows: QuerySet[Any], field: str, ids: Collection[str | None]) -> Mapping[str, str]:
    """Return `field` of the rows with these ids, by the text of the id. No ids: no query."""
    wanted = {text for text in ids if text is not None}
    if not wanted:
        return {}
    return {str(pk): value for pk, value in rows.filter(pk__in=wanted).values_list("pk", field)}


def row_of(job: Job) -> JobRow:
    """Return the row of a job whose related rows are loaded."""

    def value(path: str) -> Any:
        found: Any = job
        for step in path.split("__"):
            found = None if found is None else getattr(found, step)
        return found

    stored = {name: getattr(job, name) for name in STORED_IN_LISTS}
    return JobRow._make([*(value(path) for path in JobRow._fields[:-1]), stored])


def _require_visible(job_id: UUID, actor: Actor) -> None:
    if not visible_jobs(actor).filter(pk=job_id).exists():
        raise NotFound("There is no such job that you can see.")


def _views(job_ids: str, *, now: datetime) -> list[JobView]:
    """Return the jobs with these ids (the text of an array), in their order.

    Jobs that were deleted meanwhile are left out.
    """
    with prepared_cursor() as cursor:
        cursor.execute(_PAGE, {"jobs": job_ids, "waiting": _WAITING, "now": now})
        found = cursor.fetchall()
    job_start, job_end = len(STORED_IN_LISTS), len(STORED_IN_LISTS) + len(JobRow._fields) - 1
    rows = [
        JobRow._make((*values[job_start:job_end], dict(zip(STORED_IN_LISTS, values, strict=False))))
        for values in found
    ]
    victims = _victims([row.id for row in rows if _waits_for_victims(row)])
    waited_for = {
        **_waited_for([row.id for row in rows if _waits_for_jobs(row)]),
        **_of_same_name([row.id for row in rows if _waits_for_its_name(row)]),
    }
    first = first_tasks({row.array_id for row in rows if row.array_id and _waits_for_tasks(row)})
    without_cluster = [row.id for row in rows if _waits_for_a_cluster(row)]
    archived = _archived([row.id for row in rows if _has_no_place(row)])
    unmapped = _unmapped(without_cluster)
    unisolated = _unisolated(without_cluster)
    unprepared = _unprepared(without_cluster)
    too_short = _too_short(without_cluster)
    quarantine = open_quarantine() if without_cluster else None
    ended = _ended_attempts(
        [row.id for row in rows if row.state in WAITING and row.attempt_number > 0]
    )
    troubles = _troubles(
        [values[job_end] for values in found if values[job_end + 4] in _BETWEEN_STATES]
    )
    return [
        JobView(
            row,
            None if values[job_end] is None else AttemptRow._make(values[job_end:-2]),
            victims.get(row.id, ()),
            0 if values[-1] is None else values[-1][0],
            0 if values[-1] is None else values[-1][1],
            ended.get(row.id),
            troubles.get(values[job_end]) or _silence(values[job_end + 4], values[-2]),
            waited_for.get(row.id, ()),
            unmapped.get(row.id, ()),
            unisolated.get(row.id, ()),
            unprepared.get(row.id, ()),
            too_short.get(row.id, ()),
            "" if quarantine is None or row.id not in without_cluster else sentence_of(quarantine),
            first.get(row.array_id) if row.array_id and _waits_for_tasks(row) else None,
            archived=archived.get(row.id, ()),
        )
        for row, values in zip(rows, found, strict=True)
    ]


def _ended_attempts(job_ids: Sequence[UUID]) -> Mapping[UUID, AttemptRow]:
    """Return the latest attempts of these jobs whose outcome must be explained.

    Their result is unknown, or their cluster did not start them.
    """
    if not job_ids:
        return {}
    latest = Attempt.objects.filter(
        job__in=job_ids, number=F("job__attempt_number"), outcome__in=_SHOWN_OUTCOMES
    )
    rows = (AttemptRow(*values) for values in latest.values_list(*AttemptRow._fields))
    return {row.job_id: row for row in rows}


def _silence(attempt_state: str | None, failing_since: datetime | None) -> Trouble | None:
    """Return the trouble of a running attempt whose cluster does not answer."""
    if attempt_state != AttemptState.RUNNING or failing_since is None:
        return None
    return Trouble(failing_since)


def _troubles(attempt_ids: Sequence[UUID]) -> Mapping[UUID, Trouble]:
    """Return what keeps these attempts from starting or stopping. At most two queries."""
    if not attempt_ids:
        return {}
    found = {
        attempt_id: Trouble(failing_since)
        for attempt_id, failing_since in Attempt.objects.filter(
            pk__in=attempt_ids, cluster__failing_since__isnull=False
        ).values_list("pk", "cluster__failing_since")
    }
    # The last message wins: an attempt to be stopped need not start any more.
    for message in (
        Message.objects.filter(kind__in=_SHOWN_KINDS, subject__in=attempt_ids, done_at=None)
        .exclude(error="")
        .order_by("pk")
    ):
        known = found.get(message.subject, Trouble(None))
        found[message.subject] = Trouble(
            known.failing_since, message.kind, message.sends, message.created_at, message.error
        )
    return found


# The columns are the stored members of the request, then JobRow, then AttemptRow: of the
# latest attempt, unless the job waits again. The last two are since when its cluster is silent, and
# the use of the job so far.
# Names from small tables are sub-selects, because planning takes longer with more orders of joins:
# 2 ms with sub-selects, 20 ms with joins.
_PAGE = f"""
SELECT {", ".join(f"j.{name}" for name in STORED_IN_LISTS)},
       j.id, j.name, j.type, j.origin, j.state,
       j.organization_id, split_part(t.path, '/', 1), t.path, j.user_id, u.username,
       (SELECT name FROM clusters_pool WHERE id = j.pool_id),
       (SELECT device FROM clusters_pool WHERE id = j.pool_id),
       (SELECT array_agg(p.name ORDER BY w.place)
        FROM unnest(CASE WHEN j.pools = '{{}}' THEN ARRAY[j.pool_id] ELSE j.pools END)
            WITH ORDINALITY AS w (id, place)
        JOIN clusters_pool p ON p.id = w.id),
       (SELECT name FROM quotas_priorityclass WHERE id = j.priority_class_id),
       (SELECT name FROM clusters_cluster WHERE id = j.cluster_id),
       j.mgpu_per_node, j.node_count, coalesce(j.node_count_min, j.node_count),
       j.submitted_at, j.started_at, j.ended_at, j.end_reason, j.exit_code,
       j.cancel_requested_at, j.attempt_number, j.explanation, j.explained_at,
       j.array_id, j.array_index, (SELECT size FROM jobs_jobarray WHERE id = j.array_id),
       a.id, a.job_id, a.number, (SELECT name FROM clusters_cluster WHERE id = a.cluster_id),
       a.state, a.native_id, a.native_state, a.slots::text, a.mgpu, a.guaranteed_mgpu, a.granted_at,
       a.started_at, a.checkpoint_at, a.notice_at, a.grace_until, a.ended_at, a.released_at,
       a.stop_reason, a.outcome, a.exit_codes::text, a.message,
       r.job_id, b.user_id,
       CASE WHEN b.id IS NOT NULL THEN (SELECT path FROM tenants_node WHERE id = b.team_id) END,
       b.name, b.mgpu_per_node, b.node_count,
       (SELECT failing_since FROM clusters_cluster WHERE id = a.cluster_id),
       {USAGE_OF_JOB.format(job="j.id")}
FROM unnest(%(jobs)s::uuid[]) WITH ORDINALITY AS wanted (id, place)
JOIN jobs_job j ON j.id = wanted.id
JOIN tenants_node t ON t.id = j.team_id
JOIN tenants_user u ON u.id = j.user_id
LEFT JOIN jobs_attempt a
    ON a.job_id = j.id AND a.number = j.attempt_number AND j.state <> ALL(%(waiting)s::text[])
LEFT JOIN jobs_reclaim r ON r.id = a.reclaim_id
LEFT JOIN jobs_job b ON b.id = r.job_id
ORDER BY wanted.place
"""  # noqa: S608 - the words are ours


def _waits_for_jobs(row: JobRow) -> bool:
    return row.explanation is not None and row.explanation["code"] == DEPENDENCY


def _waits_for_tasks(row: JobRow) -> bool:
    return row.explanation is not None and row.explanation["code"] == ARRAY_LIMIT_REACHED


def _waited_for(job_ids: Sequence[UUID]) -> Mapping[UUID, Sequence[WaitedForRow]]:
    """Return the first few open dependencies of each of these jobs."""
    if not job_ids:
        return {}
    found: dict[UUID, list[WaitedForRow]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_WAITED_FOR, [list(job_ids), WAITED_FOR_MAX])
        for values in cursor.fetchall():
            found.setdefault(values[0], []).append(WaitedForRow._make(values))
    return found


def _waits_for_its_name(row: JobRow) -> bool:
    return row.explanation is not None and row.explanation["code"] == SINGLETON


def _of_same_name(job_ids: Sequence[UUID]) -> Mapping[UUID, Sequence[WaitedForRow]]:
    """Return the job of the same name that each of these jobs waits for."""
    return {
        found[0]: [WaitedForRow._make((*found, Condition.ENDED.value))]
        for found in first_of_their_name(job_ids)
    }


_WAITED_FOR = """
SELECT w.id, coalesce(p.id, a.id), coalesce(p.name, 'array ' || a.name),
       coalesce(p.state, 'running'), coalesce(p.user_id, a.user_id), t.path, d.condition
FROM unnest(%s::uuid[]) AS w (id)
CROSS JOIN LATERAL (
    SELECT id, predecessor_id, array_id, condition FROM jobs_dependency
    WHERE job_id = w.id AND closed_at IS NULL ORDER BY id LIMIT %s
) d
LEFT JOIN jobs_job p ON p.id = d.predecessor_id
LEFT JOIN jobs_jobarray a ON a.id = d.array_id
JOIN tenants_node t ON t.id = coalesce(p.team_id, a.team_id)
ORDER BY d.id
"""


def _waits_for_a_cluster(row: JobRow) -> bool:
    return row.explanation is not None and row.explanation["code"] == Code.CLUSTER_UNAVAILABLE


def _has_no_place(row: JobRow) -> bool:
    return row.explanation is not None and row.explanation["code"] in _WITHOUT_PLACE


_WITHOUT_PLACE = (Code.CLUSTER_UNAVAILABLE, Code.NEVER_FITS)


def _archived(job_ids: Sequence[UUID]) -> Mapping[UUID, Sequence[str]]:
    """Return the names of archived clusters whose nodes have the pool and features of a job."""
    if not job_ids:
        return {}
    found: dict[UUID, list[str]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_ARCHIVED, [list(job_ids)])
        for job_id, cluster in cursor.fetchall():
            found.setdefault(job_id, []).append(cluster)
    return found


_ARCHIVED = """
SELECT j.id, c.name
FROM jobs_job j
JOIN clusters_cluster c
    ON c.archived_at IS NOT NULL AND coalesce(j.cluster_id = c.id, true)
WHERE j.id = ANY(%s)
  AND EXISTS (
      SELECT FROM clusters_clusternode n
      WHERE n.cluster_id = c.id AND (n.pool_id = j.pool_id OR n.pool_id = ANY(j.pools))
        AND n.features @> to_jsonb(j.features)
  )
ORDER BY c.name
"""


def _unmapped(job_ids: Sequence[UUID]) -> Mapping[UUID, Sequence[str]]:
    """Return the names of the clusters on which the user of a job has no user.

    Only clusters with nodes of its pools count, and for a pinned job only that cluster.
    """
    if not job_ids:
        return {}
    found: dict[UUID, list[str]] = {}
    with connection.cursor() as cursor:
        kinds = kinds_where(lambda kind: kind.has_users)
        cursor.execute(_UNMAPPED, [kinds, list(job_ids)])
        for job_id, cluster in cursor.fetchall():
            found.setdefault(job_id, []).append(cluster)
    return found


_UNMAPPED = """
SELECT j.id, c.name
FROM jobs_job j
JOIN clusters_cluster c
    ON c.is_enabled AND c.kind = ANY(%s) AND coalesce(j.cluster_id = c.id, true)
WHERE j.id = ANY(%s)
  AND EXISTS (
      SELECT FROM clusters_clusternode n
      WHERE n.cluster_id = c.id AND (n.pool_id = j.pool_id OR n.pool_id = ANY(j.pools))
  )
  AND NOT EXISTS (
      SELECT FROM quotas_clusteruser u WHERE u.cluster_id = c.id AND u.user_id = j.user_id
  )
ORDER BY c.name
"""


def _unisolated(job_ids: Sequence[UUID]) -> Mapping[UUID, Sequence[str]]:
    """Return the names of the clusters that could run these jobs if they isolated them.

    See `quotas.user_numbers`.
    """
    if not job_ids:
        return {}
    kinds = kinds_where(lambda kind: kind.runs_on_portal_machine)
    clusters = [one for one in Cluster.objects.filter(kind__in=kinds) if is_for_the_demo(one)]
    if not clusters:
        return {}
    jobs = Job.objects.filter(pk__in=job_ids).exclude(user__in=demo_users())
    return {
        pk: [one.name for one in clusters if pinned in (None, one.pk)]
        for pk, pinned in jobs.values_list("pk", "cluster_id")
    }


def _unprepared(job_ids: Sequence[UUID]) -> Mapping[UUID, Sequence[str]]:
    """Return the clusters that need a push of the quotas; see `quotas.unprepared`.

    Jobs of one team with the same pool and cluster share one look-up.
    """
    if not job_ids:
        return {}
    known: dict[tuple[UUID, UUID, UUID | None], Sequence[str]] = {}
    found: dict[UUID, Sequence[str]] = {}
    for job_id, *where in Job.objects.filter(pk__in=job_ids).values_list(
        "pk", "team_id", "pool_id", "cluster_id"
    ):
        team, pool, pinned = where
        key = (team, pool, pinned)
        if key not in known:
            known[key] = unprepared_clusters(team, pool, pinned)
        found[job_id] = known[key]
    return found


def _too_short(job_ids: Sequence[UUID]) -> Mapping[UUID, Sequence[tuple[str, int]]]:
    """Return the clusters with a shorter time limit than a job requests.

    Each has its limit in seconds. For a pinned job only that cluster counts.
    """
    if not job_ids:
        return {}
    found: dict[UUID, list[tuple[str, int]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_TOO_SHORT, [list(job_ids)])
        for job_id, cluster, limit_s in cursor.fetchall():
            found.setdefault(job_id, []).append((cluster, limit_s))
    return found


_TOO_SHORT = """
SELECT j.id, c.name, (c.time_limits ->> p.name)::bigint
FROM jobs_job j
JOIN clusters_pool p ON p.id = j.pool_id
JOIN clusters_cluster c ON c.is_enabled AND coalesce(j.cluster_id = c.id, true)
WHERE j.id = ANY(%s) AND (c.time_limits ->> p.name)::bigint < j.time_limit_s
ORDER BY c.name
"""


def _waits_for_victims(row: JobRow) -> bool:
    return row.explanation is not None and row.explanation["code"] == Code.WAITING_FOR_RECLAIM


@all_rows()
def _victims(job_ids: Sequence[UUID]) -> Mapping[UUID, Sequence[VictimRow]]:
    """Return attempts that still hold GPUs which open claims of these jobs wait for.

    These are the attempts stopped for the job. Without such attempts, they are those on its nodes
    whose own reclaim is closed. Some may be of other organizations (`giving_back.shown_victim`).
    """
    if not job_ids:
        return {}
    found: dict[UUID, list[VictimRow]] = {}

    def note(row: VictimRow) -> None:
        of_job = found.setdefault(row.reclaim__job_id, [])
        if len(of_job) < VICTIMS_MAX:
            of_job.append(row)

    for values in (
        Attempt.objects.filter(
            reclaim__job_id__in=job_ids, reclaim__closed_at=None, released_at=None
        )
        .order_by("grace_until", "pk")
        .values_list(*VictimRow._fields)
    ):
        note(VictimRow(*values))
    if taking_over := [job_id for job_id in job_ids if job_id not in found]:
        with connection.cursor() as cursor:
            cursor.execute(_TAKEN_OVER, [taking_over])
            for values in cursor.fetchall():
                note(VictimRow(*values))
    return found


_TAKEN_OVER = """
SELECT r.job_id, a.job_id, j.name, j.user_id, t.path, a.mgpu, a.notice_at, a.grace_until,
       a.started_at, a.checkpoint_at, j.checkpoint_path, j.notice_signal
FROM jobs_reclaim r
JOIN jobs_attempt a
    ON a.cluster_id = r.cluster_id AND a.released_at IS NULL AND a.notice_at IS NOT NULL
LEFT JOIN jobs_reclaim own ON own.id = a.reclaim_id
JOIN jobs_job j ON j.id = a.job_id
JOIN tenants_node t ON t.id = j.team_id
WHERE r.job_id = ANY(%s) AND r.closed_at IS NULL
    AND (own.id IS NULL OR own.closed_at IS NOT NULL)
    AND EXISTS (
        SELECT FROM jsonb_array_elements(a.slots) held
        JOIN jsonb_array_elements(r.slots) wanted ON wanted ->> 'node' = held ->> 'node'
    )
ORDER BY a.grace_until, a.id
"""
