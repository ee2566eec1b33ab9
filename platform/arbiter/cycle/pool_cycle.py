"""The decisions of one cycle in one pool, in the order of service."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from arbiter.api.plan import Code, Reclaim
from arbiter.api.policy import Budget
from arbiter.api.snapshot import QueuedJob
from arbiter.backfill.reservations import Reservations
from arbiter.cache.claims import Earmark
from arbiter.cache.pool import Pool
from arbiter.cache.pool_config import PoolConfig
from arbiter.cache.running import Holding
from arbiter.cycle.claimed_starts import use_claims
from arbiter.cycle.elastic import Elastic, is_elastic
from arbiter.cycle.failures import Failures
from arbiter.cycle.obstacles import Obstacles
from arbiter.cycle.prospects import Prospects
from arbiter.cycle.service_position import position_of
from arbiter.explain.reasons import SpareTaken
from arbiter.explain.usage import NewStart
from arbiter.fairshare.fair_tree import FairShares, counted_mgpu
from arbiter.placement.free_devices import Place
from arbiter.preemption.by_credits import by_credits
from arbiter.preemption.reclaim import Reclaimer
from arbiter.queue.blocked_order import BlockedOrder
from arbiter.queue.order import Age, Agenda, Priority, TeamQueue, UserQueue
from arbiter.queue.pending import PendingQueue
from arbiter.quota.tree import ROOT

#: The most checks per cycle of whether reservations alone prevent a claim.
_QUESTIONS_MAX = 32
#: Codes of jobs that may hold a reservation.
_MAY_RESERVE = frozenset((Code.WAITING_FOR_FREE_GPUS, Code.RESERVED_FOR_LARGER_JOB))


@dataclass(frozen=True, slots=True)
class SharedJobs:
    """Facts about jobs that accept several pools, as the cycle of one pool needs them.

    `absent` jobs do not queue here. Jobs `not_again` had a claim when the cycle began and make no
    new one. `reserves` returns whether a job may hold its reservation in this pool.
    """

    absent: frozenset[str] = frozenset()
    not_again: frozenset[str] = frozenset()
    reserves: Callable[[QueuedJob], bool] = field(default=lambda job: True)


class _Blocked(NamedTuple):
    """The next job of a team, which cannot start because of `code`.

    It draws on the guarantee of `source`, and is served at the position of that of `serving_node`.
    """

    queue: TeamQueue
    user_queue: UserQueue
    code: Code
    source: int
    serving_node: int


class PoolCycle:
    """The decisions of one cycle in one pool: first `decide`, then `explain` if needed."""

    #: The fair-share of the pool's nodes and users, and what starts took beyond their guarantees.
    #: Both are set only once some job may be served.
    shares: FairShares
    spare_taken: SpareTaken

    def __init__(
        self,
        pool: Pool,
        pending: PendingQueue,
        make_shares: Callable[[PoolConfig], FairShares],
        *,
        budget: Budget,
        explains: bool,
        shared: SharedJobs,
    ) -> None:
        """Prepare the cycle of one pool.

        `make_shares` is called when fair-share is needed first. With `explains`, `explain` may be
        called later.
        """
        self.pool = pool
        self._make_shares = make_shares
        self._position_of = partial(position_of, pool)
        self.starts: list[NewStart] = []
        self.reclaims: list[Reclaim] = []
        self._left = replace(budget)
        #: Remaining checks of whether reservations alone prevent a claim.
        self._questions_left = _QUESTIONS_MAX
        self.jobs = pending.jobs
        self._pending = pending
        self.queues = pending.queues
        self._settled: Collection[str] = ()
        #: Teams whose queues were not looked at yet; and by the ratio of their guarantees all teams
        #: with it, the lowest ratio last. The latter may include other teams.
        self._unseen: set[int] = set()
        self._expected: list[tuple[int, list[int]]] = []
        self._not_again = {*shared.not_again, *pool.dropped}
        self._shared = shared
        self.reserved = Reservations(pool)
        self._explains = explains
        #: The blocked job at which `decide` stopped, if its reservation was due next.
        self._postponed: _Blocked | None = None
        #: Whether an elastic start may still grow.
        self._grows = False
        #: Whether a claim was dropped since all queues were looked at.
        self._has_more_free = False
        self._blocked_order = BlockedOrder(pool.tree, pool.guarantees)

    # -- the steps of a cycle -------------------------------------------------------------

    def decide(self) -> None:
        """Decide which jobs start and for which jobs GPUs are reclaimed.

        It ends as soon as no further job could start or reclaim GPUs. `explain` continues from
        there.
        """
        # 1. Start claimed jobs whose GPUs are free.
        claims = self._start_what_is_claimed()
        if not self._explains and not self._goes_on(self._prospects.may_be_any):
            # No job could be served, and no reasons are needed.
            return
        # 2. Queue the waiting jobs, after claims are charged.
        self._charge_claims(claims)
        self._prepare_queues()
        # 3. Serve in order: each job starts, reclaims GPUs, or gets a reservation.
        # 4. Each search for victims ends by sparing those that it does not need.
        self._serve_in_order(explains=False)
        # 5. Grow elastic jobs into nodes that are left over.
        self._grow_elastic_jobs()

    def explain(self) -> None:
        """Find the reasons of all other jobs, and which of them hold a reservation."""
        # 6. Serve the other jobs, none of which can start; their codes are the reasons.
        self._serve_in_order(explains=True)
        self.reserved.release()

    def _goes_on(self, has_prospects: Callable[[], bool]) -> bool:
        """Return whether a start may grow, or any job may start or reclaim GPUs."""
        return self._grows or has_prospects()

    def close(self) -> None:
        """End the cycle: restore the pool as it was before."""
        self.pool.close()
        self.reserved.limits.close()

    # -- claims ---------------------------------------------------------------------------

    def _start_what_is_claimed(self) -> list[Earmark]:
        """Start claimed jobs whose GPUs are free. Return their claims and those that stay."""
        used = use_claims(self.pool, self._left.starts)
        for earmark, place, _ in used:
            priority = self.pool.config.priority(earmark.job.priority_class)
            self._note_start(earmark.job, earmark.team, priority, place)
        # Reservations count on the ends of the remaining claims too, which are known only now.
        for earmark, place, slots in used:
            self.reserved.note_start(earmark.job, earmark.team, place.cluster, slots)
        self._reclaimer = Reclaimer(self.pool, self.reserved.withheld)
        self._prospects = Prospects(
            self.pool, self._pending, self._left, self._reclaimer, self.reserved
        )
        return [*(earmark for earmark, _, _ in used), *self.pool.earmarks.values()]

    def _charge_claims(self, claims: Iterable[Earmark]) -> None:
        """Count claims as use of their teams for the first hour, as starts are counted."""
        self.shares = self._make_shares(self.pool.config)
        self.spare_taken = SpareTaken(self.shares)
        for earmark in claims:
            self._charge(earmark.team, earmark.job, is_borrowed=self.pool.is_borrowed(earmark))

    # -- queues ---------------------------------------------------------------------------

    def _prepare_queues(self) -> None:
        """Build the team queues, and set aside jobs that cannot start in any case."""
        settled = {start.job.id for start in self.starts}
        self._settled = settled.union(self.pool.earmarks, self._shared.absent)
        self._pending.prepare_queues(
            self.pool.config.group_of, self._settled, self.shares, self._shared.reserves
        )
        self._agenda = Agenda(self.shares, self._position_of)
        self._elastic = Elastic(self.pool, self.reserved, self.shares, self.queues)
        self._obstacles = Obstacles(self.pool, self.jobs, self.reserved, self._left)
        self._failures = Failures(
            self.pool,
            self.jobs,
            self.reserved,
            self._reclaimer,
            self._obstacles,
            self._left,
            self._not_again,
        )
        self._expect()
        self._prospects.look_out(self.reserved)

    # -- service --------------------------------------------------------------------------

    def _enlist(self, queue: TeamQueue) -> None:
        """Put the team's next job on the agenda; jobs without any chance fail here.

        Free GPUs only decrease within a cycle, so in a full pool most jobs never reach the agenda.
        """
        team = queue.team
        while (user_queue := queue.head()) is not None:
            source, code, serving_node = self._outlook(queue, user_queue)
            if serving_node is not None:
                self._agenda.enlist(serving_node, user_queue.job, team)
                return
            self._pending.touch(team)
            assert code is not None
            self._failures.fail(queue, user_queue, code, source)

    def _expect(self) -> None:
        """Mark all queues as not looked at, ordered by the best position that each could have.

        That is the position of a next job that draws on its team's own guarantee.
        """
        self._unseen = set(self.queues)
        self._expected = sorted(self.pool.by_ratio(self.queues).items(), reverse=True)

    def _next(self) -> tuple[int, int] | None:
        """Return the team that is served next, and the node on whose guarantee its job draws.

        A queue is looked at only once it could come before the first of the agenda. Often nothing
        is left by then.
        """
        expected, unseen = self._expected, self._unseen
        while expected:
            ratio, alike = expected[-1]
            if not unseen.isdisjoint(alike):
                lowest = self._agenda.lowest_ratio()
                if lowest is not None and lowest < ratio:
                    break
                for team in sorted(unseen.intersection(alike)):
                    unseen.remove(team)
                    self._enlist(self.queues[team])
            expected.pop()
        return self._agenda.pop()

    def _serve_in_order(self, *, explains: bool) -> None:
        """Serve the teams' next jobs in order: each starts, reclaims GPUs, reserves or fails.

        Unless it `explains`, it ends as soon as no job has prospects: after a job that did not
        start, or before a reservation. Reservations cost most, and the remaining ones may matter
        only for reasons.
        """
        blocked, self._postponed = self._postponed, None
        if blocked is not None:
            self._reserve(blocked)
            self._look_again()
        while (served := self._next()) is not None:
            serving_node, team = served
            count = len(self.starts)
            blocked = self._serve(serving_node, self.queues[team])
            if blocked is not None:
                if not explains and not self._goes_on(self._prospects.are_any):
                    self._postponed = blocked
                    return
                self._reserve(blocked)
            self._look_again()
            is_over = not explains and len(self.starts) == count
            if is_over and not self._goes_on(self._prospects.are_any):
                return

    def _look_again(self) -> None:
        """Look at all waiting jobs again if claims were dropped."""
        if self._has_more_free:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Serve all waiting jobs again in order, and make all reservations anew.

        Claims were dropped, and every job may use what they release.
        """
        self._has_more_free = False
        self.reserved.release()
        self.reserved = Reservations(self.pool)
        self._reclaimer.withheld = self.reserved.withheld
        for start in self.starts:
            slots = self.pool.slots_of(start.job, start.place)
            self.reserved.note_start(start.job, start.team, start.place.cluster, slots)
        self._prepare_queues()

    def _serve(self, enlisted_for: int, queue: TeamQueue) -> _Blocked | None:
        """Settle the team's next job, unless it lost the guarantee for which it was enlisted.

        Return the job if it is blocked and may hold a reservation; the caller reserves for it.
        """
        self._pending.touch(queue.team)
        user_queue = queue.head()
        if user_queue is None:
            return None
        source, code, serving_node = self._outlook(queue, user_queue)
        if serving_node == enlisted_for:
            if code is None:
                self._start(queue, user_queue, source)
            elif (code := self._reclaim(queue, user_queue, code, source)) is not None:
                may_reserve = self._may_reserve(queue, user_queue, code)
                if code is not Code.RESERVED_FOR_LARGER_JOB:
                    user_queue.cls.code = code
                if may_reserve:
                    return _Blocked(queue, user_queue, code, source, serving_node)
                self._failures.fail(queue, user_queue, code, source)
        self._enlist(queue)
        return None

    def _reserve(self, blocked: _Blocked) -> None:
        """Reserve the earliest start of a blocked job; it waits until then."""
        queue, user_queue, code, source, serving_node = blocked
        user_queue.cls.serving_node = serving_node
        self.reserved.reserve(
            self.jobs[user_queue.job[1]], queue.team, user_queue.cls.shape, source
        )
        self._failures.fail(queue, user_queue, code, source)
        self._enlist(queue)

    def _grow_elastic_jobs(self) -> None:
        """Give more nodes to elastic jobs that start, if no other job can use these nodes."""
        if self._left.starts > 0 and self._left.reclaims > 0:
            self._elastic.grow_all(self.starts, self._position_of, self._charge)

    def _outlook(
        self, queue: TeamQueue, user_queue: UserQueue
    ) -> tuple[int, Code | None, int | None]:
        """Return how the next job of `user_queue` would be served.

        These are the node on whose guarantee it draws, the reason why it cannot start now (None: it
        can), and the node whose guarantee sets its position. The last is None for a job that has no
        chance in this cycle.
        """
        source = self.pool.source(queue.team, user_queue.cls.shape.total_mgpu)
        code = self._obstacles.of(queue, user_queue, source)
        if code is None or self._may_reclaim(queue, user_queue, code, source):
            return source, code, source
        if self._may_reserve(queue, user_queue, code):
            return (
                source,
                code,
                self._blocked_order.source_of(queue.team, user_queue.cls.shape.total_mgpu, source),
            )
        return source, code, None

    def _may_reserve(self, queue: TeamQueue, user_queue: UserQueue, code: Code) -> bool:
        """Return whether the blocked next job of `user_queue` may get a reservation."""
        return (
            code in _MAY_RESERVE
            and user_queue.cls.may_reserve
            and self.reserved.may_reserve(
                queue.team, user_queue.cls.shape, user_queue.cls.priority.id
            )
        )

    def _start(self, queue: TeamQueue, user_queue: UserQueue, source: int) -> None:
        team, cls = queue.team, user_queue.cls
        job, shape, is_own = self.jobs[user_queue.job[1]], cls.shape, source == team
        if is_own and is_elastic(job):
            job, shape = self._elastic.sized(job, team)
        place = self.reserved.find(job, team, shape, source)
        assert place is not None
        if self._explains and not is_own:
            self.spare_taken.add(source, self._position_of(team, source), team, job.mgpu)
        slots = self.pool.start(job, team, place)
        self._reclaimer.note_taken(place.cluster, slots)
        self.reserved.note_start(job, team, place.cluster, slots)
        self._note_start(job, team, cls.priority, place)
        self._charge(team, job, is_borrowed=not is_own)
        queue.advance()
        self._renew(team)

    def _note_start(self, job: QueuedJob, team: int, priority: Priority, place: Place) -> None:
        self.starts.append(NewStart(job, team, priority.order, place))
        self._left.starts -= 1
        self._grows |= is_elastic(job)

    def _charge(self, team: int, job: QueuedJob, *, is_borrowed: bool) -> None:
        """Charge a start or a claim at once: its use of the first hour, and the credits for it."""
        cls = self.pool.config.classes.get(job.priority_class)
        self.shares.charge_start(team, job.user, counted_mgpu(job.mgpu, cls))
        if is_borrowed:
            self.pool.hold_credits(team, job.mgpu)

    def _may_reclaim(
        self, queue: TeamQueue, user_queue: UserQueue, code: Code, source: int
    ) -> bool:
        """Return whether the blocked next job of `user_queue` may look for victims."""
        priority = user_queue.cls.priority
        return (
            code is Code.WAITING_FOR_FREE_GPUS
            and self._left.reclaims > 0
            and (source != ROOT or priority.preempts or priority.preempts_others)
            and self._reclaimer.may_find(queue.team, priority)
            and user_queue.job[1] not in self._not_again
        )

    def _reclaim(
        self, queue: TeamQueue, user_queue: UserQueue, code: Code, source: int
    ) -> Code | None:
        """Reclaim GPUs for the next job of `user_queue`, which waits because of `code`.

        Return None on success. Otherwise return why it still waits: no victims free enough, or it
        would delay another job.
        """
        pool, team, cls = self.pool, queue.team, user_queue.cls
        if not self._may_reclaim(
            queue, user_queue, code, source
        ) or not self._prospects.may_look_for_victims(team, cls.shape, cls.priority):
            return code
        job, mgpu = self.jobs[user_queue.job[1]], cls.shape.total_mgpu
        with self.reserved.set_aside(job, team, mgpu, source) as barred:
            taking = self._reclaimer.find(team, cls.shape, cls.priority, barred)
        if taking is None:
            return (
                Code.RESERVED_FOR_LARGER_JOB
                if self._is_held_up(queue, user_queue, source)
                else code
            )
        late = pool.taken_at + self.reserved.back_s()
        if pool.config.windows.meets(taking.place, job.time_limit_s, late):
            # It would wait for its victims until its end is too late.
            return code
        holdings = [one.holding for one in taking.victims]
        if self.reserved.claim_delays(job, team, holdings):
            return code
        if self.reserved.claim_takes_quota(job, team, source, holdings):
            return Code.RESERVED_FOR_LARGER_JOB
        victims = [one for one in holdings if one.claim_of is None]
        if len(victims) < len(holdings):
            self._give_up([one for one in holdings if one.claim_of is not None])
            source = pool.source(team, user_queue.cls.shape.total_mgpu)
            if not victims and self._obstacles.of(queue, user_queue, source) is None:
                self._start(queue, user_queue, source)
                return None
        why = by_credits(pool, team, mgpu, victims)
        self.reclaims.append(pool.reclaim(job, team, taking.place, victims, why))
        claim = pool.earmarks[job.id].claim
        self._reclaimer.note_taken(claim.cluster, claim.slots)
        self.reserved.note_claim(pool.earmarks[job.id])
        self._left.reclaims -= 1
        self._charge(team, job, is_borrowed=source != team)
        queue.advance()
        self._renew(team)
        self._prospects.look_out(self.reserved)
        for victim in victims:
            self._renew(victim.team)
            self._enlist_anew(victim.team)
        return None

    def _is_held_up(self, queue: TeamQueue, user_queue: UserQueue, source: int) -> bool:
        """Return whether only reservations that it would delay prevent a reclaim for the next job.

        Each check is a search, so it returns False after a fixed number of checks in a cycle.
        """
        team, cls = queue.team, user_queue.cls
        job = self.jobs[user_queue.job[1]]
        if self._questions_left <= 0 or self.reserved.longest_of_claim_s(job, team, source) is None:
            return False
        self._questions_left -= 1
        with self.reserved.set_aside_nothing():
            return self._reclaimer.could_find(team, cls.shape, cls.priority)

    def _give_up(self, claims: Sequence[Holding]) -> None:
        """Drop these claims; their jobs wait without them and make no new one in this cycle."""
        for one in claims:
            self.pool.give_up(one)
        self.reserved.note_gone(claims)
        self._not_again.update(one.run.job for one in claims)
        self._has_more_free = True

    def _renew(self, team: int) -> None:
        """Update the position of jobs that draw on the path of `team`, whose protected use changed.

        These may be jobs of the nodes above the team themselves.
        """
        path = self.pool.tree.paths[team]
        agenda = self._agenda
        drawn_on = agenda.drawn_on
        if drawn_on:
            for node in path:
                if node in drawn_on:
                    agenda.refresh(node, self.pool.ratio(node))
        for node in path[1:]:
            if node in self.queues and node not in self._unseen:
                self._enlist_anew(node)

    def _enlist_anew(self, team: int) -> None:
        """Enlist the team's next job at its current position, or for the first time."""
        if team in self._unseen:
            self._unseen.remove(team)
            self._enlist(self.queues[team])
        elif self._agenda.withdraw(team):
            self._enlist(self.queues[team])

    # -- account --------------------------------------------------------------------------

    @property
    def homeless(self) -> list[Age]:
        """Return the jobs of unknown teams, the oldest first."""
        return sorted(self._pending.homeless(self._settled))
