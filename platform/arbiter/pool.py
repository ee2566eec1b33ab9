"""One pool as the cycle sees it: who holds what, what is free, what is earmarked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from arbiter.decisions import Reclaim, Victim
from arbiter.node_kinds import NodeKinds
from arbiter.placement import FreeDevices, Layout, Place, Shape
from arbiter.policy import Policy
from arbiter.protection import protect
from arbiter.queue_order import exact_ratio
from arbiter.quota_tree import ROOT, UNLIMITED, Ledger, PoolQuota, Tree, pool_quota
from arbiter.snapshot import (
    Claim,
    Device,
    Phase,
    PriorityClass,
    QueuedJob,
    Quota,
    RunningJob,
    Slot,
)


@dataclass(slots=True, eq=False)
class Holding:
    """One attempt that holds GPUs. `team` is ROOT when its team is not in the tree.

    `is_going`: it is being stopped. `is_coming_back`: its GPUs can be counted on within its
    grace. `protected` has a bit per depth, see `Protection.levels`. `victim_key` orders who is
    reclaimed first: lower rank, lower priority, least work lost, youngest, id.
    `claim_of` is set on the stand-in for a claim: a job that does not run yet.
    """

    run: RunningJob
    team: int
    mgpu: int
    order: int
    is_going: bool
    is_coming_back: bool
    victim_key: tuple[int, int, int, int, str]
    protected: int = 0
    claim_of: str | None = None


@dataclass(slots=True, eq=False)
class Earmark:
    """A claim in force. `free_mgpu` is the part of each slot, by node, that no victim holds any
    more and nobody else may take; `uncovered_mgpu` is what counts as use of the team. `stand_in`
    takes the job's place where running jobs are classed and victims are sought. `fits_guarantee`
    is of a claim of this cycle: it is within the team's own guarantee."""

    job: QueuedJob
    claim: Claim
    team: int
    victims: list[Holding]
    stand_in: Holding
    free_mgpu: dict[str, int] = field(default_factory=dict)
    uncovered_mgpu: int = 0
    fits_guarantee: bool = False

    @property
    def coming_back_mgpu(self) -> int:
        """What the victims still hold of the claimed slots."""
        return self.job.mgpu - sum(self.free_mgpu.values())


@dataclass(slots=True, eq=False)
class Pool:
    """The standing of one pool, changed in place as the cycle decides.

    `now` counts what is in use and what claims have free already; `later` is how it stands when
    everything that is being stopped is gone and every claim is used, or None while
    nothing is being stopped. A start must be allowed by both.
    `leaving` are the attempts that give their GPUs back within their grace;
    `coming_back[cluster][node]` is what of that no claim waits for.
    """

    name: str
    tree: Tree
    quota: PoolQuota
    policy: Policy
    taken_at: int
    classes: Mapping[str, PriorityClass]
    now: Ledger
    later: Ledger | None
    kinds: NodeKinds
    free: FreeDevices
    layout: Layout
    accepting: frozenset[str]
    holdings: list[Holding]
    leaving: list[Holding]
    protected: list[int]
    earmarks: dict[str, Earmark]
    dropped: list[str]
    coming_back: dict[str, dict[str, int]]
    in_use: list[int]
    class_use: dict[tuple[int, str], int]

    def shape_of(self, job: QueuedJob) -> Shape:
        """What `job` asks of the devices."""
        return Shape(
            job.mgpu_per_node,
            job.node_count,
            job.clusters,
            job.mgpu,
            self.kinds.having(job.features),
        )

    def blocker(self, team: int, mgpu: int) -> int | None:
        """The node whose limit refuses a start, now or after what is under way; see `Ledger`."""
        at = self.now.blocker(team, mgpu)
        if at is None and self.later is not None:
            return self.later.blocker(team, mgpu)
        return at

    def available(self, team: int) -> int:
        """What quota lets start at `team`, now and after what is under way; see `Ledger`."""
        if not self.quota.admits(self.tree.paths[team]):
            return 0
        room = self.now.available(team)
        return room if self.later is None else min(room, self.later.available(team))

    def source(self, team: int, mgpu: int) -> int:
        """The lowest node on the team's path whose unused guarantee the job fits in, or ROOT."""
        protected, guaranteed = self.protected, self.quota.guaranteed
        for node in self.tree.paths[team]:
            if protected[node] + mgpu <= guaranteed[node]:
                return node
        return ROOT

    def ratio(self, node: int) -> int:
        """Protected use over guarantee, exactly ordered; 0 for the root."""
        if node == ROOT:
            return 0
        return exact_ratio(self.protected[node], self.quota.guaranteed[node])

    def protect_new(self, team: int, mgpu: int) -> None:
        """Count a job that starts or claims now as protected wherever it fits whole.

        Exact but for a new job of higher priority than protected ones, which the next
        cycle's full classing puts in their place; until then both sums stay within G.
        """
        for node in self.tree.paths[team]:
            if self.protected[node] + mgpu <= self.quota.guaranteed[node]:
                self.protected[node] += mgpu

    def start(self, job: QueuedJob, team: int, place: Place) -> None:
        """Count `job` as running at `place`."""
        self.occupy(job, team, place)
        self.protect_new(team, job.mgpu)
        self._add_class_use(team, job)

    def occupy(self, job: QueuedJob, team: int, place: Place) -> None:
        """Count the devices and the quota of a start whose claim counted for the rest."""
        for node in place.nodes:
            self.free.take(place.cluster, node, job.mgpu_per_node)
        self.now.charge(team, job.mgpu)
        if self.later is not None:
            self.later.charge(team, job.mgpu)

    def reclaim(
        self, job: QueuedJob, team: int, place: Place, victims: Sequence[Holding]
    ) -> Reclaim:
        """Stop `victims` and earmark `place` for `job`; a claim among them is given up."""
        if self.later is None:
            self.later = self.now.copy()
        grace_until = self._last_return(place)
        notices = []
        for holding in victims:
            holding.is_going = True
            for node in self.tree.paths[holding.team]:
                if holding.protected >> self.tree.depths[node] & 1:
                    self.protected[node] -= holding.mgpu
            holding.protected = 0
            if holding.claim_of is not None:
                self._give_up(self.earmarks.pop(holding.claim_of))
                continue
            holding.is_coming_back = True
            self.later.charge(holding.team, -holding.mgpu)
            grace_s = self._grace_s(holding)
            grace_until = max(grace_until, self.taken_at + grace_s)
            run = holding.run
            notices.append(Victim(run.attempt, run.job, run.team, holding.mgpu, grace_s))
            given_back = self.coming_back.setdefault(run.cluster, {})
            for slot in run.slots:
                given_back[slot.node] = given_back.get(slot.node, 0) + slot.mgpu
        slots = tuple(Slot(node, job.mgpu_per_node) for node in place.nodes)
        claim = Claim(job.id, place.cluster, slots, grace_until, self.taken_at)
        stopped = [holding for holding in victims if holding.claim_of is None]
        earmark = Earmark(job, claim, team, stopped, _stand_in(job, claim, team, 0))
        cover(earmark, self.coming_back)
        for device, mgpu in earmark.free_mgpu.items():
            self.free.take(place.cluster, device, mgpu)
        self.now.charge(team, earmark.uncovered_mgpu)
        self.later.charge(team, job.mgpu)
        earmark.fits_guarantee = self.protected[team] + job.mgpu <= self.quota.guaranteed[team]
        self.protect_new(team, job.mgpu)
        self._add_class_use(team, job)
        self.earmarks[job.id] = earmark
        return Reclaim(job.id, place.cluster, slots, tuple(notices), grace_until)

    def _give_up(self, earmark: Earmark) -> None:
        """Drop a claim for one that goes first; what was coming back for it is free to claim."""
        self.settle(earmark)
        self.dropped.append(earmark.job.id)
        self.class_use[earmark.team, earmark.job.priority_class] -= earmark.job.mgpu
        unclaimed = self.coming_back.setdefault(earmark.claim.cluster, {})
        for node, mgpu in earmark.free_mgpu.items():
            unclaimed[node] = unclaimed.get(node, 0) + earmark.job.mgpu_per_node - mgpu

    def settle(self, earmark: Earmark) -> None:
        """Take an earmark back: its job starts now or the claim is given up."""
        for node, mgpu in earmark.free_mgpu.items():
            self.free.take(earmark.claim.cluster, node, -mgpu)
        self.now.charge(earmark.team, -earmark.uncovered_mgpu)
        if self.later is not None:
            self.later.charge(earmark.team, -earmark.job.mgpu)

    def restore(self, earmark: Earmark) -> None:
        """Undo `settle`."""
        for node, mgpu in earmark.free_mgpu.items():
            self.free.take(earmark.claim.cluster, node, mgpu)
        self.now.charge(earmark.team, earmark.uncovered_mgpu)
        if self.later is not None:
            self.later.charge(earmark.team, earmark.job.mgpu)

    def _add_class_use(self, team: int, job: QueuedJob) -> None:
        key = (team, job.priority_class)
        self.class_use[key] = self.class_use.get(key, 0) + job.mgpu

    def _grace_s(self, holding: Holding) -> int:
        cls = self.classes.get(holding.run.priority_class)
        grace_s = self.policy.grace_period_s_default
        return grace_s if cls is None else min(grace_s, cls.grace_period_s)

    def _last_return(self, place: Place) -> int:
        """When what is being stopped on these nodes already is gone at the latest."""
        nodes = set(place.nodes)
        return max(
            (
                holding.run.grace_until
                for holding in self.leaving
                if holding.run.grace_until is not None
                and holding.run.cluster == place.cluster
                and any(slot.node in nodes for slot in holding.run.slots)
            ),
            default=self.taken_at,
        )


@dataclass(slots=True, eq=False)
class PoolInput:
    """What a snapshot says about one pool."""

    name: str
    quotas: list[Quota] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    running: list[RunningJob] = field(default_factory=list)
    queued: list[QueuedJob] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)


def in_turn(earmarks: Iterable[Earmark]) -> list[Earmark]:
    """Claims in the order of their grace's end, then of their jobs' ids."""
    return sorted(earmarks, key=lambda one: (one.claim.grace_until, one.job.id))


def held_by_node(holdings: Iterable[Holding]) -> dict[str, dict[str, int]]:
    """What `holdings` hold in milli-GPU, by cluster and node."""
    held: dict[str, dict[str, int]] = {}
    for holding in holdings:
        nodes = held.setdefault(holding.run.cluster, {})
        for slot in holding.run.slots:
            nodes[slot.node] = nodes.get(slot.node, 0) + slot.mgpu
    return held


def open_pool(
    given: PoolInput,
    *,
    tree: Tree,
    policy: Policy,
    taken_at: int,
    clusters: frozenset[str],
    classes: Mapping[str, PriorityClass],
) -> Pool:
    """Build the standing of one pool.

    Its capacity is what schedulable devices offer plus what still runs on devices that are
    not (drained, lost, on a cluster that does not answer), device by device, so that such use
    takes no room away from the devices that are left.
    """
    quota = pool_quota(tree, given.quotas)
    capacities: dict[str, dict[str, int]] = {}
    sizes: dict[str, dict[str, int]] = {}
    for device in given.devices:
        nodes = capacities.setdefault(device.cluster, {})
        nodes[device.node] = nodes.get(device.node, 0) + device.capacity_mgpu
        # What others hold comes back some day: "never" must not be said because of it.
        whole = sizes.setdefault(device.cluster, {})
        whole[device.node] = whole.get(device.node, 0) + device.capacity_mgpu + device.outside_mgpu
    offered = {cluster: nodes for cluster, nodes in capacities.items() if cluster in clusters}
    holdings = _holdings(given.running, tree, policy, taken_at, classes)
    kinds = NodeKinds(given.devices)
    earmarks, dropped = _earmarks(
        given, tree, quota, policy, taken_at, offered, holdings, classes, kinds
    )

    used = held_by_node(holdings)
    staying = [holding for holding in holdings if not holding.is_coming_back]
    leaving = [holding for holding in holdings if holding.is_coming_back]
    coming_back = held_by_node(leaving)
    free = {
        cluster: {node: mgpu - used.get(cluster, {}).get(node, 0) for node, mgpu in nodes.items()}
        for cluster, nodes in offered.items()
    }
    direct = _direct_use(tree, holdings)
    class_use: dict[tuple[int, str], int] = {}
    for holding in holdings:
        key = (holding.team, holding.run.priority_class)
        class_use[key] = class_use.get(key, 0) + holding.mgpu
    in_use = direct.copy()
    for earmark in earmarks.values():
        cover(earmark, coming_back)
        for node, mgpu in earmark.free_mgpu.items():
            free[earmark.claim.cluster][node] -= mgpu
        direct[earmark.team] += earmark.uncovered_mgpu
        key = (earmark.team, earmark.job.priority_class)
        class_use[key] = class_use.get(key, 0) + earmark.job.mgpu
    now = Ledger(tree, quota, _capacity(offered, used), direct)
    now.charge(ROOT, sum(holding.mgpu for holding in holdings if holding.team == ROOT))
    later = None
    if earmarks or leaving:
        direct = _direct_use(tree, staying)
        for earmark in earmarks.values():
            direct[earmark.team] += earmark.job.mgpu
        later = Ledger(tree, quota, _capacity(offered, held_by_node(staying)), direct)
        later.charge(ROOT, sum(holding.mgpu for holding in staying if holding.team == ROOT))
    return Pool(
        name=given.name,
        tree=tree,
        quota=quota,
        policy=policy,
        taken_at=taken_at,
        classes=classes,
        now=now,
        later=later,
        kinds=kinds,
        free=FreeDevices(free, kinds),
        layout=Layout(sizes, kinds),
        accepting=clusters,
        holdings=holdings,
        leaving=leaving,
        protected=_protect(tree, quota, holdings, earmarks.values()),
        earmarks=earmarks,
        dropped=dropped,
        coming_back=coming_back,
        in_use=in_use,
        class_use=class_use,
    )


def _holdings(
    running: Iterable[RunningJob],
    tree: Tree,
    policy: Policy,
    taken_at: int,
    classes: Mapping[str, PriorityClass],
) -> list[Holding]:
    """The attempts in the order of protection: priority, start time, id."""
    found = []
    for run in running:
        team = tree.index.get(run.team, ROOT)
        cls = classes.get(run.priority_class)
        order = 0 if cls is None else cls.order
        mgpu = run.mgpu
        is_going = run.phase is Phase.STOPPING or run.beneficiary is not None
        saved_at = max(run.started_at, run.checkpoint_at or 0)
        found.append(
            Holding(
                run=run,
                team=team,
                mgpu=mgpu,
                order=order,
                is_going=is_going,
                is_coming_back=is_going
                and run.grace_until is not None
                and run.grace_until + policy.claim_overdue_s >= taken_at,
                victim_key=(
                    0 if team == ROOT else tree.ranks[team],
                    order,
                    mgpu * max(0, taken_at - saved_at),
                    -run.started_at,
                    run.attempt,
                ),
            )
        )
    found.sort(key=lambda one: (-one.order, one.run.started_at, one.run.job, one.run.attempt))
    return found


def _earmarks(
    given: PoolInput,
    tree: Tree,
    quota: PoolQuota,
    policy: Policy,
    taken_at: int,
    offered: Mapping[str, Mapping[str, int]],
    holdings: Sequence[Holding],
    classes: Mapping[str, PriorityClass],
    kinds: NodeKinds,
) -> tuple[dict[str, Earmark], list[str]]:
    """The claims that are in force, by job, and the jobs whose claim no longer holds.

    A claim is dropped when its job is gone, asks for something else or may no longer use the
    pool, when its cluster does not accept starts, when a claimed node can no longer hold its
    slot or lacks a feature that the job asks for, or when its victims hold on for longer than
    the policy waits. The victims of a claim in force are marked as coming back.
    """
    if not given.claims:
        return {}, []
    claimed = {claim.job for claim in given.claims}
    waiting = {job.id: job for job in given.queued if job.id in claimed}
    victims: dict[str, list[Holding]] = {}
    for holding in holdings:
        if holding.run.beneficiary is not None:
            victims.setdefault(holding.run.beneficiary, []).append(holding)
    candidates: dict[str, Earmark] = {}
    for claim in sorted(given.claims, key=lambda one: (one.job, one.grace_until, one.cluster)):
        job = waiting.get(claim.job)
        team = ROOT if job is None else tree.index.get(job.team, ROOT)
        if (
            job is None
            or team == ROOT
            or claim.job in candidates
            or not quota.admits(tree.paths[team])
            or claim.cluster not in offered
            or (job.clusters is not None and claim.cluster not in job.clusters)
            or len({slot.node for slot in claim.slots}) != job.node_count
            or any(slot.mgpu != job.mgpu_per_node for slot in claim.slots)
            or len(claim.slots) != job.node_count
            or not _have_features(claim, kinds.having(job.features), kinds)
            or (victims.get(job.id) and claim.grace_until + policy.claim_overdue_s < taken_at)
        ):
            continue
        cls = classes.get(job.priority_class)
        stand_in = _stand_in(job, claim, team, 0 if cls is None else cls.order)
        candidates[job.id] = Earmark(job, claim, team, victims.get(job.id, []), stand_in)
    staying = held_by_node(
        holding
        for holding in holdings
        if not holding.is_coming_back and holding.run.beneficiary not in candidates
    )
    promised: dict[tuple[str, str], int] = {}
    earmarks: dict[str, Earmark] = {}
    for earmark in in_turn(candidates.values()):
        cluster, mgpu = earmark.claim.cluster, earmark.job.mgpu_per_node
        nodes = [slot.node for slot in earmark.claim.slots]
        if all(
            offered[cluster].get(node, 0)
            - staying.get(cluster, {}).get(node, 0)
            - promised.get((cluster, node), 0)
            >= mgpu
            for node in nodes
        ):
            for node in nodes:
                promised[cluster, node] = promised.get((cluster, node), 0) + mgpu
            for holding in earmark.victims:
                holding.is_coming_back = True
            earmarks[earmark.job.id] = earmark
    return earmarks, sorted(claimed - earmarks.keys())


def _have_features(claim: Claim, wanted: int | None, kinds: NodeKinds) -> bool:
    """Whether all claimed nodes are of the `wanted` kinds."""
    return wanted is None or all(
        kinds.has(wanted, claim.cluster, slot.node) for slot in claim.slots
    )


def cover(earmark: Earmark, coming_back: Mapping[str, dict[str, int]]) -> None:
    """Find out which part of each claimed slot is free, and use up what covers the rest.

    The claim's own victims cover its slots first, then other attempts that are going.
    """
    cluster, mgpu = earmark.claim.cluster, earmark.job.mgpu_per_node
    unclaimed = coming_back.get(cluster, {})
    covered = 0
    for slot in earmark.claim.slots:
        going = min(unclaimed.get(slot.node, 0), mgpu)
        if going:
            unclaimed[slot.node] -= going
        covered += going
        earmark.free_mgpu[slot.node] = mgpu - going
    held = min(earmark.job.mgpu, sum(holding.mgpu for holding in earmark.victims))
    earmark.uncovered_mgpu = earmark.job.mgpu - max(covered, held)


def _direct_use(tree: Tree, holdings: Iterable[Holding]) -> list[int]:
    direct = [0] * len(tree.ids)
    for holding in holdings:
        if holding.team != ROOT:
            direct[holding.team] += holding.mgpu
    return direct


def _capacity(
    offered: Mapping[str, Mapping[str, int]], used: Mapping[str, Mapping[str, int]]
) -> int:
    """Device by device, what it offers or what is in use on it, whichever is more."""
    capacity = 0
    for cluster in offered.keys() | used.keys():
        nodes, busy = offered.get(cluster, {}), used.get(cluster, {})
        capacity += sum(max(mgpu, busy.get(node, 0)) for node, mgpu in nodes.items())
        capacity += sum(mgpu for node, mgpu in busy.items() if node not in nodes)
    return capacity


def _stand_in(job: QueuedJob, claim: Claim, team: int, order: int) -> Holding:
    """The claim of `job` as if it held its slots; the first to be given up where one must be."""
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
        is_going=False,
        is_coming_back=False,
        victim_key=(-UNLIMITED, order, 0, -claim.grace_until, job.id),
        claim_of=job.id,
    )


def _protect(
    tree: Tree, quota: PoolQuota, holdings: Sequence[Holding], earmarks: Iterable[Earmark]
) -> list[int]:
    """Class what runs and what claims are promised; returns the protected use of every node.

    An attempt that is being stopped runs no longer: it is in use but protected nowhere, so that
    its place in the guarantee can be given away while it goes. A claim counts as a job that
    started when it was made.
    """
    jobs = [earmark.stand_in for earmark in earmarks]
    jobs += [holding for holding in holdings if not holding.is_going and holding.team != ROOT]
    jobs.sort(key=lambda one: (-one.order, one.run.started_at, one.run.job, one.run.attempt))
    protection = protect(tree, quota.guaranteed, [(one.team, one.mgpu) for one in jobs])
    for holding, levels in zip(jobs, protection.levels, strict=True):
        holding.protected = levels
    return protection.used_mgpu
