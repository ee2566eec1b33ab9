"""Of the victims of several claims of one cycle none is needless to all of them together (R-60)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbiter.core import Core
from arbiter.cycle import decide
from arbiter.decisions import Plan
from arbiter.policy import Policy
from arbiter.snapshot import QueuedJob, RunningJob, Snapshot
from builders.arbiter_worlds import Tree
from builders.dense_worlds import a_dense_world
from property.test_arbiter_laws import (
    capacity_of,
    check_account,
    check_claims,
    check_devices,
    check_quota,
    check_reclaims,
)

#: In one of a few worlds several claims are made, and in one of ten of those somebody is spared.
_WORLDS = 30
_SLOW = settings(max_examples=40, suppress_health_check=list(HealthCheck))


@_SLOW
@given(st.integers(0, 2**32))
def test_no_victim_can_run_on_beside_all_claims_of_a_cycle(seed: int) -> None:
    """But for who is protected by a guarantee that a job draws on which starts or claims: without
    that one the right to others may be lost. Nothing is reserved: a claim could not be everywhere.

    Dies here: nobody is spared; only the claims on the nodes of a victim are laid anew; the largest
    ranks are laid last; what was lifted is not put back.
    """
    dice = Random(seed)
    for _ in range(_WORLDS):
        snapshot = a_dense_world(dice)
        plan = decide(snapshot, Policy(reservations_max=0), explains=False)
        if len(plan.reclaims) > 1:
            assert not needless(snapshot, plan)


@_SLOW
@given(st.integers(0, 2**32))
def test_whoever_is_spared_takes_nothing_from_anybody(seed: int) -> None:
    """What is decided after all keeps limits, rights and devices, as each claim was made, and of a
    cycle nothing is left in a core that lives on.

    Dies here: guarantees are not asked; those of the end alone are asked; quota is not checked, or
    not charged; who is spared stays among those who are stopped.
    """
    dice = Random(seed)
    for _ in range(_WORLDS):
        snapshot = a_dense_world(dice)
        core = Core.of(snapshot, Policy())
        plan = core.cycle(snapshot.taken_at)
        if len(plan.reclaims) < 2:
            continue
        check_quota(snapshot, plan)
        check_devices(snapshot, plan)
        check_reclaims(snapshot, plan)
        check_claims(snapshot, plan)
        check_account(snapshot, plan)
        gone = {victim.attempt for one in plan.reclaims for victim in one.victims}
        stay = [run for run in snapshot.running if run.attempt not in gone]
        assert is_allowed(snapshot, stay, asked(snapshot, plan))
        assert core.cycle(snapshot.taken_at) == plan


def needless(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Each victim without whom, as the only one, all starts and claims of the plan would have what
    they need."""
    tree, asks = Tree(snapshot), asked(snapshot, plan)
    above = {node for job in asks for node in tree.path(job.team)}
    sharing = {run.attempt for node in above for run in tree.protected(node)}
    gone = {victim.attempt for one in plan.reclaims for victim in one.victims}
    found = []
    for attempt in sorted(gone - sharing):
        stay = [run for run in snapshot.running if run.attempt not in gone - {attempt}]
        if is_allowed(snapshot, stay, asks) and are_laid(snapshot, plan, stay):
            found.append(attempt)
    return found


def asked(snapshot: Snapshot, plan: Plan) -> list[QueuedJob]:
    jobs = {job.id: job for job in snapshot.queued}
    return [jobs[one.job] for one in (*plan.starts, *plan.reclaims)]


def is_allowed(
    snapshot: Snapshot, running: Iterable[RunningJob], asks: Sequence[QueuedJob]
) -> bool:
    """Whether quota allows each of those who ask beside all the others and what runs."""
    tree, capacity = Tree(snapshot), capacity_of(snapshot)
    use: Counter[str] = Counter()
    for job in (*running, *asks):
        use[job.team] += job.mgpu
    if sum(use.values()) > capacity:
        return False
    limits = {
        quota.node: quota.guaranteed_mgpu + quota.borrow_limit_mgpu
        for quota in snapshot.quotas
        if quota.borrow_limit_mgpu is not None
    }
    for job in asks:
        without = use - Counter({job.team: job.mgpu})
        for node in (*tree.path(job.team), None):
            held = tree.held(node, use)
            limit = capacity if node is None else limits.get(node, held)
            if held > limit and held != tree.held(node, without):
                return False
    return True


def are_laid(snapshot: Snapshot, plan: Plan, running: Iterable[RunningJob]) -> bool:
    """Whether all claims fit beside what starts and runs: as each size divides all larger ones, the
    largest first, anywhere."""
    jobs = {job.id: job for job in snapshot.queued}
    left = {device.node: device.capacity_mgpu for device in snapshot.devices}
    for one in (*running, *plan.starts):
        for slot in one.slots:
            left[slot.node] -= slot.mgpu
    claimed = [jobs[one.job] for one in plan.reclaims]
    for job in sorted(claimed, key=lambda job: -job.mgpu_per_node):
        nodes = [node for node, mgpu in left.items() if mgpu >= job.mgpu_per_node]
        if len(nodes) < job.node_count:
            return False
        for node in nodes[: job.node_count]:
            left[node] -= job.mgpu_per_node
    return True
