"""Valid claims: which of their GPUs are free, and which are still to be freed (R-62)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from arbiter.api.snapshot import Claim, Phase, QueuedJob, RunningJob
from arbiter.cache.pool_config import PoolConfig
from arbiter.cache.running import Holding, Holdings, use_by_node
from arbiter.cache.victim_order import NOT_YET_RUNNING
from arbiter.placement.free_devices import Place
from arbiter.placement.node_sets import NodeKinds
from arbiter.placement.resources import HostResources, is_cpu_or_memory
from arbiter.quota.tree import ROOT, UNLIMITED


@dataclass(slots=True, eq=False)
class Earmark:
    """A valid claim, with the slots of its nodes and of their CPU and memory where these count.

    - `free_mgpu`, by node (or its CPU or memory), is the free part of each slot. No victim holds it
      any more and no other job may take it.
    - `uncovered_mgpu` is the part that counts as use of the team.
    - `stand_in` represents the job where running jobs are classed and victims are sought.
    - `fits_guarantee` and `earlier` are only set on a claim of this cycle: whether it is within the
      team's own guarantee, and the attempts still stopping for an earlier claim of the job.
    """

    job: QueuedJob
    claim: Claim
    team: int
    victims: list[Holding]
    stand_in: Holding
    free_mgpu: dict[str, int] = field(default_factory=dict)
    uncovered_mgpu: int = 0
    fits_guarantee: bool = False
    earlier: Sequence[Holding] = ()

    @property
    def going(self) -> list[Holding]:
        """Return all attempts that are being stopped for the job."""
        return [*self.victims, *self.earlier]

    @property
    def coming_back_mgpu(self) -> int:
        """Return how much of the claimed slots the victims still hold, in milli-GPU."""
        here = (mgpu for resource, mgpu in self.free_mgpu.items() if not is_cpu_or_memory(resource))
        return self.job.mgpu - sum(here)

    @property
    def is_here(self) -> bool:
        """Return whether all claimed slots are free."""
        return all(self.free_mgpu[slot.node] == slot.mgpu for slot in self.claim.slots)

    @property
    def place(self) -> Place:
        """Return the claimed nodes."""
        nodes = (slot.node for slot in self.claim.slots if not is_cpu_or_memory(slot.node))
        return Place(self.claim.cluster, tuple(sorted(nodes)))


def in_order_of_grace(earmarks: Iterable[Earmark]) -> list[Earmark]:
    """Return claims in the order of their grace's end, then of their jobs' ids."""
    return sorted(earmarks, key=lambda one: (one.claim.grace_until, one.job.id))


def in_force(
    config: PoolConfig,
    holdings: Holdings,
    waiting: Mapping[str, QueuedJob],
    claims: Sequence[Claim],
    taken_at: int,
) -> tuple[dict[str, Earmark], list[str]]:
    """Return the valid claims by job, and the jobs whose claim is no longer valid.

    A claim is dropped in any of these cases:

    - Its job is gone, requests something else, or may no longer use the pool.
    - Its cluster does not accept starts, or the job would run into maintenance there.
    - A claimed node can no longer hold its slot, or lacks a feature that the job requires.
    - The job requires one topology domain, and the claimed nodes are not in one any more.
    - Its victims, or other attempts whose GPUs it was to get, overrun their grace by more than the
      policy allows. GPUs that are freed later may belong to a later claim.

    The victims of a valid claim are marked as coming back.
    """
    if not claims:
        return {}, []
    tree, policy, offered = config.tree, config.policy, config.offered
    claimed = {claim.job for claim in claims}
    victims: dict[str, list[Holding]] = {}
    for holding in sorted(holdings.going.values(), key=attrgetter("protection_key")):
        if holding.run.beneficiary is not None:
            victims.setdefault(holding.run.beneficiary, []).append(holding)
    candidates: dict[str, Earmark] = {}
    for claim in sorted(claims, key=lambda one: (one.job, one.grace_until, one.cluster)):
        job = waiting.get(claim.job)
        team = ROOT if job is None else tree.index.get(job.team, ROOT)
        if (
            job is None
            or team == ROOT
            or claim.job in candidates
            or not config.quota.admits(tree.paths[team])
            or claim.cluster not in offered
            or (job.clusters is not None and claim.cluster not in job.clusters)
            or claim.cluster in job.closed_clusters
            or len({slot.node for slot in claim.slots}) != job.node_count
            or any(slot.mgpu != job.mgpu_per_node for slot in claim.slots)
            or len(claim.slots) != job.node_count
            or not _are_of(claim, config.kinds.having(job.features, job.closed_nodes), config.kinds)
            or not config.plans.are_together(
                job.topology, claim.cluster, [slot.node for slot in claim.slots]
            )
            or (victims.get(job.id) and claim.grace_until + policy.claim_overdue_s < taken_at)
        ):
            continue
        cls = config.classes.get(job.priority_class)
        whole = _with_resources(claim, job, config.resources)
        stands_in = stand_in(job, whole, team, 0 if cls is None else cls.order)
        candidates[job.id] = Earmark(job, whole, team, victims.get(job.id, []), stands_in)
    gone = use_by_node(
        holding
        for holding in holdings.going.values()
        if holding.is_coming_back or holding.run.beneficiary in candidates
    )
    promised: dict[tuple[str, str], int] = {}
    earmarks: dict[str, Earmark] = {}
    for earmark in in_order_of_grace(candidates.values()):
        cluster, slots = earmark.claim.cluster, earmark.claim.slots
        is_overdue = earmark.claim.grace_until + policy.claim_overdue_s < taken_at
        to_come = {} if is_overdue else gone.get(cluster, {})
        if all(
            config.offered_of(cluster, slot.node)
            - holdings.used_on((cluster, slot.node))
            + to_come.get(slot.node, 0)
            - promised.get((cluster, slot.node), 0)
            >= slot.mgpu
            for slot in slots
        ):
            for slot in slots:
                node = cluster, slot.node
                promised[node] = promised.get(node, 0) + slot.mgpu
            for holding in earmark.victims:
                holding.is_coming_back = True
            earmarks[earmark.job.id] = earmark
    return earmarks, sorted(claimed - earmarks.keys())


def _are_of(claim: Claim, wanted: int | None, kinds: NodeKinds) -> bool:
    """Return whether all claimed nodes are of the `wanted` kinds."""
    return wanted is None or all(
        kinds.has(wanted, claim.cluster, slot.node) for slot in claim.slots
    )


def cover_all(earmarks: Iterable[Earmark], coming_back: Mapping[str, dict[str, int]]) -> None:
    """Find the free parts of all claimed slots, and use up what covers the rest.

    A claim's own victims cover its slots first. Other stopping attempts cover the claims that have
    waited longest last. The GPUs of those are free already, and a later claim must not take them.
    """
    latest_first = in_order_of_grace(earmarks)[::-1]
    for earmark in latest_first:
        earmark.free_mgpu = {slot.node: slot.mgpu for slot in earmark.claim.slots}
        _cover(earmark, coming_back, use_by_node(earmark.going))
    for earmark in latest_first:
        _cover(earmark, coming_back, coming_back)


def _cover(
    earmark: Earmark,
    coming_back: Mapping[str, dict[str, int]],
    most: Mapping[str, Mapping[str, int]],
) -> None:
    """Cover a claim's slots by GPUs that are coming back, and use those up.

    It uses at most the amounts in `most`.
    """
    cluster = earmark.claim.cluster
    unclaimed, limits = coming_back.get(cluster, {}), most.get(cluster, {})
    for node, free in earmark.free_mgpu.items():
        going = min(unclaimed.get(node, 0), limits.get(node, 0), free)
        if going:
            unclaimed[node] -= going
            earmark.free_mgpu[node] -= going
    coming_mgpu = min(earmark.job.mgpu, sum(holding.mgpu for holding in earmark.going))
    earmark.uncovered_mgpu = earmark.job.mgpu - max(earmark.coming_back_mgpu, coming_mgpu)


def _with_resources(claim: Claim, job: QueuedJob, resources: HostResources) -> Claim:
    """Return the claim with the CPU and memory that its job takes among its slots."""
    if not resources.is_counted:
        return claim
    nodes = [slot.node for slot in claim.slots]
    wants = job.mgpu_per_node, job.cpu_milli, job.memory_mib
    return replace(claim, slots=tuple(resources.slots_on(claim.cluster, nodes, *wants)))


def stand_in(job: QueuedJob, claim: Claim, team: int, order: int) -> Holding:
    """Return an attempt that represents the claim of `job`, as if it held its slots.

    It is the first to be given up where attempts or claims must be stopped.
    """
    key = (NOT_YET_RUNNING, 0, 0, order), 0, -claim.grace_until, job.id
    return Holding(
        run=RunningJob(
            job=job.id,
            attempt="",
            team=job.team,
            user=job.user,
            pool=job.pool,
            cluster=claim.cluster,
            slots=claim.slots,
            priority_class=job.priority_class,
            submitted_at=job.submitted_at,
            started_at=UNLIMITED if claim.claimed_at is None else claim.claimed_at,
            phase=Phase.STARTING,
            is_preemptible=True,
        ),
        team=team,
        mgpu=job.mgpu,
        order=order,
        claim_of=job.id,
        claim_key=key,
    )
