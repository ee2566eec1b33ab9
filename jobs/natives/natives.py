"""Native jobs: jobs that people submitted directly to a cluster, as jobs of their teams (R-101).

A native workload belongs to a team if its account is the team's and its user is of the team's
organization. Once it holds GPUs it becomes a job with one attempt. From then on it is in use,
metered, classed, reclaimed and shown like all other jobs. It was never queued here, and Tidegate
never starts, holds or requeues it. All other workloads count as held outside (`clusters.outside`).

Level-triggered like `jobs.execution.observation`: a repeated listing changes nothing, and absent is
never finished. The ids of job and attempt are derived from the data of the cluster, so that two
observers would create the same rows.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID, uuid5

from django.db import InterfaceError, OperationalError
from django.db.models import Sum

from billing.metering import Grant, record_started, register_attempts
from bulk.inserting import columns_of, insert_rows
from clusters.models import Cluster, Pool
from clusters.outside import Holder, OutsideUse, Stranger
from connectors.errors import ConnectorError
from connectors.natives import NativeControl
from connectors.protocol import Listing, NativeWorkload, Observation, WorkloadPhase
from jobs.execution.comparing import COMPARED, is_known
from jobs.execution.native_sizes import RANKS_MAX, ref_of
from jobs.execution.observation import apply_one, is_about_to_be_lost
from jobs.execution.questions import NotAsked, Questions
from jobs.leadership import Leadership, NotLeading
from jobs.models import Attempt, AttemptState, Job, JobOrigin, JobState, JobType
from jobs.timeline import Happening, record_events
from live.publishing import publish
from live.waking import wake
from primitives.clock import from_epoch
from primitives.units import MGPU_MAX
from quotas.cluster_users import users_by_name
from quotas.models import PriorityClass, Quota
from quotas.policies import DEFAULT_PRIORITY_CLASS
from tenants.models import Node, NodeKind, User
from tenants.places import nodes_by_path

log = logging.getLogger(__name__)

#: Maximum number of new jobs after one listing. The rest is held outside until the next.
ADOPTED_MAX = 500
_NAME_MAX = 200
_NATIVE_ID_MAX = 200
#: Maximum number of workloads that a complaint names.
_NAMED_MAX = 5
#: The last second of the year 9999.
_LATEST = 253_402_300_799


def apply_natives(
    cluster: Cluster,
    listing: Listing,
    *,
    control: NativeControl,
    previous_at: datetime | None,
    leadership: Leadership,
    now: datetime,
    questions: Questions | None = None,
    complain: Callable[[str], None] | None = None,
) -> OutsideUse:
    """Update the native jobs of `cluster` to `listing`; return what is held outside.

    `previous_at` is the time of the listing of the last update. A workload may have run then
    without an owner, because its user was mapped later or the cluster is new. It counts from this
    listing on, so that no team is charged for time in which it was held outside. A workload that
    has ended and was never counted becomes a job only if it ended after `previous_at`.

    `questions` are those of the same observation, in the same round. A workload that cannot be
    counted is held outside and reported to `complain`; the others are not affected.

    Raises NotLeading when the leadership is over.
    """
    if questions is None:
        questions = Questions()
        questions.begin_round()
    listed = {
        attempt_id(cluster, native): native for native in listing.natives if is_possible(native)
    }
    open_attempts = list(
        Attempt.objects.filter(cluster=cluster, released_at=None, job__origin=JobOrigin.NATIVE)
        .only(*COMPARED, "cluster_user", "job__submitted_at")
        .select_related("job")
        .order_by("job_id")
    )
    ours = {attempt.id for attempt in open_attempts}
    _follow(
        questions.in_turn("native", open_attempts),
        listed,
        listing,
        control,
        questions,
        previous_at,
        leadership,
        now,
    )
    unknown = {
        key: native
        for key, native in listed.items()
        if key not in ours and (holds_gpus(native) or ended_since(native, previous_at))
    }
    strangers: dict[UUID, Stranger] = {}
    if unknown:
        counted = set(Attempt.objects.filter(pk__in=list(unknown)).values_list("pk", flat=True))
        owners, strangers = owners_of(control, unknown, mapped_users(cluster), counted)
        make = partial(_make, cluster, listing, previous_at, leadership, now)
        taken_up, senseless = take_up(owners, make)
        strangers |= dict.fromkeys(owners.keys() - taken_up, Stranger.NOT_YET)
        strangers |= dict.fromkeys(senseless, Stranger.ODD)
    held = {key: (unknown[key], why) for key, why in strangers.items()}
    held |= {
        attempt_id(cluster, native): (native, Stranger.ODD)
        for native in listing.natives
        if not is_possible(native)
    }
    if complain is not None and (odd := complaint_of(held.values(), listing, control)):
        complain(odd)
    waiting = [native for native in listing.natives if not native.slots and not native.is_released]
    return outside_use(listing, held, waiting)


def is_possible(native: NativeWorkload) -> bool:
    """Return whether the workload can be stored as a job and an attempt."""
    times = (native.submitted_at, native.started_at or 0, native.ended_at or 0)
    return (
        0 < len(native.native_id) <= _NATIVE_ID_MAX
        and all(0 <= moment <= _LATEST for moment in times)
        and max(len(native.slots), len(native.ranks_mgpu)) <= RANKS_MAX
    )


def complaint_of(
    held: Iterable[tuple[NativeWorkload, Stranger]], listing: Listing, control: NativeControl
) -> str:
    """Return sentences on workloads that could not be counted or read.

    "" if there are none.
    """
    odd = [
        f"job {native.native_id[:20]} of {native.user[:32]}"
        for native, why in held
        if why is Stranger.ODD
    ]
    odd += [f"job {one.native_id}: {one.why[:200]}" for one in listing.unread if one.native_id]
    complaints = []
    if odd:
        complaints.append(
            "The cluster reports some of its jobs in a form that makes no sense. They count for no "
            f"team: {_first_of(odd)}. Look at them with {control.tool}."
        )
    if doubts := [one.why[:200] for one in listing.unread if not one.native_id]:
        complaints.append(f"No missing job is called lost now: {_first_of(doubts)}.")
    return " ".join(complaints)


def _first_of(odd: Sequence[str]) -> str:
    more = f" and {len(odd) - _NAMED_MAX} more" if len(odd) > _NAMED_MAX else ""
    return "; ".join(odd[:_NAMED_MAX]) + more


def attempt_id(cluster: Cluster, native: NativeWorkload) -> UUID:
    """Return the id of the attempt of `native`, the same for every observer and time."""
    return uuid5(cluster.pk, f"{native.native_id}/{native.submitted_at}")


def job_id(cluster: Cluster, native: NativeWorkload) -> UUID:
    """Return the id of the job of `native`.

    It is a UUID of version 7 of its submit time, as all jobs have, so that lists sort it correctly.
    The other bits are a digest of what identifies the workload.
    """
    digest = hashlib.sha256(attempt_id(cluster, native).bytes).digest()
    millis = max(0, native.submitted_at) * 1000 % (1 << 48)
    value = millis << 80 | int.from_bytes(digest[:10], "big")
    value &= ~(0xF << 76 | 0x3 << 62)
    return UUID(int=value | 0x7 << 76 | 0x2 << 62)


def holds_gpus(native: NativeWorkload) -> bool:
    """Return whether the workload holds GPUs now."""
    return bool(native.slots) and not native.is_released


def ended_since(native: NativeWorkload, previous_at: datetime | None) -> bool:
    """Return whether the workload ran, and ended after `previous_at`."""
    return (
        native.is_released
        and native.started_at is not None
        and native.ended_at is not None
        and bool(native.slots)
        and previous_at is not None
        and from_epoch(native.ended_at) >= previous_at
    )


def _follow(
    attempts: Iterable[Attempt],
    listed: Mapping[UUID, NativeWorkload],
    listing: Listing,
    control: NativeControl,
    questions: Questions,
    previous_at: datetime | None,
    leadership: Leadership,
    now: datetime,
) -> None:
    """Apply the listing to attempts that are counted already."""
    for attempt in attempts:
        native = listed.get(attempt.id)
        # A workload that waits again was requeued by its cluster: this run is over.
        is_listed = native is not None and (holds_gpus(native) or native.is_released)
        if native is not None and is_listed:
            observation = observation_of(attempt.key, native)
            if is_known(attempt, observation):
                continue
        else:
            if listing.may_have(attempt.native_id):
                continue
            observation = None
            if is_about_to_be_lost(attempt):
                ref = ref_of(attempt)
                try:
                    ended = questions.ask("native", attempt, partial(control.find_ended, ref))
                except NotAsked:
                    continue
                except ConnectorError as error:
                    log.warning("native job %s is missing and %s", attempt.native_id, error)
                    continue
                observation = None if ended is None else observation_of(attempt.key, ended)
        try:
            with leadership.fence():
                apply_one(attempt.id, attempt.job_id, observation, previous_at, now)
        except (NotLeading, OperationalError, InterfaceError):
            raise
        except Exception:
            # An error of one attempt must not block the attempts after it.
            log.exception("attempt %s could not be brought up to date", attempt.id)


def observation_of(key: str, native: NativeWorkload) -> Observation:
    """Return the cluster's data as an observation of the attempt `key`."""
    # While ranks are still being started, the slots of some say nothing of the whole.
    is_partial = native.phase is WorkloadPhase.STARTING and (
        sum(slot.mgpu for slot in native.slots) < sum(native.ranks_mgpu)
    )
    return Observation(
        key=key,
        native_id=native.native_id,
        native_state=native.native_state,
        phase=native.phase,
        started_at=native.started_at,
        ended_at=native.ended_at,
        released_at=native.ended_at if native.is_released else None,
        is_released=native.is_released,
        outcome=native.outcome,
        submitted_at=native.submitted_at,
        slots=None if is_partial else native.slots or None,
        resized_at=native.resized_at,
        message=native.message,
        is_stuck=native.is_stuck,
    )


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a native workload, and the pool and class in which it counts."""

    native: NativeWorkload
    team: Node
    user_id: UUID
    pool: Pool
    priority_class: PriorityClass


#: The users in the portal, by organization and name on the cluster.
Users = Callable[[Collection[tuple[UUID, str]]], Mapping[tuple[UUID, str], UUID]]


def mapped_users(cluster: Cluster) -> Users:
    """Return the users whom administrators have mapped.

    For clusters that have users of their own.
    """
    names = users_by_name(cluster)
    return lambda wanted: {key: names[key[1]] for key in wanted if key[1] in names}


def owners_of(
    control: NativeControl,
    natives: Mapping[UUID, NativeWorkload],
    users_of: Users,
    counted: Collection[UUID],
) -> tuple[dict[UUID, Owner], dict[UUID, Stranger]]:
    """Return the owner of each workload, or the reason why it has none.

    `counted` are the keys of workloads whose attempt has ended here. Raises ClusterUnavailable if
    the cluster could not tell to whom its accounts belong.
    """
    accounts = {
        account: control.team_of(account) for account in {one.account for one in natives.values()}
    }
    # An account with a former path of the team, from before a move, still belongs to the team. A
    # push removes it once nothing runs there.
    teams = nodes_by_path([path for path in accounts.values() if path], NodeKind.TEAM)
    of_teams = {
        (team.organization_id, native.user)
        for native in natives.values()
        if (team := teams.get(accounts[native.account] or "")) is not None
    }
    users = users_of(of_teams)
    organizations = dict(
        User.objects.filter(pk__in=set(users.values())).values_list("pk", "organization_id")
    )
    classes = _default_classes({team.organization_id for team in teams.values()})
    pools = {pool.name: pool for pool in Pool.objects.all()}
    owners: dict[UUID, Owner] = {}
    strangers: dict[UUID, Stranger] = {}
    for key, native in natives.items():
        team = teams.get(accounts[native.account] or "")
        pool = pools.get(native.pool)
        mgpu = mgpu_of(native)
        if key in counted:
            if holds_gpus(native):
                # Its attempt was declared lost, but the workload still runs.
                strangers[key] = Stranger.GIVEN_UP
        elif native.is_mixed:
            strangers[key] = Stranger.MIXED
        elif team is None or pool is None or not 0 < mgpu <= MGPU_MAX:
            strangers[key] = Stranger.ACCOUNT
        elif (user_id := users.get((team.organization_id, native.user))) is None:
            strangers[key] = Stranger.USER
        elif organizations.get(user_id) != team.organization_id:
            strangers[key] = Stranger.ORGANIZATION
        elif team.organization_id not in classes:
            strangers[key] = Stranger.CLASS
        else:
            owners[key] = Owner(native, team, user_id, pool, classes[team.organization_id])
    return owners, strangers


def _default_classes(organizations: Collection[UUID]) -> dict[UUID, PriorityClass]:
    """Return the default priority class of each organization.

    It is the class with the default name, else the lowest class.
    """
    found: dict[UUID, PriorityClass] = {}
    for one in PriorityClass.objects.filter(
        organization__in=organizations, is_retired=False
    ).order_by("-order", "name"):
        if (
            one.organization_id not in found
            or found[one.organization_id].name != DEFAULT_PRIORITY_CLASS
        ):
            found[one.organization_id] = one
    return found


def take_up(
    owners: Mapping[UUID, Owner], make: Callable[[Mapping[UUID, Owner]], None]
) -> tuple[set[UUID], set[UUID]]:
    """Create jobs of workloads; return the keys that count now, and those that cannot.

    `make` creates the jobs of all workloads that it is given, or of none.
    """
    chosen = sorted(owners.items(), key=lambda item: (item[1].native.started_at or 0, item[0]))
    chosen = chosen[:ADOPTED_MAX]
    if not chosen:
        return set(), set()
    try:
        make(dict(chosen))
    except (NotLeading, OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("of %d native jobs one cannot be counted", len(chosen))
    else:
        return {key for key, _ in chosen}, set()
    # One by one, so that one failure does not block the others.
    odd = set()
    for key, owner in chosen:
        try:
            make({key: owner})
        except (NotLeading, OperationalError, InterfaceError):
            raise
        except Exception as error:
            log.warning("native job %s cannot be counted: %r", owner.native.native_id, error)
            odd.add(key)
    return {key for key, _ in chosen} - odd, odd


def _make(
    cluster: Cluster,
    listing: Listing,
    previous_at: datetime | None,
    leadership: Leadership,
    now: datetime,
    owners: Mapping[UUID, Owner],
) -> None:
    """Create a job of each workload, or of none."""
    with leadership.fence():
        jobs = {key: job_of(cluster, owner) for key, owner in owners.items()}
        new = insert_jobs(jobs.values())
        made = {key: owners[key] for key, job in jobs.items() if job.id in new}
        attempts = count_running(
            {key: (owner, jobs[key]) for key, owner in made.items()},
            partial(running_attempt, cluster, listing, previous_at),
            now,
        )
        record_events(
            happening
            for key, owner in made.items()
            for happening in _happenings(owner.native, jobs[key], attempts[key])
        )
    conclude_ended(made, attempts, previous_at, leadership, now)


def insert_jobs(jobs: Collection[Job]) -> set[UUID]:
    """Store the `jobs` that are not stored yet; return their ids."""
    new = set(insert_rows(Job, [columns_of(job) for job in jobs], ignore_conflicts=True))
    by_organization: dict[UUID, list[UUID]] = {}
    for job in jobs:
        if job.id in new:
            by_organization.setdefault(job.organization_id, []).append(job.id)
    for organization_id, ids in by_organization.items():
        publish("jobs", ids=ids, organization_id=organization_id)
    if new:
        wake("arbiter")
    return new


def count_running(
    owners: Mapping[UUID, tuple[Owner, Job]],
    attempt_of: Callable[[UUID, Owner, Job, UnusedGuarantees], Attempt],
    now: datetime,
) -> dict[UUID, Attempt]:
    """Store and meter an attempt for each of these jobs.

    They run without a grant by the arbiter.
    """
    unused = UnusedGuarantees([owner for owner, _ in owners.values()])
    attempts = {key: attempt_of(key, owner, job, unused) for key, (owner, job) in owners.items()}
    insert_rows(Attempt, [columns_of(attempt) for attempt in attempts.values()])
    register_attempts(
        [_grant(owner, job, attempts[key]) for key, (owner, job) in owners.items()], now=now
    )
    for attempt in attempts.values():
        if attempt.started_at is not None:
            record_started(attempt.id, at=attempt.granted_at, now=now)
    return attempts


def conclude_ended(
    owners: Mapping[UUID, Owner],
    attempts: Mapping[UUID, Attempt],
    previous_at: datetime | None,
    leadership: Leadership,
    now: datetime,
) -> None:
    """Conclude workloads that had ended when they were found, like observed ones."""
    for key, attempt in attempts.items():
        if owners[key].native.is_released:
            observation = observation_of(attempt.key, owners[key].native)
            with leadership.fence():
                apply_one(attempt.id, attempt.job_id, observation, previous_at, now)


class UnusedGuarantees:
    """The unused guarantees of some teams, to class new attempts until the next cycle."""

    def __init__(self, owners: Sequence[Owner]) -> None:
        teams = {owner.team.pk for owner in owners}
        self._left_mgpu: dict[tuple[UUID, UUID], int] = {
            (team, pool): guaranteed_mgpu
            for team, pool, guaranteed_mgpu in Quota.objects.filter(node__in=teams).values_list(
                "node_id", "pool_id", "guaranteed_mgpu"
            )
        }
        for team, pool, taken_mgpu in (
            Attempt.objects.filter(released_at=None, job__team__in=teams)
            .values_list("job__team_id", "job__pool_id")
            .annotate(Sum("guaranteed_mgpu"))
        ):
            if (team, pool) in self._left_mgpu:
                self._left_mgpu[team, pool] -= taken_mgpu

    def take(self, owner: Owner) -> int:
        """Return the milli-GPU of the workload that fit into its team's guarantee.

        They are used up if the workload still holds them.
        """
        place = (owner.team.pk, owner.pool.pk)
        taken = max(0, min(mgpu_of(owner.native), self._left_mgpu.get(place, 0)))
        if taken and holds_gpus(owner.native):
            self._left_mgpu[place] -= taken
        return taken


def job_of(cluster: Cluster, owner: Owner) -> Job:
    """Return the job for a workload that runs or ran."""
    native = owner.native
    sizes = {slot.mgpu for slot in native.slots}
    # If the nodes differ, the job has only the sum. The attempt has the exact slots.
    is_even = len(sizes) == 1 and len(native.slots) <= RANKS_MAX
    nodes = len(native.slots) if is_even else 1
    started_at = None if native.started_at is None else from_epoch(native.started_at)
    return Job(
        id=job_id(cluster, native),
        organization_id=owner.team.organization_id,
        team=owner.team,
        user_id=owner.user_id,
        name=plain_name(native),
        type=(JobType.DISTRIBUTED if len(native.slots) > 1 else JobType.TRAINING).value,
        origin=JobOrigin.NATIVE.value,
        pool=owner.pool,
        priority_class=owner.priority_class,
        mgpu_per_node=mgpu_of(native) // nodes,
        node_count=nodes,
        script="",
        time_limit_s=native.time_limit_s if (native.time_limit_s or 0) > 0 else None,
        is_preemptible=native.is_preemptible,
        is_requeueable=False,
        state=(
            JobState.STARTING if native.phase is WorkloadPhase.STARTING else JobState.RUNNING
        ).value,
        submitted_at=from_epoch(native.submitted_at),
        started_at=started_at,
        attempt_number=1,
    )


def plain_name(native: NativeWorkload) -> str:
    """Return the workload's name in printable characters, since any user may have set it."""
    name = "".join(char for char in native.name if char.isprintable()).strip()[:_NAME_MAX]
    return name or f"job {native.native_id}"[:_NAME_MAX]


def mgpu_of(native: NativeWorkload) -> int:
    """Return the milli-GPU that the workload holds or held.

    For a workload that waits for the arbiter, return its request.
    """
    return sum(slot.mgpu for slot in native.slots) or sum(native.ranks_mgpu)


def running_attempt(
    cluster: Cluster,
    listing: Listing,
    previous_at: datetime | None,
    key: UUID,
    owner: Owner,
    job: Job,
    unused: UnusedGuarantees,
) -> Attempt:
    """Return the attempt that counts a running workload. `key` is its id."""
    native = owner.native
    observed_at = from_epoch(listing.observed_at)
    since = job.started_at or observed_at
    if previous_at is None or since < previous_at:
        since = observed_at
    is_waiting = native.phase is WorkloadPhase.STARTING
    return Attempt(
        id=key,
        job=job,
        number=job.attempt_number,
        cluster=cluster,
        slots=[{"node": slot.node, "mgpu": slot.mgpu} for slot in native.slots],
        mgpu=mgpu_of(native),
        guaranteed_mgpu=unused.take(owner),
        state=(AttemptState.STARTING if is_waiting else AttemptState.RUNNING).value,
        # No arbiter has granted it.
        epoch=0,
        granted_at=since,
        native_id=native.native_id,
        native_state=native.native_state,
        cluster_user=native.user,
        started_at=job.started_at,
    )


def _grant(owner: Owner, job: Job, attempt: Attempt) -> Grant:
    return Grant(
        attempt_id=attempt.id,
        job_id=job.id,
        job_name=job.name,
        number=attempt.number,
        organization_id=job.organization_id,
        team_id=job.team_id,
        user_id=job.user_id,
        pool_id=job.pool_id,
        cluster_id=attempt.cluster_id,
        priority_class=owner.priority_class.name,
        multiplier_ppm=owner.priority_class.price_multiplier_ppm,
        job_type=job.type,
        mgpu=attempt.mgpu,
        guaranteed_mgpu=attempt.guaranteed_mgpu,
        at=attempt.granted_at,
        use_factor_percent=owner.priority_class.use_factor_percent,
    )


def _happenings(native: NativeWorkload, job: Job, attempt: Attempt) -> Iterator[Happening]:
    yield Happening(
        job.id, job.submitted_at, "submitted_on_cluster", {"cluster": str(attempt.cluster_id)}
    )
    if job.started_at is not None:
        yield Happening(job.id, job.started_at, "started", {"attempt": attempt.number})
    if job.started_at is None or attempt.granted_at > job.started_at:
        yield Happening(job.id, attempt.granted_at, "counted_from_here", {})


def outside_use(
    listing: Listing,
    strangers: Mapping[UUID, tuple[NativeWorkload, Stranger]],
    waiting: Collection[NativeWorkload],
) -> OutsideUse:
    """Return the GPUs that `strangers` hold, and the `waiting` workloads that are no jobs."""
    by_node: dict[tuple[str, str], int] = {}
    held: dict[tuple[str, str, str, str], tuple[int, int]] = {}
    for native, why in strangers.values():
        if not holds_gpus(native):
            continue
        for slot in native.slots:
            place = (slot.node, native.pool)
            by_node[place] = by_node.get(place, 0) + slot.mgpu
        holder = (native.account or native.place, native.user, native.pool, why.value)
        mgpu, workloads = held.get(holder, (0, 0))
        held[holder] = mgpu + mgpu_of(native), workloads + 1
    return OutsideUse(
        observed_at=listing.observed_at,
        by_node=by_node,
        holders=tuple(
            Holder(*holder, mgpu=mgpu, workloads=count) for holder, (mgpu, count) in held.items()
        ),
        pending=len(waiting),
        pending_mgpu=sum(native.mgpu for native in waiting),
    )
