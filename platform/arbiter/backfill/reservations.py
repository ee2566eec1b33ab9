"""Reservations for blocked jobs at their earliest possible start (R-73 to R-77).

A reservation is a time and a place. It holds the nodes on which a blocked job fits, and the time at
which it does by the known ends of running jobs, after earlier reservations. Jobs later in the order
of service must not delay it. A job starts only if each reservation that begins before the job's end
still finds its devices and quota.

Resources that no job without an end may use are *held back*: they are taken out of the pool's free
devices during the cycle. So most jobs need no further check. If a job fits only with what is held
back, the longest possible run time is computed.

This file is long because each start, claim and reservation changes the known ends, what is held
back, and cached answers. These have to change together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from heapq import nsmallest

from arbiter.api.plan import Reservation
from arbiter.api.snapshot import QueuedJob, Slot
from arbiter.backfill.availability import ComingFree, QuotaOutlook
from arbiter.backfill.known_ends import KnownEnds, Release
from arbiter.backfill.reserved import Reserved
from arbiter.backfill.team_limits import OwnLimits, ReservedSpace, TeamUse
from arbiter.cache.claims import Earmark
from arbiter.cache.pool import Pool
from arbiter.cache.running import Holding, Node
from arbiter.cache.transaction import Transaction
from arbiter.placement.free_devices import Place, Shape
from arbiter.placement.resources import Demand, is_cpu_or_memory, node_of
from arbiter.quota.tree import ROOT, UNLIMITED

#: The most jobs that are tried per reservation that the policy allows, and the most shapes for
#: which a start is looked up.
_TRIES = 4


def _end_of(pool: Pool, ends: KnownEnds, holding: Holding) -> int | None:
    """Return when a running attempt, or the job of a claim, is gone at the latest."""
    if holding.claim_of is None:
        return ends.of(holding)
    return ends.of_claim(pool.earmarks[holding.claim_of])


class Reservations:
    """The reservations of one pool and cycle, in the order in which they were made."""

    def __init__(self, pool: Pool) -> None:
        self.reserved_jobs: list[Reserved] = []
        self._pool = pool
        self._ends = KnownEnds(pool)
        self._tries_left = _TRIES * pool.policy.reservations_max
        self._hopeless: set[Shape] = set()
        self._known: dict[Shape, bool] = {}
        self._on_node: dict[Node, list[Reserved]] = {}
        self._withheld: dict[Node, int] = {}
        self._fits: dict[Shape, bool] = {}
        self._longest: dict[tuple[Shape, tuple[str, ...]], tuple[int, Reserved | None]] = {}
        #: Starts before the first reservation, whose ends were not needed yet.
        self._started: list[tuple[QueuedJob, int, str, list[Slot]]] = []
        self._use = TeamUse(pool, self._ends)
        #: Reserved space for jobs that wait only for their own team.
        self.limits = OwnLimits(pool, self._use, self._devices_from)
        #: By the demand of a rank; and the nodes on which jobs started since the first of these was
        #: made.
        self._coming: dict[Demand, ComingFree] = {}
        self._changed: set[Node] = set()

    # -- who may start ----------------------------------------------------------------------

    def fits(self, shape: Shape) -> bool:
        """Return whether there is a place now, held back or not."""
        free = self._pool.free
        if free.fits(shape):
            return True
        if not self._withheld:
            return False
        fits = self._fits.get(shape)
        if fits is None:
            fits = self._would_fit_without(shape)
            if fits:
                with self._released(()):
                    fits = free.fits(shape)
            self._fits[shape] = fits
        return fits

    def may_bind(self, team: int) -> bool:
        """Return whether a job of `team` that fits may have to wait for reserved resources."""
        return bool(self.reserved_jobs) or team in self.limits

    def longest_s(
        self, team: int, shape: Shape, priority_class: str, source: int
    ) -> tuple[int, Reserved | ReservedSpace | None]:
        """Return how long a job of `team` that fits may run from now on, and what limits it.

        The job draws on the guarantee of `source`. Return (UNLIMITED, None) where nothing limits
        it.
        """
        mgpu, binding = shape.total_mgpu, self._binding(team, shape.total_mgpu, source)
        key = shape, tuple(one.job.id for one in binding)
        found: tuple[int, Reserved | ReservedSpace | None] | None = self._longest.get(key)
        if found is None:
            found = self._longest[key] = self._longest_on_devices(shape, binding)
        for one in binding:
            allowed_s = one.start_at - self._pool.taken_at
            if allowed_s < found[0] and not one.leaves_enough(team, mgpu):
                found = allowed_s, one
        own = self.limits.longest_s(team, mgpu, priority_class)
        return own if own[0] < found[0] else found

    def find(self, job: QueuedJob, team: int, shape: Shape, source: int) -> Place | None:
        """Return the tightest place where `job` of `team` delays no reservation.

        It draws on the guarantee of `source`. If that is its team's own, the place is away from
        lent GPUs.
        """
        free, lent = self._pool.free, self._pool.holdings.borrowed.by_node
        joins_lent = source != team
        place = free.find(shape, lent, joins_lent=joins_lent)
        if place is None and self._withheld:
            run_s = UNLIMITED if job.time_limit_s is None else job.time_limit_s
            with self._released(self._in_way(run_s, team, shape.total_mgpu, source)):
                place = free.find(shape, lent, joins_lent=joins_lent)
        return place

    @property
    def withheld(self) -> Mapping[Node, int]:
        """Return what is held back now, by node (or its CPU or memory).

        It is less while some of it is released for a check.
        """
        return self._withheld

    @contextmanager
    def set_aside(
        self, job: QueuedJob, team: int, mgpu: int, source: int
    ) -> Iterator[frozenset[Node]]:
        """Hold back, within the context, only what a claim of `job` must not delay.

        The job of `team` draws on the guarantee of `source`. It starts when the last victim is
        gone, and runs for its time limit.

        Yields the nodes (and their CPU and memory) on which it may reclaim nothing: a reservation
        that begins before the job ends holds these. So claims cannot delay a reservation for ever.
        """
        in_way = self._in_way(self._claimed_s(job), team, mgpu, source)
        with self._released(in_way):
            yield frozenset(node for one in in_way for node in one.needs)

    @contextmanager
    def set_aside_nothing(self) -> Iterator[None]:
        """Hold back nothing within the context."""
        with self._released(()):
            yield

    def claim_takes_quota(
        self, job: QueuedJob, team: int, source: int, victims: Collection[Holding]
    ) -> bool:
        """Return whether a claim of `job` on `victims` leaves too little quota to a reserved job.

        Only reserved jobs that it must not delay count.
        """
        if not self.reserved_jobs:
            return False
        ends = [(one, _end_of(self._pool, self._ends, one)) for one in victims]
        for one in self._in_way(self._claimed_s(job), team, job.mgpu, source):
            late = [v for v, end in ends if end is None or end > one.start_at]
            if not one.leaves_enough_after([(team, job.mgpu), *((v.team, -v.mgpu) for v in late)]):
                return True
        return False

    def claim_delays(self, job: QueuedJob, team: int, victims: Collection[Holding] = ()) -> bool:
        """Return whether a claim of `job` on `victims` would delay an earlier job of its team.

        That job has reserved space in the team's own limits.
        """
        end = self._pool.taken_at + self._claimed_s(job)
        return self.limits.claim_delays(job, team, end, victims)

    def longest_of_claim_s(
        self, job: QueuedJob, team: int, source: int
    ) -> tuple[int, Reserved] | None:
        """Return the longest run time of a claim like that of `job`, and the reservation behind it.

        It would be over when the last reservation begins that `job` would delay. Return None if it
        would delay none.
        """
        in_way = self._in_way(self._claimed_s(job), team, job.mgpu, source)
        in_way = [one for one in in_way if one.job.id != job.id]
        if not in_way:
            return None
        last = max(in_way, key=lambda one: (one.start_at, one.job.id))
        return last.start_at - self._pool.taken_at - self.back_s(), last

    def _claimed_s(self, job: QueuedJob) -> int:
        """Return in how many seconds the job of a new claim is gone at the latest."""
        return UNLIMITED if job.time_limit_s is None else self.back_s() + job.time_limit_s

    def back_s(self) -> int:
        """Return in how many seconds GPUs that are reclaimed now are free at the latest."""
        pool = self._pool
        graces = (one.run.grace_until or 0 for one in pool.leaving)
        return max(pool.longest_grace_s(), max(graces, default=0) - pool.taken_at)

    def _in_way(self, run_s: int, team: int, mgpu: int, source: int) -> Sequence[Reserved]:
        """Return the reservations that a job of `run_s` seconds could delay, but must not."""
        end = self._pool.taken_at + run_s
        return [one for one in self._binding(team, mgpu, source) if one.start_at < end]

    def _binding(self, team: int, mgpu: int, source: int) -> Sequence[Reserved]:
        """Return the reservations that a job of `team` on the guarantee of `source` must not delay.

        Guarantees go before reservations beyond them. A job on its team's own guarantee goes before
        all jobs that draw on more than their own. A job on the guarantee of a node above goes
        before those whose GPUs it could reclaim if they ran.

        Inside a team its own order counts. Otherwise an earlier job that fits in the guarantee
        could wait for good, while later jobs use up again and again what ends there.
        """
        if source == ROOT:
            return self.reserved_jobs
        if source == team:
            return [
                one
                for one in self.reserved_jobs
                if one.source == one.team or (one.is_own and one.team == team)
            ]
        return [one for one in self.reserved_jobs if not self._could_take_back(team, mgpu, one)]

    def _could_take_back(self, team: int, mgpu: int, one: Reserved) -> bool:
        """Return whether a job of `team` could reclaim what is reserved for `one` if that ran.

        It could if it fits in the guarantee on its side of the lowest node above both, and if the
        reserved job draws on that node's guarantee or on more.
        """
        tree = self._pool.tree
        sides = tree.sides(team, one.team)
        if sides is None:
            return False
        mine, its = sides
        is_beyond = one.source == ROOT or tree.depths[one.source] < tree.depths[its]
        return is_beyond and self._pool.guarantees.fits(mine, team, mgpu)

    def _longest_on_devices(
        self, shape: Shape, binding: Sequence[Reserved]
    ) -> tuple[int, Reserved | None]:
        pool = self._pool
        longest: tuple[int, Reserved | None] = (UNLIMITED, None)
        if pool.free.fits(shape):
            return longest
        # Check the latest reservations first: a job that ends before them does not delay them.
        binding = sorted(binding, key=lambda one: (-one.start_at, one.job.id))
        while binding:
            with self._released(binding):
                fits = pool.free.fits(shape)
            if fits:
                break
            last = binding[0]
            longest = last.start_at - pool.taken_at, last
            binding = [one for one in binding if one.start_at < last.start_at]
        return longest

    def _would_fit_without(self, shape: Shape) -> bool:
        """Return whether enough nodes could hold a rank if nothing was held back.

        It is an upper bound.
        """
        free = self._pool.free
        for cluster in free.clusters(shape.clusters):
            count = free.count(cluster, shape)
            for node in {node_of(resource) for at, resource in self._withheld if at == cluster}:
                if free.is_of(shape.kinds, cluster, node):
                    free_mgpu = free.free[cluster][node] + self._withheld.get((cluster, node), 0)
                    is_free = free.fits_on(cluster, node, shape)
                    count += not is_free and free_mgpu >= shape.mgpu
            if count >= shape.node_count:
                return True
        return False

    # -- what changes -----------------------------------------------------------------------

    def note_start(self, job: QueuedJob, team: int, cluster: str, slots: list[Slot]) -> None:
        """Note that `job` has started on devices that count as taken already."""
        self._use.note_start(job, team)
        if team in self.limits:
            end = self._ends.of_start(job, self._pool.taken_at)
            self.limits.note(team, job, end)
        if self._coming:
            self._changed.update((cluster, node_of(slot.node)) for slot in slots)
        if not self.reserved_jobs:
            self._started.append((job, team, cluster, slots))
            return
        self._forget()
        end = self._note_end(job, team, cluster, slots)
        for one in self.reserved_jobs:
            if end is None or end > one.start_at:
                one.charge(team, job.mgpu)
        self._hold_back([(cluster, slot.node) for slot in slots])

    def _note_end(
        self, job: QueuedJob, team: int, cluster: str, slots: Sequence[Slot]
    ) -> int | None:
        end = self._ends.of_start(job, self._pool.taken_at)
        if end is not None:
            self._ends.add(end, job, team, cluster, slots)
        return end

    def _note_ends(self) -> None:
        """Add the ends of jobs that have started, because they are needed now."""
        for job, team, cluster, slots in self._started:
            self._note_end(job, team, cluster, slots)
        self._started.clear()

    def note_claim(self, earmark: Earmark) -> None:
        """Note a new claim: its victims go."""
        self.note_gone(earmark.victims)
        self._ends.stop(earmark)
        self._ends.claim(earmark)
        end = self._ends.of_claim(earmark)
        for one in self.reserved_jobs:
            if end is None or end > one.start_at:
                one.charge(earmark.team, earmark.job.mgpu)
        self.limits.note(earmark.team, earmark.job, end)
        self._hold_back([(earmark.claim.cluster, slot.node) for slot in earmark.claim.slots])

    def note_gone(self, holdings: Iterable[Holding]) -> None:
        """Note that these attempts are being stopped, or these claims dropped."""
        self._forget()
        self._coming.clear()
        self._changed.clear()
        for holding in holdings:
            self._ends.forget(holding)
            self.limits.forget(holding.team)
            nodes = [(holding.run.cluster, slot.node) for slot in holding.run.slots]
            end = None if holding.claim_of is not None else self._ends.of(holding)
            for one in self.reserved_jobs:
                if end is None or end > one.start_at:
                    one.charge(holding.team, -holding.mgpu)
            self._hold_back(nodes)

    def ends(self) -> Iterator[Sequence[Release]]:
        """Return what comes free (see `KnownEnds.parts`), including reserved jobs."""
        return self._ends.parts()

    def knows_when(self, job: str, shape: Shape) -> bool:
        """Return whether the time is known at which a blocked job has devices.

        It is if the job holds a reservation, or if there is such a time for its `shape`. The answer
        for a shape stays as it was first. After a number of shapes it is assumed to be known.
        """
        if any(one.job.id == job for one in self.reserved_jobs):
            return True
        if shape not in self._known:
            if len(self._known) >= _TRIES * self._pool.policy.reservations_max:
                return True
            found = (
                None if shape in self._hopeless else self._devices_from(shape, self._pool.taken_at)
            )
            self._known[shape] = found is not None
        return self._known[shape]

    def reservations(self) -> list[Reservation]:
        """Return the reservations as the plan contains them."""
        return [
            Reservation(
                one.job.id,
                one.place.cluster,
                tuple(Slot(node, one.job.mgpu_per_node) for node in one.place.nodes),
                one.start_at,
                one.job.pool if one.job.others else None,
            )
            for one in self.reserved_jobs
        ]

    def release(self) -> None:
        """End the cycle: hold nothing back any more."""
        self.limits.close()
        for (cluster, node), mgpu in self._withheld.items():
            self._pool.free.take(cluster, node, -mgpu)
        self._withheld.clear()

    def _forget(self) -> None:
        """Drop cached answers."""
        self._longest.clear()
        self._fits.clear()

    # -- new reservations -------------------------------------------------------------------

    def may_reserve(self, team: int, shape: Shape, priority_class: str) -> bool:
        """Return whether a blocked job of this shape, class and team may get a reservation.

        A job that its own team's limit refuses, or space reserved in that for another job, waits
        for the team's own jobs. It gets no reservation.
        """
        mgpu = shape.total_mgpu
        return (
            len(self.reserved_jobs) < self._pool.policy.reservations_max
            and self._tries_left > 0
            and shape not in self._hopeless
            and self._pool.blocker(team, mgpu) != team
            and (
                (space := self.limits.of(team)) is None or space.leaves_enough(mgpu, priority_class)
            )
        )

    def reserve(self, job: QueuedJob, team: int, shape: Shape, source: int) -> None:
        """Reserve the earliest possible start of `job`, if that is known.

        The job draws on the guarantee of `source`.
        """
        self._tries_left -= 1
        self._note_ends()
        pool = self._pool
        first = pool.taken_at
        if pool.now.blocker(team, job.mgpu) is not None:
            # Attempts that are being stopped, since earlier or in this cycle, are in use until they
            # are gone.
            first = max([first, *(one.run.grace_until or 0 for one in pool.leaving)])
            first = max([first, *(pool.grace_until(one) for one in pool.stopped)])
        ledger = (pool.now if pool.later is None else pool.later).copy()
        for one in self.reserved_jobs:
            ledger.charge(one.team, one.job.mgpu)
        outlook = QuotaOutlook(ledger, self._ends.parts())
        permitted_at = outlook.allowed_from(first, team, job.mgpu)
        if permitted_at is None:
            return
        found = self._by_devices(shape, permitted_at)
        if found is None:
            self._hopeless.add(shape)
            return
        found = self._before_maintenance(found, job, shape, permitted_at)
        if found is None:
            return
        start_at, place = found
        outlook.advance(start_at)
        for one in self.reserved_jobs:
            if one.start_at > start_at:
                ledger.charge(one.team, -one.job.mgpu)
        slots = pool.slots_of(job, place)
        needs = {(place.cluster, slot.node): slot.mgpu for slot in slots}
        end = self._ends.of_start(job, start_at)
        is_own = source == team or self._use.is_in_guarantee_by(start_at, job, team)
        new = Reserved(job, team, place, needs, start_at, end, source, is_own, ledger)
        new.spare_mgpu = max(0, ledger.available(team) - job.mgpu)
        for one in self.reserved_jobs:
            if one.start_at >= start_at and (end is None or end > one.start_at):
                one.charge(team, job.mgpu)
        self.reserved_jobs.append(new)
        for node in needs:
            self._on_node.setdefault(node, []).append(new)
        if end is not None:
            self._ends.add(end, job, team, place.cluster, slots)
        self.limits.note_reservation(team, job, end)
        self._forget()
        self._hold_back(needs)

    def _before_maintenance(
        self, found: tuple[int, Place], job: QueuedJob, shape: Shape, first: int
    ) -> tuple[int, Place] | None:
        """Return a time and place like `found` from which `job` ends before any maintenance.

        Clusters and nodes where it would not are left out step by step. Return None if no place is
        left.
        """
        config = self._pool.config
        clusters, nodes = frozenset(self._pool.free.clusters(shape.clusters)), job.closed_nodes
        start_at, place = found
        while config.windows.meets(place, job.time_limit_s, start_at):
            closed = config.windows.closed(job.time_limit_s, start_at)
            if place.cluster in closed.clusters:
                clusters -= {place.cluster}
            nodes |= closed.nodes
            kinds = config.kinds.having(job.features, nodes)
            again = self._by_devices(shape._replace(clusters=clusters, kinds=kinds), first)
            if again is None:
                return None
            start_at, place = again
        return start_at, place

    def _devices_from(self, shape: Shape, first: int) -> int | None:
        """Return the time from which `shape` has a place for good.

        The time is `first` at the earliest. Return None if it is unknown.
        """
        self._note_ends()
        found = self._by_devices(shape, first)
        return None if found is None else found[0]

    def _by_devices(self, shape: Shape, first: int) -> tuple[int, Place] | None:
        """Return the time from which `shape` has a place for good, and that place.

        The time is `first` at the earliest. Return None if it is unknown.
        """
        free, kinds, coming = self._pool.free, shape.kinds, self._coming_free(shape)
        tallies = {cluster: free.tally(cluster, shape) for cluster in free.clusters(shape.clusters)}
        apart = self._on_node.keys() | self._changed
        by_ready_time = []
        for node in apart:
            cluster, name = node
            if (
                cluster in tallies
                and not is_cpu_or_memory(name)
                and free.is_of(kinds, cluster, name)
                and not free.fits_on(cluster, name, shape)
            ):
                ready_at = self._ready_at(node, shape)
                if ready_at is not None:
                    by_ready_time.append((ready_at, node))
        by_ready_time.sort(reverse=True)
        ready: dict[str, list[str]] = {cluster: [] for cluster in tallies}

        def note(node: Node) -> None:
            cluster, name = node
            tallies[cluster].add(name)
            ready[cluster].append(name)

        def may_use(node: Node) -> bool:
            cluster, name = node
            return node not in apart and cluster in tallies and free.is_of(kinds, cluster, name)

        place, at = 0, first
        while not any(tally.is_enough for tally in tallies.values()):
            found = coming.node(place)
            if by_ready_time and (found is None or by_ready_time[-1][0] <= found[0]):
                at, node = by_ready_time.pop()
                note(node)
            elif found is not None:
                at, node = found
                place += 1
                if may_use(node):
                    note(node)
            else:
                return None
        start_at = max(at, first)
        while by_ready_time and by_ready_time[-1][0] <= start_at:
            note(by_ready_time.pop()[1])
        for _, node in coming.nodes(place, start_at):
            if may_use(node):
                note(node)
        cluster = min(cluster for cluster, tally in tallies.items() if tally.is_enough)
        here, (freed, is_exact) = free.free[cluster], coming.freed(cluster, start_at)
        unlike = {name for at, name in apart if at == cluster}
        spare: dict[str, int] = {}
        for name in (*ready[cluster], *[name for _, name in free.nodes_for(cluster, shape)]):
            more = freed.get(name, 0)
            if (is_exact or not more) and name not in unlike:
                spare[name] = here[name] + more
            else:
                spare[name] = self._spare((cluster, name), start_at)
        if shape.is_bound:
            return start_at, Place(cluster, free.placed(cluster, shape, spare))
        # Prefer nodes where least must be held back for it, and among these the fullest.
        ranked = (
            (max(0, here[name] - (left - shape.mgpu)), left, name) for name, left in spare.items()
        )
        chosen = nsmallest(shape.node_count, ranked)
        return start_at, Place(cluster, tuple(sorted(name for _, _, name in chosen)))

    def _coming_free(self, shape: Shape) -> ComingFree:
        """Return when nodes without new starts or reservations can hold a rank."""
        found = self._coming.get(shape.demand)
        if found is None:
            found = ComingFree(self._pool.free, self._ends.by_time(), shape)
            self._coming[shape.demand] = found
        return found

    def _ready_at(self, node: Node, shape: Shape) -> int | None:
        """Return the time from which a changed node can hold a rank for good, or None.

        It has new starts or reservations.
        """
        if not self._pool.config.resources.is_counted:
            return self._spare_from(node, shape.mgpu)
        ready_at = self._pool.taken_at
        for slot in self._pool.config.resources.slots_on(node[0], node[1:], *shape.demand):
            at = self._spare_from((node[0], slot.node), slot.mgpu)
            if at is None:
                return None
            ready_at = max(ready_at, at)
        return ready_at

    def _spare_from(self, node: Node, mgpu: int) -> int | None:
        """Return the time from which a node has `mgpu` to spare for good (or its CPU or memory).

        That is now, or the first end that suffices after the last start that leaves less.
        """
        left = self._pool.free.left(node[0], node[1]) + self._withheld.get(node, 0)
        now, ends = self._pool.taken_at, self._ends.on(node)
        # At equal times starts come last, because they may use what has ended by then.
        changes = [(now, 0, 0), *((end, 0, more) for end, more in ends)]
        changes += [(one.start_at, 1, -one.needs[node]) for one in self._on_node.get(node, ())]
        changes.sort()
        ready = None
        for at, is_start, change in changes:
            left += change
            if is_start:
                if left < mgpu:
                    ready = None
            elif ready is None and left >= mgpu:
                ready = at
        return ready

    def _left(self, node: Node, at: int, reserved: Iterable[Reserved]) -> int:
        """Return what is left on a node at `at`, when those of `reserved` run that have begun."""
        left = self._pool.free.left(node[0], node[1]) + self._withheld.get(node, 0)
        for end, mgpu in self._ends.on(node):
            if end > at:
                break
            left += mgpu
        for one in reserved:
            if one.start_at <= at:
                left -= one.needs[node]
        return left

    def _spare(self, node: Node, at: int) -> int:
        """Return what is left on a node from `at` on, not needed by any later reservation."""
        reserved = self._on_node.get(node, ())
        later = [one.start_at for one in reserved if one.start_at > at]
        return min(self._left(node, moment, reserved) for moment in (at, *later))

    # -- what is held back ------------------------------------------------------------------

    def _hold_back(self, nodes: Iterable[Node]) -> None:
        """Update what is held back on `nodes`."""
        free = self._pool.free
        for node in nodes:
            reserved = self._on_node.get(node)
            if reserved is None:
                continue
            cluster, name = node
            before = self._withheld.get(node, 0)
            needed = self._needed(node, reserved)
            if needed != before:
                free.take(cluster, name, needed - before)
                self._withheld[node] = needed
                if not needed:
                    del self._withheld[node]

    def _needed(self, node: Node, reserved: Sequence[Reserved]) -> int:
        """Return the part of a node's free amount that must be free when `reserved` begin."""
        free = self._pool.free.left(node[0], node[1]) + self._withheld.get(node, 0)
        if free <= 0:
            return 0
        spare = min((self._left(node, one.start_at, reserved) for one in reserved), default=free)
        return max(0, min(free, free - spare))

    @contextmanager
    def _released(self, in_way: Iterable[Reserved]) -> Iterator[None]:
        """Hold back, within the context, only what the reservations `in_way` need."""
        free, in_way_ids = self._pool.free, {id(one) for one in in_way}
        given = []
        for node, mgpu in self._withheld.items():
            reserved = [one for one in self._on_node[node] if id(one) in in_way_ids]
            more = mgpu - self._needed(node, reserved)
            if more:
                given.append((node, more))
        with Transaction() as while_released:
            for node, more in given:
                while_released.take(free, node[0], node[1], -more)
                while_released.add(self._withheld, node, -more)
            yield
