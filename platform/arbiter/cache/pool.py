"""One pool during a cycle: attempts, free devices and claims."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from arbiter.api.plan import ByCredits, Reclaim, Victim
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Balance, Claim, QueuedJob, RunningJob, Slot
from arbiter.cache.claims import Earmark, cover_all, in_force, stand_in
from arbiter.cache.pool_config import PoolConfig
from arbiter.cache.running import Holding, Holdings, use_by_node
from arbiter.cache.transaction import Transaction
from arbiter.cache.victim_order import VictimOrder
from arbiter.fairshare.credits import Credits
from arbiter.placement.capacity import Layout
from arbiter.placement.free_devices import FreeDevices, Place
from arbiter.placement.maintenance import names_on
from arbiter.placement.node_sets import NodeKinds
from arbiter.quota.entitlement import Guarantees, Protection, TeamJobs, with_changed
from arbiter.quota.ledger import Ledger
from arbiter.quota.ratio import exact_ratio
from arbiter.quota.tree import ROOT, PoolQuota, Tree


@dataclass(slots=True, eq=False)
class Pool:
    """The state of one pool, changed in place as the cycle decides.

    - `now` counts everything in use, and the GPUs that claims hold already.
    - `later` is the state once all stopping attempts are gone and all claims are used. It is None
      while nothing is being stopped. A start must be allowed by both.
    - `protection` is the classing of `holdings` and of claims, the latter of the teams `claimants`.
    - `guarantees` is the protected use by that and by the starts of this cycle.
    - `stopped` are the attempts that this cycle stops. It maps them to where they were protected
      before (the bits of `Holding.protected`).
    - `leaving` are attempts that are being stopped and should be gone within their grace.
    - `coming_back[cluster][node]` is the part of these that no claim waits for; by node, or CPU or
      memory of it.
    """

    config: PoolConfig
    taken_at: int
    now: Ledger
    later: Ledger | None
    free: FreeDevices
    holdings: Holdings
    leaving: list[Holding]
    protection: Protection
    guarantees: Guarantees
    earmarks: dict[str, Earmark]
    claimants: Collection[int]
    dropped: list[str]
    coming_back: dict[str, dict[str, int]]
    class_use: dict[tuple[int, str], int]
    balances: Callable[[str], Iterable[Balance]]
    checkpoint_at: Callable[[RunningJob], int | None]
    stopped: dict[Holding, int] = field(default_factory=dict)
    name: str = field(init=False)
    tree: Tree = field(init=False)
    quota: PoolQuota = field(init=False)
    policy: Policy = field(init=False)
    kinds: NodeKinds = field(init=False)
    layout: Layout = field(init=False)
    _credits: Credits | None = None
    #: Credit holds from before the credits were first needed: teams and milli-GPU.
    _holds_before: list[tuple[int, int]] = field(default_factory=list)
    _victim_order: VictimOrder | None = None

    def __post_init__(self) -> None:
        config = self.config
        self.name, self.tree, self.quota = config.name, config.tree, config.quota
        self.policy, self.kinds, self.layout = config.policy, config.kinds, config.layout

    @property
    def credits(self) -> Credits:
        """Return the teams' credits, loaded when first needed."""
        if self._credits is None:
            self._credits = Credits(
                self.tree,
                self.quota.guaranteed,
                self.balances(self.name),
                weight=self.config.weight,
                floor_s=self.policy.credit_floor_s,
            )
            for team, mgpu in self._holds_before:
                self._credits.hold(team, mgpu)
        return self._credits

    def hold_credits(self, team: int, mgpu: int) -> None:
        """Hold the credits for the first hour of a borrowed start of `team`."""
        if self._credits is None:
            self._holds_before.append((team, mgpu))
        else:
            self._credits.hold(team, mgpu)

    def close(self) -> None:
        """End the cycle: restore `holdings` as they were before it."""
        self.holdings.stale |= self.free.taken
        for holding, protected in self.stopped.items():
            holding.is_going = holding.is_coming_back = False
            holding.protected = protected

    @property
    def victim_order(self) -> VictimOrder:
        """Return the order in which attempts are preempted."""
        if self._victim_order is None:
            self._victim_order = VictimOrder(
                self.tree, self.policy, self.credits.at_first, self.checkpoint_at, self.taken_at
            )
        return self._victim_order

    def is_borrowed(self, earmark: Earmark) -> bool:
        """Return whether a claim from before this cycle is beyond the team's guarantee."""
        return not earmark.stand_in.is_protected_at(self.tree.depths[earmark.team])

    def blocker(self, team: int, mgpu: int) -> int | None:
        """Return the node whose limit refuses a start, now or after all stops; see `Ledger`."""
        at = self.now.blocker(team, mgpu)
        if at is None and self.later is not None:
            return self.later.blocker(team, mgpu)
        return at

    def is_at_limit(self, team: int, mgpu: int) -> bool:
        """Return whether the team's own limit refuses a start, now or after all stops."""
        limit = self.quota.limits[team] - mgpu
        return self.now.base[team] > limit or (
            self.later is not None and self.later.base[team] > limit
        )

    def available(self) -> list[int]:
        """Return what quota lets start at each node, now and after all stops; see `Ledger`."""
        available = self.now.available_everywhere()
        if self.later is not None:
            available = list(map(min, available, self.later.available_everywhere()))
        has_row, paths = self.quota.has_row, self.tree.paths
        return [
            mgpu if has_row[path[-1]] else 0 for mgpu, path in zip(available, paths, strict=True)
        ]

    def source(self, team: int, mgpu: int) -> int:
        """Return the lowest node on the path in whose unused guarantee the job fits, or ROOT."""
        guarantees, quota = self.guarantees, self.quota
        used, guaranteed, keeps_below = guarantees.used_mgpu, quota.guaranteed, quota.keeps_below
        for node in self.tree.paths[team]:
            # The same as `fits`, which is only needed where a node below keeps unlent quota.
            if used[node] + mgpu <= guaranteed[node] and (
                not keeps_below[node] or guarantees.fits(node, team, mgpu)
            ):
                return node
        return ROOT

    def ratio(self, node: int) -> int:
        """Return protected use over guarantee, exactly ordered; 0 for the root."""
        if node == ROOT:
            return 0
        return exact_ratio(self.guarantees.used_mgpu[node], self.quota.guaranteed[node])

    def start(self, job: QueuedJob, team: int, place: Place) -> list[Slot]:
        """Count `job` as running at `place`. Return the slots that it takes there."""
        slots = self.occupy(job, team, place)
        self._count_new(job, team)
        return slots

    def by_ratio(self, teams: Iterable[int]) -> dict[int, list[int]]:
        """Return `teams` grouped by the ratios of their own guarantees."""
        used, guaranteed = self.guarantees.used_mgpu, self.quota.guaranteed
        alike: dict[tuple[int, int], list[int]] = {}
        for team in teams:
            alike.setdefault((used[team], guaranteed[team]), []).append(team)
        found: dict[int, list[int]] = {}
        for (used_mgpu, guaranteed_mgpu), those in alike.items():
            found.setdefault(exact_ratio(used_mgpu, guaranteed_mgpu), []).extend(those)
        return found

    def _count_new(self, job: QueuedJob, team: int) -> None:
        """Count a job that starts or claims now: for its class, and as protected where it fits.

        It is exact except for a new job of higher priority than protected ones. The next cycle's
        full classing corrects that; until then neither exceeds the guarantee.
        """
        mgpu, key = job.mgpu, (team, job.priority_class)
        self.guarantees.protect(team, mgpu)
        self.class_use[key] = self.class_use.get(key, 0) + mgpu

    def occupy(self, job: QueuedJob, team: int, place: Place) -> list[Slot]:
        """Count the devices and the quota of a start whose claim counted for the rest.

        Return the slots of nodes and of CPU and memory that it takes.
        """
        slots, mgpu = self.slots_of(job, place), job.mgpu
        for slot in slots:
            self.free.take(place.cluster, slot.node, slot.mgpu)
        self.now.charge(team, mgpu)
        if self.later is not None:
            self.later.charge(team, mgpu)
        return slots

    def slots_of(self, job: QueuedJob, place: Place) -> list[Slot]:
        """Return the slots of nodes and of CPU and memory that `job` takes at `place`."""
        return self.config.resources.slots_on(
            place.cluster, place.nodes, job.mgpu_per_node, job.cpu_milli, job.memory_mib
        )

    def reclaim(
        self,
        job: QueuedJob,
        team: int,
        place: Place,
        victims: Sequence[Holding],
        by_credits: Mapping[str, tuple[ByCredits, ...]],
    ) -> Reclaim:
        """Stop the running `victims`, and make a claim on `place` for `job`.

        `by_credits` says why credits chose some of them, by attempt.
        """
        if self.later is None:
            self.later = self.now.copy()
        for holding in victims:
            self.stopped[holding] = self._protect_no_more(holding)
            holding.is_coming_back = True
            self.later.charge(holding.team, -holding.mgpu)
            self._give_back(holding)
        earlier = [one for one in self.leaving if one.run.beneficiary == job.id]
        own = map(self.grace_until, (*victims, *earlier))
        grace_until = max((self._last_return(place), *own))
        slots = tuple(self.slots_of(job, place))
        claim = Claim(job.id, place.cluster, slots, grace_until, self.taken_at)
        earmark = Earmark(job, claim, team, list(victims), self._stand_in(job, claim, team))
        earmark.earlier = earlier
        cover_all((earmark,), self.coming_back)
        self._count_in(earmark)
        self._wait_for_quota(earmark)
        earmark.fits_guarantee = self.guarantees.fits(team, team, job.mgpu)
        self._count_new(job, team)
        self.earmarks[job.id] = earmark
        return self._as_reclaim(earmark, by_credits)

    def _stand_in(self, job: QueuedJob, claim: Claim, team: int) -> Holding:
        return stand_in(job, claim, team, self.config.priority(job.priority_class).order)

    def _wait_for_quota(self, earmark: Earmark) -> None:
        """Extend the grace of a new claim if quota refuses its job once its own victims are gone.

        It then waits until all stopping attempts are gone.
        """
        gone = [(one.team, one.mgpu) for one in earmark.going]
        gone.append((earmark.team, earmark.uncovered_mgpu))
        with Transaction() as without:
            for team, mgpu in gone:
                without.charge(self.now, team, -mgpu)
            is_allowed = self.now.blocker(earmark.team, earmark.job.mgpu) is None
        if not is_allowed:
            going = map(self.grace_until, (*self.leaving, *self.stopped))
            grace_until = max((earmark.claim.grace_until, *going))
            earmark.claim = replace(earmark.claim, grace_until=grace_until)
            earmark.stand_in = self._stand_in(earmark.job, earmark.claim, earmark.team)

    def lift(self, earmark: Earmark, changes: Transaction) -> None:
        """Take a claim off its nodes, and free what was coming back for it for other claims."""
        cluster = earmark.claim.cluster
        for node, mgpu in earmark.free_mgpu.items():
            changes.take(self.free, cluster, node, -mgpu)
        changes.charge(self.now, earmark.team, -earmark.uncovered_mgpu)
        if self.later is not None:
            changes.charge(self.later, earmark.team, -earmark.job.mgpu)
        unclaimed = self.coming_back.setdefault(cluster, {})
        for slot in earmark.claim.slots:
            changes.add(unclaimed, slot.node, slot.mgpu - earmark.free_mgpu[slot.node])

    def _give_back(self, holding: Holding) -> None:
        """Count the slots of a victim as coming back."""
        unclaimed = self.coming_back.setdefault(holding.run.cluster, {})
        for slot in holding.run.slots:
            unclaimed[slot.node] = unclaimed.get(slot.node, 0) + slot.mgpu

    def _as_reclaim(
        self, earmark: Earmark, by_credits: Mapping[str, tuple[ByCredits, ...]]
    ) -> Reclaim:
        """Return a claim of this cycle as the plan contains it."""
        job, place = earmark.job, earmark.place
        notices = []
        for holding in earmark.victims:
            run, grace_s = holding.run, self._grace_s(holding)
            why = by_credits.get(run.attempt, ())
            notices.append(Victim(run.attempt, run.job, run.team, holding.mgpu, grace_s, why))
        slots = tuple(Slot(node, job.mgpu_per_node) for node in place.nodes)
        pool = self.name if job.others else None
        grace_until = earmark.claim.grace_until
        closed = self.config.windows.closed(job.time_limit_s, grace_until)
        return Reclaim(
            *(job.id, place.cluster, slots, tuple(notices), grace_until, pool),
            closed_nodes=names_on(place.cluster, closed.nodes),
        )

    def give_up(self, stand_in: Holding) -> None:
        """Drop a claim for a job that goes first; others may claim what was coming back for it."""
        assert stand_in.claim_of is not None
        self._protect_no_more(stand_in)
        earmark = self.earmarks.pop(stand_in.claim_of)
        self.lift(earmark, Transaction())
        self.dropped.append(earmark.job.id)
        self.class_use[earmark.team, earmark.job.priority_class] -= earmark.job.mgpu

    def _protect_no_more(self, holding: Holding) -> int:
        """Mark an attempt or a claim as going. Return where it was protected."""
        holding.is_going = True
        for node in self.tree.paths[holding.team]:
            if holding.is_protected_at(self.tree.depths[node]):
                self.guarantees.take(node, holding.team, -holding.mgpu)
        protected, holding.protected = holding.protected, 0
        return protected

    def _count_in(self, earmark: Earmark) -> None:
        """Count a new claim on its nodes."""
        for node, mgpu in earmark.free_mgpu.items():
            self.free.take(earmark.claim.cluster, node, mgpu)
        self.now.charge(earmark.team, earmark.uncovered_mgpu)
        if self.later is not None:
            self.later.charge(earmark.team, earmark.job.mgpu)

    def grace_until(self, holding: Holding) -> int:
        """Return when a stopping attempt is gone at the latest (epoch seconds)."""
        if holding in self.stopped:
            return self.taken_at + self._grace_s(holding)
        return holding.run.grace_until or 0

    def longest_grace_s(self) -> int:
        """Return the longest grace of any attempt that is stopped in this cycle, in seconds."""
        most_s = self.policy.grace_period_s_default
        if self.holdings.unclassed:
            return most_s
        graces_s = (cls.grace_period_s for cls in self.config.classes.values())
        return min(most_s, max(graces_s, default=most_s))

    def _grace_s(self, holding: Holding) -> int:
        cls = self.config.classes.get(holding.run.priority_class)
        grace_s = self.policy.grace_period_s_default
        return grace_s if cls is None else min(grace_s, cls.grace_period_s)

    def _last_return(self, place: Place) -> int:
        """Return when all stopping attempts on these nodes are gone at the latest (epoch seconds).

        It includes attempts that are stopped since earlier cycles, and those stopped for other
        jobs.
        """
        nodes = set(place.nodes)
        return max(
            (
                self.grace_until(holding)
                for holding in (*self.leaving, *self.stopped)
                if holding.run.cluster == place.cluster
                and any(slot.node in nodes for slot in holding.run.slots)
            ),
            default=self.taken_at,
        )


def open_pool(
    config: PoolConfig,
    holdings: Holdings,
    waiting: Mapping[str, QueuedJob],
    claims: Sequence[Claim],
    balances: Callable[[str], Iterable[Balance]],
    checkpoint_at: Callable[[RunningJob], int | None],
    taken_at: int,
) -> Pool:
    """Build the state of one pool for a cycle; `waiting` are its queued jobs by id.

    `balances` of a pool and `checkpoint_at` are called when they are needed.
    """
    policy = config.policy
    for holding in holdings.going.values():
        grace_until = holding.run.grace_until
        holding.is_coming_back = (
            grace_until is not None and grace_until + policy.claim_overdue_s >= taken_at
        )
    earmarks, dropped = in_force(config, holdings, waiting, claims, taken_at)
    leaving = [holding for holding in holdings.going.values() if holding.is_coming_back]
    coming_back = use_by_node(leaving)
    gone = {cluster: dict(nodes) for cluster, nodes in coming_back.items()}
    free = holdings.free
    if free is None:
        free = holdings.free = FreeDevices(
            holdings.left_of(config.offered),
            config.kinds,
            config.plans,
            config.resources,
            holdings.left_of(config.resources_offered),
        )
    holdings.settle()
    free.mark()
    class_use = holdings.class_use.copy()
    now = holdings.ledger.copy()
    now.capacity = holdings.capacity()
    if earmarks:
        cover_all(earmarks.values(), coming_back)
    for earmark in earmarks.values():
        for node, mgpu in earmark.free_mgpu.items():
            free.take(earmark.claim.cluster, node, mgpu)
        now.charge(earmark.team, earmark.uncovered_mgpu)
        key = (earmark.team, earmark.job.priority_class)
        class_use[key] = class_use.get(key, 0) + earmark.job.mgpu
    later = None
    if earmarks or leaving:
        later = holdings.ledger.copy()
        later.capacity = holdings.capacity(gone)
        for holding in leaving:
            later.charge(holding.team, -holding.mgpu)
        for earmark in earmarks.values():
            later.charge(earmark.team, earmark.job.mgpu)
    claimants = frozenset(one.team for one in earmarks.values())
    protection = _protect(config, holdings, earmarks.values(), claimants)
    return Pool(
        config=config,
        taken_at=taken_at,
        now=now,
        later=later,
        free=free,
        holdings=holdings,
        leaving=leaving,
        protection=protection,
        guarantees=protection.taken.copy(),
        earmarks=earmarks,
        claimants=claimants,
        dropped=dropped,
        coming_back=coming_back,
        class_use=class_use,
        balances=balances,
        checkpoint_at=checkpoint_at,
    )


def _protect(
    config: PoolConfig,
    holdings: Holdings,
    earmarks: Iterable[Earmark],
    claimants: Collection[int],
) -> Protection:
    """Class running attempts and claims, the latter of the teams `claimants`.

    An attempt that is being stopped is in use but protected nowhere. So its place in the guarantee
    can be given away while it stops. A claim counts as a job that started when the claim was made.
    """
    teams: Mapping[int, TeamJobs] = holdings.teams
    if claimants:
        teams = with_changed(holdings.teams, claimants)
        for earmark in earmarks:
            stand_in = earmark.stand_in
            stand_in.protected = stand_in.everywhere = (
                1 << len(config.tree.paths[earmark.team])
            ) - 1
            teams[earmark.team].add(stand_in.contender())
    return holdings.protect(teams, claimants)
