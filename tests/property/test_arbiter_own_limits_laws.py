"""The law of room that is kept in a team's own limit, over many cycles of small worlds in which
teams borrow nothing, jobs have time limits, and devices there are enough of (R-78)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbiter.api.plan import Code, Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import QueuedJob, RunningJob, Snapshot
from builders.arbiter_builders import GPU, World
from builders.arbiter_worlds import empty_worlds, teams

GRACE_S, CYCLE_S, HORIZON_S, OVERDUE_S = 60, 10, 600, 20


def a_world(draw: st.DrawFn) -> World:
    base = draw(empty_worlds())
    own = set(teams(base))
    quotas = tuple(
        replace(
            quota,
            guaranteed_mgpu=max(quota.guaranteed_mgpu, draw(st.integers(1, 6)) * GPU),
            borrow_limit_mgpu=0,
            lend_limit_mgpu=None,
        )
        if quota.node in own
        else replace(quota, guaranteed_mgpu=60 * GPU, borrow_limit_mgpu=None, lend_limit_mgpu=None)
        for quota in base.quotas
    )
    policy = Policy(
        grace_period_s_default=GRACE_S,
        reservations_max=draw(st.sampled_from([0, 1, 8])),
        reservation_horizon_s=HORIZON_S,
        claim_overdue_s=OVERDUE_S,
    )
    # Each node could take all that teams may hold: nothing but limits keeps anybody waiting.
    fleet = tuple(replace(device, capacity_mgpu=60 * GPU) for device in base.devices)
    return World(replace(base, quotas=quotas, devices=fleet), policy)


def move(draw: st.DrawFn, world: World, number: int) -> None:
    """Jobs come, and end, at the latest at their limits."""
    for i in range(draw(st.integers(0, 6))):
        job = QueuedJob(
            id=f"j{number:02d}{i}",
            team=draw(st.sampled_from(teams(world.base))),
            user="u",
            pool="p",
            mgpu_per_node=draw(st.integers(1, 3)) * GPU,
            node_count=draw(st.integers(1, 2)),
            priority_class=draw(st.sampled_from(["lo", "lo", "hi"])),
            submitted_at=world.now,
            time_limit_s=draw(st.sampled_from([None, 10, 50, 90, 200, 500])),
        )
        world.submit(job)
    for job_id in sorted(world.running):
        if draw(st.integers(0, 5)) == 0:
            world.leave(job_id)
    world.now += CYCLE_S
    for run in list(world.running.values()):
        limit_s = run.time_limit_s
        if (limit_s is not None and run.started_at + limit_s <= world.now) or (
            run.grace_until is not None and run.grace_until <= world.now
        ):
            world.leave(run.job)


def end_of(run: RunningJob, now: int, *, runs_on: bool) -> int | None:
    ends = []
    if run.grace_until is not None and not runs_on:
        ends.append(max(now, run.grace_until))
    if run.time_limit_s is not None and run.started_at + run.time_limit_s + OVERDUE_S >= now:
        ends.append(max(now, run.started_at + run.time_limit_s))
    return min((end for end in ends if end <= now + HORIZON_S), default=None)


def room_from(snapshot: Snapshot, job: QueuedJob, *, without: Iterable[str]) -> int | None:
    """From when on its team's own limit has room for `job`, by known ends of what runs and of what
    is claimed in the team, `without` some and what is stopped for them; None where nobody knows.
    A claim takes the place of what is stopped for it."""
    now, left_out = snapshot.taken_at, set(without)
    (quota,) = (one for one in snapshot.quotas if one.node == job.team)
    runs = [
        (run, end_of(run, now, runs_on=run.beneficiary in left_out))
        for run in snapshot.running
        if run.team == job.team and run.job not in left_out
    ]
    queued, claims = {one.id: one for one in snapshot.queued}, []
    for claim in snapshot.claims:
        other = queued[claim.job]
        if other.team == job.team and other.id not in left_out:
            limit_s = other.time_limit_s
            end = None if limit_s is None else max(now, claim.grace_until) + limit_s
            claims.append((other, None if end is None or end > now + HORIZON_S else end))

    def used(at: int) -> int:
        there = [run for run, end in runs if end is None or end > at]
        going = Counter[str | None]()
        for run in there:
            going[run.beneficiary] += run.mgpu
        more = [
            max(0, other.mgpu - going[other.id]) for other, end in claims if end is None or end > at
        ]
        return sum(run.mgpu for run in there) + sum(more)

    ends = [end for _, end in (*runs, *claims) if end is not None]
    moments = (at for at in (now, *sorted(ends)) if used(at) + job.mgpu <= quota.guaranteed_mgpu)
    return next(moments, None)


def first_refused(plan: Plan, before: Snapshot) -> list[QueuedJob]:
    """The first job of each team which only its own team's limit refuses."""
    jobs = {job.id: job for job in before.queued}
    first: dict[str, QueuedJob] = {}
    for waiting in plan.waiting:
        job = jobs[waiting.job]
        if waiting.code is Code.BORROW_LIMIT_REACHED and waiting.node == job.team:
            first.setdefault(job.team, job)
    return list(first.values())


@given(st.data())
@settings(max_examples=300, suppress_health_check=list(HealthCheck))
def test_nobody_who_comes_later_delays_whom_its_own_teams_limit_refuses(
    data: st.DataObject,
) -> None:
    """With all that a cycle starts and claims the limit has room for the first job that it refuses
    no later than with what ran and what came before that job in its team's order. A claim that is
    given up for somebody counted until then.

    Dies here: nothing is kept.
    """
    world = a_world(data.draw)
    orders = {cls.id: cls.order for cls in world.base.priority_classes}

    def place(job: QueuedJob) -> tuple[int, int, str]:
        return -orders[job.priority_class], job.submitted_at, job.id

    for number in range(data.draw(st.integers(1, 12))):
        move(data.draw, world, number)
        before = world.snapshot()
        claimed = {claim.job for claim in before.claims}
        plan = world.step()
        if plan.dropped_claims:
            continue
        after = world.snapshot()
        jobs = {job.id: job for job in before.queued}
        new = [start.job for start in plan.starts] + [reclaim.job for reclaim in plan.reclaims]
        for job in first_refused(plan, before):
            behind = [one for one in new if one not in claimed and place(jobs[one]) > place(job)]
            due = room_from(after, job, without=behind)
            # Where there was room now it was not the limit that refused it in its turn.
            first = room_from(before, job, without=())
            if due is not None and due > world.now and first != world.now:
                found = room_from(after, job, without=())
                assert found is not None
                assert found <= due
