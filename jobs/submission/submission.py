"""Accept a request: check that its names exist, then queue its job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from uuid_utils.compat import uuid7

from audit.recording import record
from bulk.inserting import insert_row, insert_rows
from clusters.models import Pool
from clusters.queries import NodeWish, nodes_having, places_having
from jobs.access import visible_arrays, visible_jobs
from jobs.errors import TooManyDependencies, TooManyOpenJobs
from jobs.models import POOLS_MAX, Dependency, Job, JobState, JobType
from jobs.queue.dependencies import array_states, open_dependencies
from jobs.queue.reason_documents import held_sentence
from jobs.queue.reason_lines import note_held
from jobs.submission.begin_times import begin_of
from jobs.submission.cost_caps import check_cost_cap
from jobs.submission.fitting import Fleet, why_never
from jobs.submission.job_arrays import insert_array
from jobs.submission.job_members import stored_by
from jobs.submission.manifest_places import placed, pools_for
from jobs.submission.never_fits import never_fits
from jobs.submission.offers import Offer, offer_to
from jobs.submission.pool_places import allowing_time, check_units, place_in, running_batch
from jobs.submission.problems import refused_lines, tell_notes, telling
from jobs.submission.requests import Hint, JobRequest, hint_settled, settled
from jobs.submission.resolved_requests import Predecessor, ResolvedRequest, size_pointer
from jobs.submission.sbatch_notes import Note, NotUnderstood, Verdict, refused_of
from jobs.submission.script_warnings import warnings_of
from jobs.submission.sizes import laid_out, notes_on, notes_on_array
from jobs.submission.time_limits import limited
from jobs.submission.user_caps import check_user_cap
from jobs.timeline import Happening, record_events
from live.publishing import publish
from primitives.errors import FieldError, InvalidRequest, NotFound
from primitives.units import DeviceKind, gpus_text
from quotas.models import PriorityClass
from quotas.policies import DEFAULT_PRIORITY_CLASS, policy_of
from tenants.access import Actor, visible_node
from tenants.models import Node, NodeKind
from tenants.roles import Permission
from webapi.middleware import current_request_id

#: Limits of jobs that have not ended. Parallel submissions may exceed a limit by their own number.
OPEN_JOBS_PER_USER_MAX = 10_000
OPEN_JOBS_PER_ORGANIZATION_MAX = 100_000

#: Limits of undecided dependencies, since each cycle reads all of them. Parallel submissions may
#: exceed them, as above.
OPEN_DEPENDENCIES_PER_USER_MAX = 20_000
OPEN_DEPENDENCIES_PER_ORGANIZATION_MAX = 100_000

#: The largest product of dependencies and tasks of one array.
TASK_DEPENDENCIES_MAX = 10_000

#: How far ahead a job may begin.
BEGIN_AHEAD_MAX = timedelta(days=366)
#: A begin time that passed more recently gets no note: clocks differ, and requests take time.
BEGIN_PASSED = timedelta(seconds=60)


def submit_job_here(request: JobRequest, *, actor: Actor, now: datetime) -> Job:
    """Queue `request`, or hold it if it asks for that, and return its job.

    For an array the result is the first task. It runs in the caller's transaction, which must not
    be committed after an error.

    Queueing takes no quota; only the arbiter grants. Raises:

    - NotFound for a team that the actor cannot see, Forbidden without the right to submit there,
    - InvalidRequest for unknown names and for refused lines of an sbatch text,
    - NeverFits, TooManyOpenJobs and TooManyDependencies.
    """
    resolved = accepted(request, actor=actor, now=now)
    tasks = 1 if request.array is None else request.array.size
    _refuse_too_many(resolved.offer, tasks)
    if resolved.predecessors:
        _refuse_too_many_dependencies(resolved.team, actor, tasks * len(resolved.predecessors))
    job = Job(
        id=uuid7(),
        organization=resolved.team.organization,
        team=resolved.team,
        user=actor.user,
        name=request.name,
        type=resolved.type.value,
        pool=resolved.pool,
        pools=[one.pool.pk for one in resolved.in_each_pool] if resolved.others else [],
        priority_class=resolved.priority_class,
        cluster=resolved.cluster,
        mgpu_per_node=resolved.mgpu_per_node,
        node_count=resolved.node_count_max,
        node_count_min=resolved.node_count
        if resolved.node_count < resolved.node_count_max
        else None,
        script=request.script,
        environment=dict(request.environment),
        notes=[note.as_json() for note in resolved.notes],
        state=JobState.HELD.value if request.held else JobState.QUEUED.value,
        submitted_at=now,
        **stored_by(resolved.request),
    )
    if request.array is None:
        insert_row(job)
        ids = [job.id]
    else:
        ids = insert_array(job, request.array)
    # Ended predecessors are stored too, so that dependencies are decided in one place.
    insert_rows(
        Dependency,
        [
            {
                "job_id": job_id,
                "predecessor_id": None if one.is_array else one.id,
                "array_id": one.id if one.is_array else None,
                "condition": one.condition.value,
            }
            for job_id in ids
            for one in resolved.predecessors
        ],
    )
    record_events(Happening(pk, now, "submitted", {"by": actor.user.username}) for pk in ids)
    if request.held:
        note_held([(pk, held_sentence()) for pk in ids], now)
    record(
        action="job_submitted" if request.array is None else "job_array_submitted",
        subject_kind="job" if request.array is None else "job_array",
        subject_id=job.id if job.array_id is None else job.array_id,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=job.organization_id,
        node_path=job.team.path,
        detail={
            "name": request.name,
            "pool": job.pool.name,
            **({"pools": job.pool_names} if job.pools else {}),
            "mgpu": job.mgpu,
            **({} if request.array is None else {"tasks": len(ids)}),
        },
        request_id=current_request_id(),
    )
    publish("jobs", ids=ids, organization_id=job.organization_id, wake="arbiter")
    return job


def accepted(request: JobRequest, *, actor: Actor, now: datetime) -> ResolvedRequest:
    """Return the resolved request, if its job could run some day. Raises as `submit_job_here`."""
    resolved = check_begin(resolve(request, actor=actor), now)
    if refused := refused_of(resolved.notes):
        raise InvalidRequest(
            "; ".join(f"line {note.line}: {note.detail}" for note in refused[:5]),
            errors=refused_lines(refused, "manifest" if request.manifest_job else "sbatch"),
            notes=[note.as_json() for note in resolved.notes],
        )
    if resolved.hopeless is not None:
        with telling(resolved.notes):
            raise never_fits(*resolved.hopeless)
    return resolved


def resolve(request: JobRequest, *, actor: Actor) -> ResolvedRequest:
    """Resolve every name in `request`, as far as the actor may use it.

    Raises as `submit_job_here`, except for NeverFits and refused lines, which are part of the
    result. An image of the sbatch text that no cluster can run is such a line.
    """
    team = _team(request, actor)
    offer = offer_to(team, actor.user)
    notes = request.notes
    try:
        check_cost_cap(request, team)
        errors: list[FieldError] = []
        pools, notes = _pools(request, team, offer, notes, errors)
        errors.extend(_other_devices(request, pools))
        priority_class, notes = _priority_class(request, offer.priority_classes, notes, errors)
        places = []
        for pool in pools:
            place, notes = place_in(request, offer, pool, notes, errors)
            places.append(place)
        predecessors = _predecessors(request, team, actor, errors)
        if errors or not places or priority_class is None:
            errors.extend(refused_lines(notes))
            raise InvalidRequest(
                "; ".join(f"{e.pointer.removeprefix('/')}: {e.detail}" for e in errors[:5]),
                errors=errors,
                notes=[note.as_json() for note in notes],
            )
        request, limit_notes = limited(request, offer.bounds(priority_class, pools), notes)
        places = [allowing_time(request, place) for place in places]
        if request.manifest_job is not None:
            request, note, places = placed(request, request.manifest_job, offer, places)
            notes = (*notes, note)
        fleets = [_fleet(request, offer, place.pool) for place in places]
        size = laid_out(request.size, fleets[0], places[0].clusters)
        places = [running_batch(request, size.node_count_max, place) for place in places]
        if request.whole_note is not None:
            each = gpus_text(size.mgpu_per_node)
            told = f"gpus_per_node = {each}: whole nodes of {places[0].pool.name}"
            notes = settled(notes, request.whole_note, Verdict.UNDERSTOOD, told)
        notes = (
            *notes,
            *notes_on(request.size, size),
            *notes_on_array(request.array),
            *limit_notes,
            *warnings_of(request, places),
        )
        found: list[ResolvedRequest] = []
        for place, fleet in zip(places, fleets, strict=True):
            check_units(request, size.mgpu_per_node, place)
            check_user_cap(request, size.mgpu_per_node * size.node_count_max, place.pool, offer)
            found.append(
                ResolvedRequest(
                    request=request,
                    team=team,
                    pool=place.pool,
                    priority_class=priority_class,
                    cluster=place.cluster,
                    clusters=place.clusters,
                    type=request.type
                    or (JobType.ARRAY if request.array is not None else None)
                    or (JobType.DISTRIBUTED if size.node_count_max > 1 else JobType.TRAINING),
                    mgpu_per_node=size.mgpu_per_node,
                    node_count=size.node_count,
                    node_count_max=size.node_count_max,
                    notes=notes,
                    fleet=fleet,
                    offer=offer,
                    never=why_never(
                        tree=offer.tree(),
                        quotas=offer.quotas,
                        team=team.path,
                        pool=str(place.pool.pk),
                        priority_class=priority_class,
                        mgpu_per_node=size.mgpu_per_node,
                        node_count=size.node_count,
                        clusters=place.clusters,
                        features=request.features,
                        required_topology=request.required_topology,
                        fleet=fleet,
                    ),
                    predecessors=predecessors,
                )
            )
        return replace(found[0], others=tuple(found[1:]))
    except InvalidRequest as refusal:
        tell_notes(refusal, notes)
        raise


def _fleet(request: JobRequest, offer: Offer, pool: Pool) -> Fleet:
    """Return the pool's nodes, filtered by the node properties that the request asks for."""
    fleet = offer.fleet(pool)
    wish = NodeWish(request.features, request.cpu_milli_per_node, request.memory_mib_per_node)
    if request.features:
        fleet = replace(fleet, having=nodes_having(pool, NodeWish(request.features)))
    if request.cpu_and_memory:
        fleet = replace(fleet, large_enough=nodes_having(pool, wish))
    if request.required_topology is not None:
        fleet = replace(fleet, places=places_having(pool, wish))
    return fleet


def _team(request: JobRequest, actor: Actor) -> Node:
    try:
        team = visible_node(actor, request.team, Permission.SUBMIT_JOBS)
    except NotFound as problem:
        errors = [FieldError("/team", problem.detail, "not_found")]
        raise NotFound(problem.detail, errors=errors) from None
    if team.kind != NodeKind.TEAM:
        what = "an organization" if team.kind == NodeKind.ORGANIZATION else f"a {team.kind}"
        detail = f"{team.display_path} is {what}; name one of its teams."
        raise InvalidRequest(detail, errors=[FieldError("/team", detail)])
    if team.archived_at is not None:
        detail = f"{team.display_path} is archived and takes no jobs. Name another team."
        raise InvalidRequest(detail, errors=[FieldError("/team", detail, "archived")])
    return team


def _pools(
    request: JobRequest,
    team: Node,
    offer: Offer,
    notes: tuple[Note, ...],
    errors: list[FieldError],
) -> tuple[list[Pool], tuple[Note, ...]]:
    """Return the requested or hinted pools, or the organization's only fitting pool."""
    offered, archived = offer.pools, offer.archived_pools
    named = tuple(dict.fromkeys(offer.pool_named(name) for name in request.pools))
    for hint in request.pool_hints:
        hinted = tuple(
            name
            for name in dict.fromkeys(offer.pool_named(one) for one in _pool_names(hint))
            if name in offered or name in archived
        )
        if hint.is_gpu_type and not hinted:
            told = (
                f"there is no GPU of type {hint.name[:60]!r} for you; you have {_listed(offered)}. "
                "Write one of them, or leave the type out"
            )
            detail = f"{notes[hint.note].detail}; {told}."
            notes = settled(notes, hint.note, Verdict.REFUSED, detail)
            continue
        if not named and hinted:
            named = hinted[:POOLS_MAX]
            told = f"pool = {named[0]}" if len(named) == 1 else f"pools = {', '.join(named)}"
            notes = hint_settled(notes, hint, Verdict.UNDERSTOOD, told)
        else:
            notes = hint_settled(
                notes,
                hint,
                Verdict.IGNORED,
                "the pool is chosen already"
                if named
                else f"there is no pool of that name; you have {_listed(offered)}",
            )
    fitting: Iterable[str]
    if not named and request.manifest_job is not None:
        fitting = pools_for(request.manifest_job, offer)
        if len(fitting) > 1:
            detail = f"is required, because the manifest may run in several: {_listed(fitting)}"
            errors.append(FieldError("/pool", detail, "required"))
            return [], notes
        named = fitting
    if not named:
        fitting = [name for name, pool in offered.items() if pool.kind is request.size.device]
        named = tuple(offered if len(offered) == 1 else fitting if len(fitting) == 1 else ())
    unknown = [name for name in named if name not in offered]
    if named and not unknown:
        return [offered[name] for name in named], notes
    reason = "unknown" if named else "required"
    if unknown and unknown[0] in archived:
        reason = "archived"
        detail = f"{unknown[0]} is archived and takes no jobs; name another pool"
        detail += f": you have {_listed(offered)}" if offered else ", once there is one"
    elif not offered:
        detail = f"{team.path.split('/')[0]} has no quota in any pool"
    elif not named:
        detail = f"is required, because there are several: {_listed(offered)}"
    else:
        detail = f"there is no pool {unknown[0][:60]!r} for you; you have {_listed(offered)}"
    pointer = f"/pools/{named.index(unknown[0])}" if len(named) > 1 else "/pool"
    errors.append(FieldError(pointer, detail, reason))
    return [], notes


def _pool_names(hint: Hint) -> Iterable[str]:
    """Return the names that pools may have for a type of GPU, or for Slurm's partitions."""
    return [hint.name] if hint.is_gpu_type else hint.name.split(",")


def _other_devices(request: JobRequest, pools: Iterable[Pool]) -> Iterator[FieldError]:
    """Yield an error for each pool whose device kind contradicts the request."""
    asked = request.size.device
    for pool in pools:
        if pool.kind is DeviceKind.GPU and asked is DeviceKind.CPU:
            yield FieldError(
                "/gpus",
                f"is required in {pool.name}, a pool of GPUs (or gpus_per_node and nodes); "
                "cpus_per_node without GPUs is for a pool of CPU cores",
                "required",
            )
        elif pool.kind is DeviceKind.CPU and asked is DeviceKind.GPU:
            yield FieldError(
                size_pointer(request),
                f"{pool.name} has CPU cores and no GPUs; ask for cpus_per_node and nodes instead",
            )
        elif pool.kind is DeviceKind.CPU and (level := _topology_member(request)) is not None:
            yield FieldError(
                f"/{level}", f"{pool.name} is a pool of CPU cores, which has no topology; remove it"
            )


def _topology_member(request: JobRequest) -> str | None:
    if request.required_topology is not None:
        return "required_topology"
    return None if request.preferred_topology is None else "preferred_topology"


def _priority_class(
    request: JobRequest,
    known: Mapping[str, PriorityClass],
    notes: tuple[Note, ...],
    errors: list[FieldError],
) -> tuple[PriorityClass | None, tuple[Note, ...]]:
    named = request.priority_class
    hint = request.class_hint
    if hint is not None:
        if hint.name in known:
            named = hint.name
            notes = hint_settled(notes, hint, Verdict.UNDERSTOOD, f"priority_class = {named}")
        else:
            notes = hint_settled(
                notes,
                hint,
                Verdict.IGNORED,
                f"there is no priority class of that name; there are {_listed(known)}",
            )
    found = known.get(named or DEFAULT_PRIORITY_CLASS)
    if found is None:
        errors.append(
            FieldError(
                "/priority_class",
                f"there is no priority class {(named or DEFAULT_PRIORITY_CLASS)[:60]!r}; "
                f"there are {_listed(known)}",
                "unknown",
            )
        )
    return found, notes


def _predecessors(
    request: JobRequest, team: Node, actor: Actor, errors: list[FieldError]
) -> tuple[Predecessor, ...]:
    """Return the dependencies. An invisible job looks like an absent one."""
    if not request.depends_on:
        return ()
    ids = [wish.id for wish in request.depends_on if wish.kind != "array"]
    jobs = {
        job.pk: job
        for job in visible_jobs(actor).filter(pk__in=ids).only("organization_id", "name", "state")
    }
    ids = [wish.id for wish in request.depends_on if wish.kind != "job" and wish.id not in jobs]
    arrays = {array.pk: array for array in visible_arrays(actor).filter(pk__in=ids)} if ids else {}
    states = array_states(arrays)
    found = []
    for wish in request.depends_on:
        job, array = jobs.get(wish.id), arrays.get(wish.id)
        thing = job or array
        if thing is None:
            errors.append(
                FieldError(
                    wish.pointer,
                    f"there is no {'array' if wish.kind == 'array' else 'job'} {wish.id} that you "
                    "can see",
                    "not_found",
                )
            )
            continue
        if thing.organization_id != team.organization_id:
            errors.append(
                FieldError(wish.pointer, f"{wish.id} belongs to another organization than the team")
            )
        state = states[wish.id] if job is None else job.state
        found.append(Predecessor(wish.id, job is None, thing.name, wish.condition, state))
    if request.array is not None and len(found) * request.array.size > TASK_DEPENDENCIES_MAX:
        most = TASK_DEPENDENCIES_MAX // request.array.size
        errors.append(
            FieldError(
                "/depends_on",
                f"each of the {request.array.size:,} tasks of this array may wait for at most "
                f"{most}; let one job wait for all, and the array for that one",
            )
        )
    return tuple(found)


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(found[:20]) + (" and more" if len(found) > 20 else "") if found else "none"


def check_begin(resolved: ResolvedRequest, now: datetime) -> ResolvedRequest:
    """Return the request with the begin time that an sbatch line means at `now`.

    A note says if a begin time has passed, since that may be a mistake. A line with a time too far
    ahead is refused. Raises InvalidRequest for such a time in the request itself.
    """
    resolved = _with_begin(resolved, now)
    begin_at = resolved.request.begin_at
    if begin_at is not None and begin_at > now + BEGIN_AHEAD_MAX:
        with telling(resolved.notes):
            raise InvalidRequest(
                f"begin_at: {_TOO_FAR_AHEAD}",
                errors=[FieldError("/begin_at", _TOO_FAR_AHEAD, "out_of_range")],
            )
    if begin_at is None or begin_at > now - BEGIN_PASSED:
        return resolved
    detail = (
        f"The time to begin, {begin_at:%Y-%m-%d %H:%M:%S} UTC, has passed: it may start at once."
    )
    note = Note(0, "", Verdict.UNDERSTOOD, detail)
    return replace(resolved, notes=(*resolved.notes, note))


_TOO_FAR_AHEAD = f"must be at most {BEGIN_AHEAD_MAX.days} days ahead"


def _with_begin(resolved: ResolvedRequest, now: datetime) -> ResolvedRequest:
    """Return the request with the time of its begin hint, in the time zone of its organization."""
    hint = resolved.request.begin_hint
    if hint is None:
        return resolved
    name = policy_of(resolved.team.organization).time_zone
    request = resolved.request.model_copy(update={"begin_hint": None})
    try:
        begin_at = begin_of(hint.name, now.astimezone(ZoneInfo(name)))
    except NotUnderstood as problem:
        notes = settled(resolved.notes, hint.note, Verdict.REFUSED, str(problem))
        return replace(resolved, request=request, notes=notes)
    utc = "" if name == "UTC" else f", {begin_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    local = f"{begin_at:%Y-%m-%d %H:%M:%S} in {name}"
    detail = f"begin_at = {local}, your organization's time zone{utc}"
    if begin_at > now + BEGIN_AHEAD_MAX:
        detail = f"{detail}; it {_TOO_FAR_AHEAD}."
        notes = settled(resolved.notes, hint.note, Verdict.REFUSED, detail)
        return replace(resolved, request=request, notes=notes)
    return replace(
        resolved,
        request=request.model_copy(update={"begin_at": begin_at.astimezone(UTC)}),
        notes=settled(resolved.notes, hint.note, Verdict.UNDERSTOOD, detail),
    )


def _refuse_too_many(offer: Offer, more: int) -> None:
    for who, count, most in (
        ("You have", offer.open_jobs_of_user, OPEN_JOBS_PER_USER_MAX),
        ("Your organization has", offer.open_jobs, OPEN_JOBS_PER_ORGANIZATION_MAX),
    ):
        if count + more > most:
            raise TooManyOpenJobs(
                f"{who} {count:,} jobs that have not ended; {most:,} are allowed. Wait for some "
                "to end, or cancel some.",
                open_jobs=count,
                open_jobs_max=most,
            )


def _refuse_too_many_dependencies(team: Node, actor: Actor, more: int) -> None:
    of_organization, of_user = open_dependencies(team.organization_id, actor.user.pk)
    for whose, count, most in (
        ("Your open jobs have", of_user, OPEN_DEPENDENCIES_PER_USER_MAX),
        (
            "The open jobs of your organization have",
            of_organization,
            OPEN_DEPENDENCIES_PER_ORGANIZATION_MAX,
        ),
    ):
        if count + more > most:
            raise TooManyDependencies(
                f"{whose} {count:,} dependencies. With this request they would have "
                f"{count + more:,}; at most {most:,} are allowed. Wait for some to end, or let one "
                "job wait for many and the others for that one.",
                open_dependencies=count,
                open_dependencies_max=most,
            )
