"""Laws of the whole cycle, checked over many cycles of small worlds in which limits bind."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from arbiter.api.plan import NUMBERS, Code, Plan, Start
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Level, Phase, QueuedJob, Snapshot
from arbiter.cycle.decide import decide
from builders.arbiter_builders import GPU, World
from builders.arbiter_worlds import FEATURES, Tree, empty_worlds, teams

GRACE_S, CYCLE_S = 60, 10
POLICY = Policy(grace_period_s_default=GRACE_S)


def a_job(draw: st.DrawFn, number: int, world: World, *, gpus: int, count: int) -> QueuedJob:
    nodes = draw(st.integers(1, count))
    return QueuedJob(
        id=f"j{number:03d}",
        team=draw(st.sampled_from(teams(world.base))),
        user="u",
        pool="p",
        mgpu_per_node=draw(st.integers(1, gpus)) * GPU,
        node_count=nodes,
        node_count_max=draw(st.sampled_from([None, None, nodes, nodes + 1, nodes + 3]))
        if count > 1
        else None,
        priority_class=draw(st.sampled_from(["lo", "lo", "hi"])) if gpus > 1 else "lo",
        submitted_at=world.now,
        clusters=draw(st.sampled_from([None, None, frozenset({"c0"})])) if count > 1 else None,
        features=draw(st.sampled_from([None, None, *FEATURES, frozenset("c")]))
        if count > 1
        else None,
        required_topology=draw(st.sampled_from([None, None, Level.RACK])) if count > 1 else None,
    )


def move(
    draw: st.DrawFn, world: World, number: int, *, gpus: int, count: int, ends: bool = True
) -> None:
    """Something happens between two cycles; without `ends` only victims leave."""
    for i in range(draw(st.integers(0, 6))):
        world.submit(a_job(draw, number * 10 + i, world, gpus=gpus, count=count))
    for job in sorted(world.running) if ends else ():
        if draw(st.integers(0, 4)) == 0:
            world.leave(job)
    world.now += CYCLE_S
    for run in list(world.running.values()):
        if run.grace_until is not None and run.grace_until <= world.now:
            world.leave(run.job)


def team_use(snapshot: Snapshot, plan: Plan | None = None) -> dict[str, int]:
    use: Counter[str] = Counter()
    for run in snapshot.running:
        use[run.team] += run.mgpu
    if plan is not None:
        jobs = {job.id: job for job in snapshot.queued}
        for start in plan.starts:
            use[jobs[start.job].team] += granted(start)
    return dict(use)


def granted(start: Start) -> int:
    return sum(slot.mgpu for slot in start.slots)


def capacity_of(snapshot: Snapshot) -> int:
    """What schedulable devices offer, or what is in use on them where that is more."""
    used: Counter[tuple[str, str]] = Counter()
    for run in snapshot.running:
        for slot in run.slots:
            used[run.cluster, slot.node] += slot.mgpu
    offered = {
        (device.cluster, device.node): device.capacity_mgpu
        for device in snapshot.devices
        if device.cluster in snapshot.clusters
    }
    return sum(max(offered.get(key, 0), used[key]) for key in offered.keys() | used.keys())


def check_devices(snapshot: Snapshot, plan: Plan) -> None:
    jobs = {job.id: job for job in snapshot.queued}
    held: Counter[tuple[str, str]] = Counter()
    features = {(device.cluster, device.node): device.features for device in snapshot.devices}
    racks = {(device.cluster, device.node): device.domains.rack for device in snapshot.devices}
    for run in snapshot.running:
        for slot in run.slots:
            held[run.cluster, slot.node] += slot.mgpu
    for one in (*plan.starts, *plan.reclaims):
        wanted = jobs[one.job].features or frozenset()
        assert all(wanted <= features[one.cluster, slot.node] for slot in one.slots)
        if jobs[one.job].required_topology is not None and len(one.slots) > 1:
            assert len({racks[one.cluster, slot.node] for slot in one.slots} | {""}) == 2
    for start in plan.starts:
        job = jobs[start.job]
        assert {slot.mgpu for slot in start.slots} == {job.mgpu_per_node}
        assert len({slot.node for slot in start.slots}) == len(start.slots)
        assert job.node_count <= len(start.slots) <= max(job.node_count, job.node_count_max or 0)
        assert start.cluster in snapshot.clusters
        assert job.clusters is None or start.cluster in job.clusters
        for slot in start.slots:
            held[start.cluster, slot.node] += slot.mgpu
    capacity = {(device.cluster, device.node): device.capacity_mgpu for device in snapshot.devices}
    started_on = {(start.cluster, slot.node) for start in plan.starts for slot in start.slots}
    assert all(held[key] <= capacity[key] for key in started_on)


def nodes_having(snapshot: Snapshot, job: QueuedJob) -> int:
    """Nodes with all features of `job`, on the cluster of its own that has most of them."""
    found = Counter(
        device.cluster
        for device in snapshot.devices
        if (job.features or frozenset()) <= device.features
        and (job.clusters is None or device.cluster in job.clusters)
    )
    return max(found.values(), default=0)


def check_quota(snapshot: Snapshot, plan: Plan) -> None:
    tree = Tree(snapshot)
    before, after = team_use(snapshot), team_use(snapshot, plan)
    for quota in snapshot.quotas:
        if quota.borrow_limit_mgpu is None:
            continue
        held = tree.held(quota.node, after)
        limit = quota.guaranteed_mgpu + quota.borrow_limit_mgpu
        assert held <= limit or held == tree.held(quota.node, before)
    held = tree.held(None, after)
    assert held <= capacity_of(snapshot) or held == tree.held(None, before)


def check_reclaims(snapshot: Snapshot, plan: Plan) -> None:
    tree = Tree(snapshot)
    jobs = {job.id: job for job in snapshot.queued}
    running = {run.attempt: run for run in snapshot.running}
    taken: set[str] = set()
    gone: set[str] = set(plan.dropped_claims)
    kept = {claim.job for claim in snapshot.claims} - set(plan.dropped_claims)
    for reclaim in plan.reclaims:
        job = jobs[reclaim.job]
        assert reclaim.job not in kept
        assert [slot.mgpu for slot in reclaim.slots] == [job.mgpu_per_node] * job.node_count
        mine = tree.path(job.team)
        gone |= {victim.attempt for victim in reclaim.victims}
        for victim in reclaim.victims:
            run = running[victim.attempt]
            assert victim.attempt not in taken
            assert run.phase is not Phase.STOPPING
            taken.add(victim.attempt)
            if run.team == job.team:
                assert tree.orders[run.priority_class] < tree.orders[job.priority_class]
                continue
            common = next((a for a in mine if a in tree.path(run.team)), None)
            x = next(a for a in mine if tree.parents[a] == common)
            y = next(a for a in tree.path(run.team) if tree.parents[a] == common)
            assert run.job not in {one.job for one in tree.protected(y)}
            left = [one for one in tree.protected(x) if one.attempt not in gone]
            assert tree.fits(x, [*left, job])


def check_claims(snapshot: Snapshot, plan: Plan) -> None:
    """After the plan, what is claimed and what stays fits every device."""
    settled = {start.job for start in plan.starts} | set(plan.dropped_claims)
    held: Counter[tuple[str, str]] = Counter()
    for claim in snapshot.claims:
        if claim.job not in settled:
            for slot in claim.slots:
                held[claim.cluster, slot.node] += slot.mgpu
    going = {victim.attempt for reclaim in plan.reclaims for victim in reclaim.victims}
    for reclaim in plan.reclaims:
        for slot in reclaim.slots:
            held[reclaim.cluster, slot.node] += slot.mgpu
    for start in plan.starts:
        for slot in start.slots:
            held[start.cluster, slot.node] += slot.mgpu
    for run in snapshot.running:
        if run.phase is not Phase.STOPPING and run.attempt not in going:
            for slot in run.slots:
                held[run.cluster, slot.node] += slot.mgpu
    capacity = {(device.cluster, device.node): device.capacity_mgpu for device in snapshot.devices}
    assert all(held[key] <= capacity[key] for key in held)


def check_future(snapshot: Snapshot) -> None:
    """Once everything that is being stopped is gone and every claim is used, limits hold."""
    tree = Tree(snapshot)
    use: Counter[str] = Counter()
    for run in snapshot.running:
        if run.phase is not Phase.STOPPING:
            use[run.team] += run.mgpu
    jobs = {job.id: job for job in snapshot.queued}
    for claim in snapshot.claims:
        use[jobs[claim.job].team] += jobs[claim.job].mgpu
    for quota in snapshot.quotas:
        if quota.borrow_limit_mgpu is not None:
            limit = quota.guaranteed_mgpu + quota.borrow_limit_mgpu
            assert tree.held(quota.node, dict(use)) <= limit
    assert tree.held(None, dict(use)) <= capacity_of(snapshot)


def check_account(snapshot: Snapshot, plan: Plan) -> None:
    tree = Tree(snapshot)
    started = {start.job for start in plan.starts}
    waiting = Counter(one.job for one in plan.waiting)
    assert waiting == Counter(job.id for job in snapshot.queued if job.id not in started)
    claimed = {claim.job for claim in snapshot.claims} - set(plan.dropped_claims) - started
    claimed |= {reclaim.job for reclaim in plan.reclaims}
    assert claimed == {one.job for one in plan.waiting if one.code is Code.WAITING_FOR_RECLAIM}
    asked = {job.id: job for job in snapshot.queued}
    for one in plan.waiting:
        if "nodes_with_features" in one.numbers:
            assert one.numbers["nodes_with_features"] == nodes_having(snapshot, asked[one.job])
        assert one.numbers.keys() <= NUMBERS.keys()
        assert all(type(value) is int for value in one.numbers.values())
        assert one.numbers.get("protected_mgpu", 0) <= one.numbers.get("in_use_mgpu", 0)
    parts = {run.attempt: run.guaranteed_mgpu for run in snapshot.running}
    parts.update({one.attempt: one.guaranteed_mgpu for one in plan.classed})
    jobs = {job.id: job for job in snapshot.queued}
    guaranteed: Counter[str] = Counter()
    for run in snapshot.running:
        part = parts[run.attempt]
        assert part is not None
        assert 0 <= part <= run.mgpu
        guaranteed[run.team] += part
    for start in plan.starts:
        assert 0 <= start.guaranteed_mgpu <= granted(start)
        guaranteed[jobs[start.job].team] += start.guaranteed_mgpu
    use = team_use(snapshot, plan)
    for team in teams(snapshot):
        assert guaranteed[team] == min(use.get(team, 0), tree.guaranteed(team))
    for one in plan.use:
        in_use = sum(mgpu for team, mgpu in use.items() if one.node in tree.path(team))
        assert one.in_use_mgpu == in_use
        assert one.protected_mgpu <= min(in_use, tree.guaranteed(one.node))
        idle = max(0, tree.guaranteed(one.node) - in_use)
        assert 0 <= one.lent_mgpu <= idle


@given(st.data())
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
def test_no_cycle_breaks_a_limit_or_a_promise(data: st.DataObject) -> None:
    """Capacity, borrow and lend limits, all or nothing, protected never reclaimed, one claim
    per victim and job, accounts that add up, and promises that fit: after each of a dozen cycles
    with random arrivals, exits and early or late departures of victims.

    Mutants that die here: a limit looked at for the team only; what the organizations hold not
    compared with the capacity; the lend limit taken for what is kept; jobs protected in part;
    what a sister keeps taken for a guarantee that protects others; attempts reclaimed that are
    protected where the paths part; a reclaim that quota forbids; preemption of equal classes in
    the team; a job started, or promised GPUs, on nodes without the features that it asks for; a
    claim's free GPUs, stored or new, left to others; a new claim left out of what is promised.
    Mutants that live here and die in the unit tests: jobs not taken "protected one level lower
    first"; rights of ancestors weighed without, or only with, the victims below them; claims
    that never yield; what is promised not looked at by starts.
    """
    world = World(data.draw(empty_worlds()), POLICY)
    for number in range(data.draw(st.integers(1, 12))):
        move(data.draw, world, number, gpus=3, count=2)
        snapshot = world.snapshot()
        plan = world.step()
        check_devices(snapshot, plan)
        check_quota(snapshot, plan)
        check_reclaims(snapshot, plan)
        check_claims(snapshot, plan)
        check_account(snapshot, plan)
        check_future(world.snapshot())


@given(st.data())
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
def test_lost_nodes_silent_clusters_and_changed_quotas_break_nothing(data: st.DataObject) -> None:
    """Starts still fit devices and limits, every job is told why, and parts still add up, while
    nodes drain and come back, clusters fall silent, and guarantees and limits move at will.

    Mutants that die here: those on limits above; the half of the rule by which a start may leave
    held GPUs as they were; capacity without what still runs on drained nodes.
    """
    world = World(data.draw(empty_worlds()), POLICY)
    whole = world.base
    for number in range(data.draw(st.integers(1, 8))):
        move(data.draw, world, number, gpus=3, count=2)
        world.base = dataclasses.replace(
            whole,
            devices=tuple(
                device
                if data.draw(st.integers(0, 3))
                else dataclasses.replace(device, capacity_mgpu=0)
                for device in whole.devices
            ),
            clusters=frozenset(
                cluster for cluster in sorted(whole.clusters) if data.draw(st.integers(0, 5))
            ),
            quotas=tuple(
                quota
                if data.draw(st.integers(0, 3))
                else dataclasses.replace(
                    quota,
                    guaranteed_mgpu=data.draw(st.integers(0, 4)) * GPU,
                    borrow_limit_mgpu=data.draw(st.none() | st.integers(0, 3).map(GPU.__mul__)),
                )
                for quota in whole.quotas
            ),
        )
        snapshot = world.snapshot()
        plan = world.step()
        check_devices(snapshot, plan)
        check_quota(snapshot, plan)
        check_account(snapshot, plan)
        check_work_conservation(snapshot, world.snapshot())


@given(st.data(), st.randoms(use_true_random=False))
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_the_order_of_the_input_changes_nothing(data: st.DataObject, dice: random.Random) -> None:
    """Equal snapshots give equal plans, however their parts are ordered, and twice the same.

    Mutant that dies here: the queued jobs are not sorted by age.
    """
    world = World(data.draw(empty_worlds()), POLICY)
    for number in range(data.draw(st.integers(1, 6))):
        move(data.draw, world, number, gpus=3, count=2)
        snapshot = world.snapshot()
        shuffled = dataclasses.replace(
            snapshot,
            **{
                name: tuple(dice.sample(value, len(value)))
                for name in (
                    "nodes",
                    "quotas",
                    "priority_classes",
                    "devices",
                    "running",
                    "queued",
                    "claims",
                )
                for value in (getattr(snapshot, name),)
            },
        )
        assert decide(shuffled, POLICY) == decide(snapshot, POLICY) == world.step()


@given(st.data())
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
def test_no_gpu_idles_that_a_permitted_one_gpu_job_could_use(data: st.DataObject) -> None:
    """Work conservation: with jobs of one GPU, whatever still waits is refused by quota or
    every GPU that is neither used nor claimed is gone; of a job that asks for features, every such
    GPU on the nodes that have them.
    """
    world = World(data.draw(empty_worlds()), POLICY)
    asked = {team: data.draw(st.sampled_from(FEATURES)) for team in teams(world.base)}
    for number in range(data.draw(st.integers(1, 8))):
        move(data.draw, world, number, gpus=1, count=1)
        for job in world.queued.values():
            world.queued[job.id] = dataclasses.replace(job, features=asked[job.team])
        snapshot = world.snapshot()
        world.step()
        check_work_conservation(snapshot, world.snapshot())


@given(st.data())
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
def test_who_waits_for_nodes_that_nobody_gives_back_keeps_no_gpu_idle(data: st.DataObject) -> None:
    """Work conservation inside a team: with jobs of one GPU of which nobody knows when they end,
    and while nobody borrows, those whose nodes are taken keep nothing from others of their team.

    Planted: a job keeps its place in its team's guarantee whatever it waits for.
    """
    world = World(data.draw(empty_worlds()), POLICY)
    wishes = data.draw(st.lists(st.sampled_from(FEATURES), min_size=7, max_size=7))
    for number in range(data.draw(st.integers(1, 8))):
        move(data.draw, world, number, gpus=1, count=1)
        for job in world.queued.values():
            wish = wishes[int(job.id[1:]) % len(wishes)]
            world.queued[job.id] = dataclasses.replace(job, features=wish)
        snapshot = world.snapshot()
        world.step()
        after = world.snapshot()
        tree = Tree(snapshot)
        if after.claims or not all(
            run in tree.protected(node) for run in tree.standing() for node in tree.path(run.team)
        ):
            continue
        for job in after.queued:
            wanted = job.features or frozenset()
            check_conserved(snapshot, dataclasses.replace(after, queued=(job,)), wanted)


def check_work_conservation(before: Snapshot, after: Snapshot) -> None:
    """No unpinned job of one GPU waits that quota permits while a GPU is free and unclaimed."""
    if after.claims:
        return
    for wanted in {job.features or frozenset() for job in after.queued}:
        check_conserved(before, after, wanted)


def check_conserved(before: Snapshot, after: Snapshot, wanted: frozenset[str]) -> None:
    """The same of the jobs that ask for the features `wanted`, and of nodes that have them."""
    used: Counter[tuple[str, str]] = Counter()
    for run in after.running:
        for slot in run.slots:
            used[run.cluster, slot.node] += slot.mgpu
    is_free = any(
        used[device.cluster, device.node] + GPU <= device.capacity_mgpu
        for device in after.devices
        if device.cluster in after.clusters and wanted <= device.features
    )
    if not is_free:
        return
    tree, use, capacity = Tree(after), team_use(after), capacity_of(before)
    waiting: dict[str, list[QueuedJob]] = {}
    for job in after.queued:
        waiting.setdefault(job.team, []).append(job)
    for jobs in waiting.values():
        if any(job.mgpu != GPU or job.clusters is not None for job in jobs):
            continue  # an earlier job of the team may keep its place in the guarantee
        if any((job.features or frozenset()) != wanted for job in jobs):
            continue
        job = jobs[0]
        then = {**use, job.team: use.get(job.team, 0) + GPU}
        root = tree.held(None, then)
        permitted = root <= capacity or root == tree.held(None, use)
        for node in tree.path(job.team):
            quota = tree.quotas[node]
            if quota.borrow_limit_mgpu is not None:
                held = tree.held(node, then)
                limit = quota.guaranteed_mgpu + quota.borrow_limit_mgpu
                permitted &= held <= limit or held == tree.held(node, use)
        assert not permitted, job


def check_promise(data: st.DataObject, world: World, *, gpus: int) -> None:
    """Every job that is its team's next and fits in what of the team's guarantee is not in use
    starts within the grace and two cycles."""
    since: dict[str, int] = {}
    for number in range(data.draw(st.integers(4, 20))):
        # Where jobs ended by themselves something would always come free, whoever was entitled.
        move(data.draw, world, number, gpus=gpus, count=1, ends=False)
        for job in world.queued:
            world.queued[job] = dataclasses.replace(world.queued[job], priority_class="lo")
        tree = Tree(world.snapshot())
        use = team_use(world.snapshot())
        heads: dict[str, QueuedJob] = {}
        for job in sorted(world.queued.values(), key=lambda one: (one.submitted_at, one.id)):
            heads.setdefault(job.team, job)
        largest = max(device.capacity_mgpu for device in world.base.devices)
        entitled = {
            job.id
            for team, job in heads.items()
            if use.get(team, 0) + job.mgpu <= tree.guaranteed(team) and job.mgpu <= largest
        }
        since = {job: since.get(job, world.now) for job in entitled}
        assert all(world.now - start <= GRACE_S + 2 * CYCLE_S for start in since.values())
        world.step()


@given(st.data())
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
def test_a_guaranteed_job_of_one_gpu_starts_within_the_grace(data: st.DataObject) -> None:
    world = World(data.draw(empty_worlds()), POLICY)
    check_promise(data, world, gpus=1)


@given(st.data())
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
def test_a_guaranteed_job_on_one_node_starts_within_the_grace(data: st.DataObject) -> None:
    world = World(data.draw(empty_worlds(nodes_max=1, node_gpus_max=8, clusters_max=1)), POLICY)
    assume(world.base.devices[0].capacity_mgpu >= 2 * GPU)
    check_promise(data, world, gpus=3)
