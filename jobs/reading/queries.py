"""What of the jobs an actor may see, for lists, pages and the API.

A page of jobs costs a constant number of queries, whatever its size, and never loads scripts or
environments; nothing is counted. Which jobs a page has is asked first, with the filter's values in
the statement, so that the planner can choose among the indexes; what is shown of them is one
statement by their ids, which is planned once.
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
from jobs.models import Attempt, AttemptState, Dependency, Job, JobEvent, JobState
from jobs.queue.dependencies import array_states
from jobs.queue.withholding import ARRAY_LIMIT_REACHED, DEPENDENCY, FirstTask, first_tasks
from jobs.reading.listing import JobFilter, ids_of_page
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
from webapi.statements import array_text, prepared_cursor

#: Victims named in one explanation at most.
VICTIMS_MAX = 100
#: Predecessors named in one explanation at most.
WAITED_FOR_MAX = 3
#: Lines of one job's timeline at most, the latest.
HISTORY_MAX = 1_000
#: An administrator who keeps reading the same job is recorded once in this time.
READING_RECORDED_EVERY = timedelta(minutes=15)
#: How many of the organization's latest audit events are searched for that.
_EVENTS_SEARCHED = 200
#: In these states an attempt waits for its cluster.
_BETWEEN_STATES = frozenset({AttemptState.RESERVED, AttemptState.STARTING, AttemptState.STOPPING})
_WAITING = array_text(state.value for state in WAITING)
_PLACED = (JobState.STARTING, JobState.RUNNING)
_TOLD_OUTCOMES = ("unknown", NOT_STARTED)
_TOLD_KINDS = ("start_attempt", "notify_attempt", "stop_attempt")


def require_log(view: JobView, actor: Actor) -> None:
    """Raises Forbidden for a visible job whose log the actor may not read."""
    if not may_read_content(actor, user_id=view.job.user_id, team_path=view.job.team__path):
        raise Forbidden("You can see this job but not read its log; its owner can.")


class JobRow(NamedTuple):
    """What a list shows of a job, in the order of `_PAGE`."""

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
    begin_at: datetime | None
    time_limit_s: int | None
    is_preemptible: bool
    is_requeueable: bool
    checkpoint_path: str | None
    features: Sequence[str]
    image: str | None
    required_topology: str | None
    preferred_topology: str | None
    cpus_per_node: int | None
    memory_mib_per_node: int | None
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

    @property
    def mgpu(self) -> int:
        """What the job asks for in all, in milli-GPU; of an elastic one the most."""
        return self.mgpu_per_node * self.node_count


class AttemptRow(NamedTuple):
    """What is shown of an attempt, in the order of `_PAGE`. `reclaim__*` say for whom it was or is
    being stopped. Of a page, whose JSON nobody looks into, `slots` and `exit_codes` are texts."""

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
    """A job that gives its GPUs back for the job `reclaim__job_id`."""

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
    """What keeps the portal from being understood by the cluster of an attempt.

    `failing_since` is since when the cluster does not answer. `kind` is what it could not be told
    yet (a message's kind, "" for nothing), `tries` how often since `asked_at`, and `error` the
    connector's words for the last time.
    """

    failing_since: datetime | None
    kind: str = ""
    tries: int = 0
    asked_at: datetime | None = None
    error: str = ""


class WaitedForRow(NamedTuple):
    """An open dependency of `job_id`, and its predecessor: a job, or an array, which is running."""

    job_id: UUID
    id: UUID
    name: str
    state: str
    user_id: UUID
    team_path: str
    condition: str


@dataclass(frozen=True, slots=True)
class JobView:
    """A job with everything around it that is shown. Usage in milli-GPU-seconds so far.

    `attempt` is the latest unless the job waits. `ended_attempt` is the latest of a job that waits
    again, where its end says why; `trouble` is that of an attempt which starts, runs or stops;
    `unmapped` are the clusters that it may not use only because nobody mapped its user there,
    `unisolated` those that take jobs of the demo's people alone,
    `unprepared` those to which the quotas were not pushed since its team is there, and
    `too_short` those with their time limits that allow it less time than it asks for; `quarantine`
    says that nothing at all is started. `first_task` is what the other tasks of its array that are
    kept back wait for. `archived` are the archived clusters with nodes that would do.
    `guarantees` are those by which it could take GPUs back (path, milli-GPU), of one job by itself
    that waits for free GPUs. `taken_back` says of a placed job by itself that a silent cluster had
    it before.
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
    archived: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class JobContent:
    """What only one job by itself is asked for. Script and environment are None for who may not
    read them."""

    script: str | None
    environment: Mapping[str, str] | None
    notes: Sequence[Mapping[str, Any]]
    notice_signal: str


def list_jobs(
    actor: Actor,
    wanted: JobFilter,
    *,
    after: UUID | None,
    limit: int,
    newest_first: bool,
    now: datetime,
) -> list[JobView]:
    """At most `limit` visible jobs behind `after`, in the order of submission or its reverse.

    Raises InvalidRequest for a team that the actor cannot see.
    """
    ids = ids_of_page(actor, wanted, after=after, limit=limit, newest_first=newest_first)
    return _views(ids, now=now)


def get_job(job_id: UUID, *, actor: Actor, now: datetime) -> JobView:
    """One visible job. Raises NotFound for absent and foreign alike."""
    _require_visible(job_id, actor)
    view = _views(array_text([job_id]), now=now)[0]
    if _waits_for_free_gpus(view.job):
        return replace(view, guarantees=_guarantees(view.job))
    if view.job.state in _PLACED and view.job.attempt_number > 1:
        return replace(view, taken_back=_taken_back(view.job))
    return view


def _taken_back(row: JobRow) -> str:
    """That the attempt before the latest was taken back from a silent cluster, or ""."""
    messages = Attempt.objects.filter(
        job=row.id, number=row.attempt_number - 1, outcome=NOT_STARTED, notice_at=None
    ).values_list("message", flat=True)
    return messages.first() or ""


def _waits_for_free_gpus(row: JobRow) -> bool:
    return row.explanation is not None and row.explanation["code"] == Code.WAITING_FOR_FREE_GPUS


def _guarantees(row: JobRow) -> list[tuple[str, int]]:
    """The guarantees by which it could take GPUs back, in the explanation's pool: of its team, of
    the departments above, and of its organization where others have quota in the pool, too."""
    assert row.explanation is not None
    quotas = Quota.objects.filter(pool__name=row.explanation.get("pool") or row.pool__name)
    names = row.team__path.rstrip("/").split("/")
    paths = ["/".join(names[:depth]) + "/" for depth in range(len(names), 0, -1)]
    if not quotas.filter(node__parent=None).exclude(node__path=paths[-1]).exists():
        paths.pop()
    known = dict(quotas.filter(node__path__in=paths).values_list("node__path", "guaranteed_mgpu"))
    return [(path, known[path]) for path in paths if path in known]


def get_content(view: JobView, *, actor: Actor, now: datetime) -> JobContent:
    """What was submitted of a visible job; script and environment if the actor may read them.

    A platform administrator who reads what is another's leaves an audit event.
    """
    script, environment, notes, signal = Job.objects.values_list(
        "script", "environment", "notes", "notice_signal"
    ).get(pk=view.job.id)
    if not may_read_content(actor, user_id=view.job.user_id, team_path=view.job.team__path):
        return JobContent(None, None, notes, signal)
    record_reading(view.job, "script", actor=actor, now=now)
    return JobContent(script, environment, notes, signal)


def record_reading(job: JobRow, what: str, *, actor: Actor, now: datetime) -> None:
    """Leave an audit event when a platform administrator reads another's `what`.

    Reading on leaves no second one within a quarter of an hour (unless much happened since).
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
    """One dependency of a job, and its predecessor; `predecessor__state` may be an array's."""

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
    """What a visible job waits or waited for, as it was submitted; an array is running until it is
    known how it ends."""
    found = Dependency.objects.filter(job=view.job.id).order_by("pk")
    rows = [DependencyRow(*values) for values in found.values_list(*DependencyRow._fields)]
    states = array_states({row.array_id for row in rows if row.array_id is not None})
    return [
        row if row.array_id is None else row._replace(predecessor__state=states.get(row.array_id))
        for row in rows
    ]


def get_attempts(job_id: UUID, *, actor: Actor) -> list[AttemptRow]:
    """The latest 500 attempts of a visible job, first to last. Raises NotFound."""
    _require_visible(job_id, actor)
    latest = Attempt.objects.filter(job_id=job_id).order_by("-number")
    return [AttemptRow(*values) for values in latest.values_list(*AttemptRow._fields)[:500]][::-1]


def get_history(job_id: UUID, *, actor: Actor) -> list[tuple[datetime, str, Mapping[str, Any]]]:
    """(time, event, detail) of a visible job, first to last. Raises NotFound.

    Clusters are told by name, and the team for which a job was stopped by its path, or as
    null to those who cannot see that team. So is a job that was waited for, with its name.
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
    """`field` of the rows with these ids, by the id's text; no query for none."""
    wanted = {text for text in ids if text is not None}
    if not wanted:
        return {}
    return {str(pk): value for pk, value in rows.filter(pk__in=wanted).values_list("pk", field)}


def row_of(job: Job) -> JobRow:
    """The row of a job whose related rows are loaded."""

    def value(path: str) -> Any:
        found: Any = job
        for step in path.split("__"):
            found = None if found is None else getattr(found, step)
        return found

    return JobRow(*(value(path) for path in JobRow._fields))


def _require_visible(job_id: UUID, actor: Actor) -> None:
    if not visible_jobs(actor).filter(pk=job_id).exists():
        raise NotFound("There is no such job that you can see.")


def _views(job_ids: str, *, now: datetime) -> list[JobView]:
    """The jobs with these ids (the text of an array), in their order, less those that are gone
    meanwhile."""
    with prepared_cursor() as cursor:
        cursor.execute(_PAGE, {"jobs": job_ids, "waiting": _WAITING, "now": now})
        found = cursor.fetchall()
    width = len(JobRow._fields)
    rows = [JobRow._make(values[:width]) for values in found]
    victims = _victims([row.id for row in rows if _waits_for_victims(row)])
    waited_for = _waited_for([row.id for row in rows if _waits_for_jobs(row)])
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
        [values[width] for values in found if values[width + 4] in _BETWEEN_STATES]
    )
    return [
        JobView(
            row,
            None if values[width] is None else AttemptRow._make(values[width:-2]),
            victims.get(row.id, ()),
            0 if values[-1] is None else values[-1][0],
            0 if values[-1] is None else values[-1][1],
            ended.get(row.id),
            troubles.get(values[width]) or _silence(values[width + 4], values[-2]),
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
    """The latest attempts of these jobs, where nobody knows or can repeat what became of them."""
    if not job_ids:
        return {}
    latest = Attempt.objects.filter(
        job__in=job_ids, number=F("job__attempt_number"), outcome__in=_TOLD_OUTCOMES
    )
    rows = (AttemptRow(*values) for values in latest.values_list(*AttemptRow._fields))
    return {row.job_id: row for row in rows}


def _silence(attempt_state: str | None, failing_since: datetime | None) -> Trouble | None:
    """What is to be said of a running attempt whose cluster does not answer."""
    if attempt_state != AttemptState.RUNNING or failing_since is None:
        return None
    return Trouble(failing_since)


def _troubles(attempt_ids: Sequence[UUID]) -> Mapping[UUID, Trouble]:
    """What keeps these attempts from starting or stopping; two queries at most."""
    if not attempt_ids:
        return {}
    found = {
        attempt_id: Trouble(failing_since)
        for attempt_id, failing_since in Attempt.objects.filter(
            pk__in=attempt_ids, cluster__failing_since__isnull=False
        ).values_list("pk", "cluster__failing_since")
    }
    # The last message wins: what is to be stopped need not start any more.
    for message in (
        Message.objects.filter(kind__in=_TOLD_KINDS, subject__in=attempt_ids, done_at=None)
        .exclude(error="")
        .order_by("pk")
    ):
        known = found.get(message.subject, Trouble(None))
        found[message.subject] = Trouble(
            known.failing_since, message.kind, message.sends, message.created_at, message.error
        )
    return found


# The columns are those of JobRow, then those of AttemptRow: of the latest attempt, unless the job
# waits again. The last two are since when its cluster is silent and what the job has used.
# Names out of small tables are sub-selects, since planning takes the longer the more ways there
# are to order joins: 2 ms so, 20 ms with all of them joined.
_PAGE = f"""
SELECT j.id, j.name, j.type, j.origin, j.state,
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
       j.begin_at, j.time_limit_s, j.is_preemptible, j.is_requeueable,
       j.checkpoint_path, j.features, j.image, j.required_topology, j.preferred_topology,
       j.cpus_per_node, j.memory_mib_per_node,
       j.submitted_at, j.started_at, j.ended_at, j.end_reason, j.exit_code,
       j.cancel_requested_at, j.attempt_number, j.explanation, j.explained_at,
       j.array_id, j.array_index, (SELECT size FROM jobs_jobarray WHERE id = j.array_id),
       a.id, a.job_id, a.number, (SELECT name FROM clusters_cluster WHERE id = a.cluster_id),
       a.state, a.native_id, a.native_state, a.slots::text, a.mgpu, a.guaranteed_mgpu, a.granted_at,
       a.started_at, a.checkpoint_at, a.notice_at, a.grace_until, a.ended_at, a.released_at,
       a.outcome, a.exit_codes::text, a.message,
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
    """The first few open dependencies of each of these jobs."""
    if not job_ids:
        return {}
    found: dict[UUID, list[WaitedForRow]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_WAITED_FOR, [list(job_ids), WAITED_FOR_MAX])
        for values in cursor.fetchall():
            found.setdefault(values[0], []).append(WaitedForRow._make(values))
    return found


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
    """The names of the archived clusters whose nodes have the pool and the features of these
    jobs."""
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
    """The names of the clusters with nodes of their pool on which the users of these jobs have no
    user; of a job that is pinned, only that cluster."""
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
    """The names of the clusters that could run these jobs, did they isolate them; see
    `quotas.user_numbers`."""
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
    """See `quotas.unprepared`; jobs of one team that ask for the same are asked about once."""
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
    """The clusters that let these jobs run for less than they ask, each with its limit in seconds;
    of a job that is pinned, only that cluster."""
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


def _victims(job_ids: Sequence[UUID]) -> Mapping[UUID, Sequence[VictimRow]]:
    """Attempts that still hold GPUs which open claims of these jobs wait for: those stopped for the
    job, else those on its nodes that are stopped for nobody any more."""
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
