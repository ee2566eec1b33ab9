"""Laws of reservations, over many cycles of small worlds in which jobs have time limits
(R-73 to R-82)."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbiter.api.plan import Plan, Reservation
from arbiter.api.policy import Policy
from arbiter.api.snapshot import QueuedJob, RunningJob, Snapshot
from arbiter.backfill.availability import ComingFree
from arbiter.backfill.reservations import Reservations
from arbiter.cycle.decide import decide
from arbiter.placement.free_devices import Shape
from builders.arbiter_builders import GPU, World
from builders.arbiter_worlds import FEATURES, Tree, empty_worlds, teams

GRACE_S, CYCLE_S, HORIZON_S = 60, 10, 600


def policies(draw: st.DrawFn) -> Policy:
    return Policy(
        grace_period_s_default=GRACE_S,
        reservations_max=draw(st.sampled_from([1, 2, 3, 8])),
        reservation_horizon_s=HORIZON_S,
        claim_overdue_s=20,
        skips_blocked_within_team=draw(st.integers(0, 4)) > 0,
    )


def a_job(draw: st.DrawFn, id: str, world: World, *, gpus: int = 3, count: int = 3) -> QueuedJob:
    return QueuedJob(
        id=id,
        team=draw(st.sampled_from(teams(world.base))),
        user=draw(st.sampled_from(["u", "v"])),
        pool="p",
        mgpu_per_node=draw(st.integers(1, gpus)) * GPU,
        node_count=draw(st.integers(1, count)),
        priority_class=draw(st.sampled_from(["lo", "lo", "hi"])),
        submitted_at=world.now,
        time_limit_s=draw(st.sampled_from([None, 10, 50, 90, 200, 500, 900])),
        clusters=draw(st.sampled_from([None, None, frozenset({"c0"})])),
        features=draw(st.sampled_from([None, None, *FEATURES])),
    )


def move(draw: st.DrawFn, world: World, number: int, **sizes: int) -> None:
    """Something happens between two cycles: jobs come, and end, at the latest at their limits, but
    for one now and then that its cluster ends too late."""
    for i in range(draw(st.integers(0, 6))):
        world.submit(a_job(draw, f"j{number:02d}{i}", world, **sizes))
    for job in sorted(world.running):
        if draw(st.integers(0, 5)) == 0:
            world.leave(job)
    world.now += CYCLE_S
    for run in list(world.running.values()):
        limit_s = run.time_limit_s
        is_over = limit_s is not None and run.started_at + limit_s <= world.now
        if (is_over and draw(st.integers(0, 9)) > 0) or (
            run.grace_until is not None and run.grace_until <= world.now
        ):
            world.leave(run.job)


def reserved(plan: Plan) -> dict[str, Reservation]:
    return {one.job: one for one in plan.reservations}


#: What is spare stands above all guarantees.
_SPARE = 100


class Later:
    """How things stand at a moment, by known ends, written out the slow way."""

    def __init__(
        self,
        snapshot: Snapshot,
        at: int,
        with_jobs: Iterable[tuple[QueuedJob, str, Sequence[str]]] = (),
        without: Iterable[str] = (),
    ) -> None:
        self.snapshot = snapshot
        self.tree = Tree(snapshot)
        self.use: Counter[str] = Counter()
        self.held: Counter[tuple[str, str]] = Counter()
        leaving: Counter[tuple[str, str]] = Counter()
        jobs = {job.id: job for job in snapshot.queued}
        for run in snapshot.running:
            if self.is_gone(run, at) or run.job in without:
                continue
            # For later, quota counts what is being stopped as gone already.
            if run.grace_until is None or at < snapshot.taken_at:
                self.use[run.team] += run.mgpu
            for slot in run.slots:
                self.held[run.cluster, slot.node] += slot.mgpu
                if run.grace_until is not None:
                    leaving[run.cluster, slot.node] += slot.mgpu
        for claim in snapshot.claims:
            job, begins = jobs[claim.job], max(snapshot.taken_at, claim.grace_until)
            if not is_over(job, begins, at, snapshot.taken_at):
                nodes = [slot.node for slot in claim.slots]
                self.put(job, claim.cluster, nodes)
                # What is still held by those who leave is what the claim waits for.
                for node in nodes:
                    shared = min(leaving[claim.cluster, node], job.mgpu_per_node)
                    leaving[claim.cluster, node] -= shared
                    self.held[claim.cluster, node] -= shared
        for job, cluster, nodes in with_jobs:
            self.put(job, cluster, nodes)

    def level(self, job: QueuedJob) -> int:
        """How far up the lowest guarantee stands in which `job` fits: 0 is its team's own."""
        for node in self.tree.path(job.team):
            below = [team for team in self.use if node in self.tree.path(team)]
            if sum(self.use[team] for team in below) + job.mgpu <= self.tree.guaranteed(node):
                return 0 if node == job.team else _SPARE - len(self.tree.path(node))
        return _SPARE

    def is_gone(self, run: RunningJob, at: int) -> bool:
        if run.grace_until is not None:
            return max(run.grace_until, self.snapshot.taken_at) <= at
        end = known_end(self.snapshot, run)
        return end is not None and end <= at

    def put(self, job: QueuedJob, cluster: str, nodes: Iterable[str]) -> None:
        self.use[job.team] += job.mgpu
        for node in nodes:
            self.held[cluster, node] += job.mgpu_per_node

    def fits(self, job: QueuedJob, cluster: str, nodes: Sequence[str]) -> bool:
        """Whether `job` can start there then, by devices and by quota."""
        capacity = {
            (device.cluster, device.node): device.capacity_mgpu for device in self.snapshot.devices
        }
        if any(
            self.held[cluster, node] + job.mgpu_per_node > capacity[cluster, node] for node in nodes
        ):
            return False
        then = self.use + Counter({job.team: job.mgpu})
        for node in self.tree.path(job.team):
            quota = self.tree.quotas[node]
            if quota.borrow_limit_mgpu is not None:
                held = self.tree.held(node, then)
                limit = quota.guaranteed_mgpu + quota.borrow_limit_mgpu
                if held > limit and held != self.tree.held(node, self.use):
                    return False
        held = self.tree.held(None, then)
        total = sum(capacity.values())
        return held <= total or held == self.tree.held(None, self.use)


def known_end(snapshot: Snapshot, run: RunningJob) -> int | None:
    if run.time_limit_s is None:
        return None
    end = max(run.started_at + run.time_limit_s, snapshot.taken_at)
    if run.started_at + run.time_limit_s + 20 < snapshot.taken_at:
        return None
    return end if end <= snapshot.taken_at + HORIZON_S else None


def is_over(job: QueuedJob, begins: int, at: int, now: int) -> bool:
    """Whether a job that starts when it `begins` is known to be gone at a moment."""
    return job.time_limit_s is not None and begins + job.time_limit_s <= min(at, now + HORIZON_S)


def is_in_way(job: QueuedJob, one: Reservation, now: int) -> bool:
    return job.time_limit_s is None or now + job.time_limit_s > one.start_at


def others_then(
    plan: Plan, one: Reservation, jobs: dict[str, QueuedJob]
) -> list[tuple[QueuedJob, str, list[str]]]:
    """The other reserved jobs that run when `one` starts."""
    found = []
    for other in plan.reservations:
        job = jobs[other.job]
        is_gone = is_over(job, other.start_at, one.start_at, plan.taken_at)
        if other is not one and other.start_at <= one.start_at and not is_gone:
            found.append((job, other.cluster, [slot.node for slot in other.slots]))
    return found


def unbound(plan: Plan, after: Snapshot, jobs: dict[str, QueuedJob], one: Reservation) -> set[str]:
    """What starts inside its own team's guarantee, unless the reserved job is of that team and
    comes first in it, or inside that of the node on its side of the lowest one above its team and
    the reserved job's: neither waits for the reservation."""
    tree = Tree(after)
    theirs = tree.path(jobs[one.job].team)
    found = set()
    for start in plan.starts:
        job = jobs[start.job]
        mine = [node for node in tree.path(job.team) if node not in theirs]
        if (start.guaranteed_mgpu == job.mgpu and not comes_first(after, jobs, one, job)) or (
            mine
            and job.team not in theirs
            and jobs[one.job].team not in tree.path(job.team)
            and any(run.job == job.id for run in tree.protected(mine[-1]))
        ):
            found.add(job.id)
    return found


def comes_first(
    after: Snapshot, jobs: dict[str, QueuedJob], one: Reservation, start: QueuedJob
) -> bool:
    """Whether the reserved job is of the same team and surely fits in its guarantee when it begins,
    beside all that may come before it there."""
    job = jobs[one.job]
    orders = {cls.id: cls.order for cls in after.priority_classes}

    def place(run: QueuedJob | RunningJob) -> tuple[int, int]:
        return -orders.get(run.priority_class, 0), run.submitted_at

    before = [
        run.mgpu
        for run in after.running
        if run.team == job.team
        and run.job != start.id
        and (run.started_at == after.taken_at or place(run) <= place(job))
        and not ((end := known_end(after, run)) is not None and end <= one.start_at)
    ]
    before += [jobs[claim.job].mgpu for claim in after.claims if jobs[claim.job].team == job.team]
    room = Tree(after).guaranteed(job.team) - sum(before)
    return start.team == job.team and job.mgpu <= room


def may_be_overtaken(
    after: Snapshot, plan: Plan, one: Reservation, jobs: dict[str, QueuedJob]
) -> bool:
    """Whether somebody who waits comes before `one` without a time of its own, or fits by then in a
    guarantee that goes before the one that `one` fits in; or is stopped for another one, and waits
    again."""
    turn = {waiting.job: at for at, waiting in enumerate(plan.waiting)}
    told = {waiting.job for waiting in plan.waiting if waiting.method is not None}
    then = Later(after, one.start_at)
    jobs = {job.id: job for job in after.queued}
    reserved, beside = jobs[one.job], Later(after, one.start_at)
    for other in plan.reservations:
        if other is not one and other.start_at <= one.start_at:
            beside.put(jobs[other.job], other.cluster, [slot.node for slot in other.slots])
    return any(run.beneficiary is not None for run in after.running) or any(
        (job.id not in told and turn[job.id] < turn[one.job])
        or then.level(job) < min(_SPARE, beside.level(reserved) + (job.team != reserved.team))
        for job in after.queued
        if job.id != one.job
    )


def _asked_anew(reservations: Reservations, shape: Shape) -> ComingFree:
    return ComingFree(reservations._pool.free, reservations._ends.by_time(), shape)


@given(st.data())
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
def test_ends_that_were_followed_once_give_the_reservations_of_those_followed_each_time(
    data: st.DataObject,
) -> None:
    """Dies here: nodes on which something starts in between are not looked at anew."""
    world = World(data.draw(empty_worlds()), policies(data.draw))
    for number in range(data.draw(st.integers(1, 12))):
        move(data.draw, world, number, gpus=data.draw(st.integers(1, 3)))
        with patch.object(Reservations, "_coming_free", _asked_anew):
            plain = decide(world.snapshot(), world.policy)
        assert world.step() == plain


@given(st.data())
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
def test_what_is_reserved_is_there_when_it_is_needed(data: st.DataObject) -> None:
    """No start delays a reservation, nor does a claim of its own team: after a cycle a reserved job
    fits its place at its time, in devices and in quota, beside all that is reserved and all that
    the cycle started, but for what started inside a guarantee that goes before it. No more jobs of
    a pool hold one than the policy says; each of them waits, and says by when it starts, or nothing
    where another job of the pool that holds none, that draws on a guarantee that goes before its
    own by then, or that is being stopped for somebody, may come first.

    Mutant that dies here: of what is reserved on a node only the last counted. Three that live here
    and die in the unit tests: what starts not charged to the quota that a reservation needs; what
    fits in its team's guarantee waits for nobody of its team; a claim takes what comes free for a
    reservation.
    """
    world = World(data.draw(empty_worlds()), policies(data.draw))
    for number in range(data.draw(st.integers(1, 12))):
        move(data.draw, world, number)
        before = world.snapshot()
        jobs = {job.id: job for job in before.queued}
        plan = world.step()
        after = world.snapshot()
        assert len(plan.reservations) <= world.policy.reservations_max
        for one in plan.reservations:
            waits = world.waiting(one.job)
            if waits.latest is None:
                assert (waits.earliest, waits.method) == (None, None)
                assert unbound(plan, after, jobs, one) or may_be_overtaken(after, plan, one, jobs)
            else:
                assert (waits.earliest, waits.latest, waits.method) == (
                    None, one.start_at, "time_limits",
                )  # fmt: skip
            assert world.now <= one.start_at <= world.now + HORIZON_S
            assert [slot.mgpu for slot in one.slots] == (
                [jobs[one.job].mgpu_per_node] * jobs[one.job].node_count
            )
            # Whoever else claims may have a guarantee that goes before the reservation.
            claimed = {claim.job for claim in before.claims}
            bound = tuple(
                claim
                for claim in after.claims
                if claim.job in claimed or comes_first(after, jobs, one, jobs[claim.job])
            )
            # Who is stopped now, and would have ended before its grace does, is gone by then.
            gone = {
                run.job for run in before.running if Later(before, 0).is_gone(run, one.start_at)
            }
            gone |= unbound(plan, after, jobs, one)
            others = others_then(plan, one, jobs)
            then = Later(dataclasses.replace(after, claims=bound), one.start_at, others, gone)
            assert then.fits(jobs[one.job], one.cluster, [slot.node for slot in one.slots])


@given(st.data())
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
def test_no_start_delays_a_reservation_of_the_next_cycle(data: st.DataObject) -> None:
    """Who holds a reservation and nothing happens but that time passes and what started runs, holds
    one that begins no later, or starts, unless somebody starts, claims or reserves before it, or
    started on its nodes within a guarantee that goes before it.
    """
    world = World(data.draw(empty_worlds()), policies(data.draw))
    for number in range(data.draw(st.integers(1, 10))):
        move(data.draw, world, number)
        jobs = {job.id: job for job in world.snapshot().queued}
        plan = world.step()
        if plan.reclaims or world.claims or not plan.reservations:
            continue
        first = plan.reservations[0]
        guaranteed = unbound(plan, world.snapshot(), jobs, first)
        if any(
            start.job in guaranteed
            and is_in_way(jobs[start.job], first, plan.taken_at)
            and {(start.cluster, slot.node) for slot in start.slots}
            & {(first.cluster, slot.node) for slot in first.slots}
            for start in plan.starts
        ):
            continue
        again = decide(world.snapshot(), world.policy)
        if again.starts or again.reclaims:
            continue
        if again.reservations and again.reservations[0].job == first.job:
            assert again.reservations[0].start_at <= first.start_at


@given(st.data(), st.randoms(use_true_random=False))
@settings(max_examples=80, suppress_health_check=list(HealthCheck))
def test_reservations_do_not_depend_on_the_order_of_the_input(
    data: st.DataObject, dice: random.Random
) -> None:
    world = World(data.draw(empty_worlds()), policies(data.draw))
    for number in range(data.draw(st.integers(1, 6))):
        move(data.draw, world, number)
        snapshot = world.snapshot()
        names = ("nodes", "quotas", "priority_classes", "devices", "running", "queued", "claims")
        parts = {name: getattr(snapshot, name) for name in names}
        shuffled = dataclasses.replace(
            snapshot, **{name: tuple(dice.sample(part, len(part))) for name, part in parts.items()}
        )
        policy = world.policy
        assert decide(shuffled, policy) == decide(snapshot, policy) == world.step()


@given(st.data())
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
def test_a_gpu_idles_only_for_a_reservation_that_would_be_delayed(data: st.DataObject) -> None:
    """Work conservation: with jobs of one GPU and one user, a job that quota permits and for which
    a GPU is free that nobody claims would on each such GPU still run when a reservation begins
    that has no room then, there or in quota, with it.

    Mutant that dies here: all that is free on a reserved node held back.
    """
    world = World(data.draw(empty_worlds()), policies(data.draw))
    for number in range(data.draw(st.integers(1, 10))):
        move(data.draw, world, number, gpus=data.draw(st.sampled_from([1, 3])))
        jobs = dict(world.queued)
        plan = world.step()
        after = world.snapshot()
        if after.claims or len(plan.starts) >= world.policy.starts_max:
            continue
        if not world.policy.skips_blocked_within_team:
            continue
        alone = Counter(job.team for job in after.queued)
        for job in after.queued:
            # An earlier job of the team may keep its place in the guarantee.
            if job.mgpu != GPU or alone[job.team] > 1:
                continue
            for device in after.devices:
                if (job.clusters is not None and device.cluster not in job.clusters) or not (
                    (job.features or frozenset()) <= device.features
                ):
                    continue
                if Later(after, after.taken_at - 1).fits(job, device.cluster, [device.node]):
                    assert any(
                        is_in_way(job, one, world.now)
                        and not Later(
                            after,
                            one.start_at,
                            [
                                *others_then(plan, one, jobs),
                                (job, device.cluster, [device.node]),
                            ],
                        ).fits(jobs[one.job], one.cluster, [slot.node for slot in one.slots])
                        for one in plan.reservations
                    ), (job, device)
