"""The decisions of one cycle in one pool, in the order of service."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from arbiter.api.plan import Code, Reclaim
from arbiter.api.policy import Budget, SpareOrder
from arbiter.api.snapshot import QueuedJob
from arbiter.backfill.reservations import Reservations, Reserved
from arbiter.backfill.team_limits import Kept
from arbiter.cache.claims import Earmark
from arbiter.cache.pool import Pool
from arbiter.cache.pool_config import Ground
from arbiter.cache.running import Holding
from arbiter.cycle.claimed_starts import use_claims
from arbiter.cycle.elastic import Elastic, is_elastic
from arbiter.cycle.prospects import Prospects, limit_s
from arbiter.explain.reasons import Spared
from arbiter.explain.usage import NewStart
from arbiter.fairshare.fair_tree import FairShares
from arbiter.placement.free_devices import Place
from arbiter.preemption.reclaim import Reclaimer
from arbiter.queue.blocked_order import BlockedOrder
from arbiter.queue.order import Age, Agenda, JobClass, JobLine, Priority, Standing, TeamQueue
from arbiter.queue.pending import Lines
from arbiter.quota.tree import ROOT

#: So many times a cycle it is asked whether only reservations keep a job from a claim.
_QUESTIONS_MAX = 32
#: Codes of jobs that may hold a reservation.
_MAY_RESERVE = frozenset((Code.WAITING_FOR_FREE_GPUS, Code.RESERVED_FOR_LARGER_JOB))


@dataclass(frozen=True, slots=True)
class SharedJobs:
    """What the cycle of one pool has to know of the jobs that accept other pools too.

    `absent` ones are not in line here. `only_starts` are served in another pool: here they may
    start in their turn, and nobody notices them otherwise. `not_again` had a claim when the cycle
    began and make no new one. `reserves` tells of a job whether this is the pool for reservations.
    """

    absent: frozenset[str] = frozenset()
    only_starts: frozenset[str] = frozenset()
    not_again: frozenset[str] = frozenset()
    reserves: Callable[[QueuedJob], bool] = field(default=lambda job: True)


class PoolCycle:
    """The decisions of one cycle in one pool."""

    def __init__(
        self,
        pool: Pool,
        lines: Lines,
        make_shares: Callable[[Ground], FairShares],
        *,
        budget: Budget,
        explains: bool,
        shared: SharedJobs,
    ) -> None:
        """`make_shares` is called at the first question about fair-share. `explains`: somebody may
        ask why the others wait."""
        self.pool = pool
        self._make_shares = make_shares
        self.starts: list[NewStart] = []
        self.reclaims: list[Reclaim] = []
        self._left = replace(budget)
        #: How often it may yet be asked whether only reservations keep a job from a claim.
        self._questions_left = _QUESTIONS_MAX
        self.jobs = lines.jobs
        self._lines = lines
        self.queues = lines.queues
        self._settled: Collection[str] = ()
        #: Teams whose queues nobody has looked at, and the ratios of guarantees with the teams that
        #: they are of (others, too), the lowest last.
        self._unseen: set[int] = set()
        self._expected: list[tuple[int, list[int]]] = []
        self._not_again = {*shared.not_again, *pool.dropped}
        self._shared = shared
        self._only_starts = shared.only_starts
        self.reserved = Reservations(pool)
        self._explains = explains
        self._service: Iterator[None] = self._serve_all()
        #: Whether a start may still grow.
        self._grows = False
        #: Whether a claim was given up since everybody was looked at.
        self._has_more_room = False
        self._blocked_order = BlockedOrder(pool.tree, pool.guarantees)
        #: Made at the first question.
        self._shares: FairShares | None = None
        self._spared: Spared | None = None
        self._agenda_now: Agenda | None = None
        self._elastic_now: Elastic | None = None

    @property
    def shares(self) -> FairShares:
        """Where the nodes and users of the pool stand."""
        if self._shares is None:
            self._shares = self._make_shares(self.pool.ground)
        return self._shares

    @property
    def spared(self) -> Spared:
        """What starts took beyond their teams' guarantees."""
        if self._spared is None:
            self._spared = Spared(self.shares)
        return self._spared

    @property
    def _agenda(self) -> Agenda:
        if self._agenda_now is None:
            self._agenda_now = Agenda(self.shares, self.standing)
        return self._agenda_now

    @property
    def _elastic(self) -> Elastic:
        if self._elastic_now is None:
            self._elastic_now = Elastic(self.pool, self.reserved, self.shares, self.queues)
        return self._elastic_now

    def run(self) -> None:
        """Start what is claimed, then serve the queues in order, as long as anybody could still
        start or take anything back."""
        used = self._use_claims()
        self._reclaimer = Reclaimer(self.pool, self.reserved.held)
        self._prospects = Prospects(
            self.pool, self._lines, self._left, self._reclaimer, self.reserved
        )
        # Where nobody could be served, nothing that is lined up or charged could be seen.
        if not self._explains and not self._grows and not self._prospects.may_be_any():
            return
        for earmark in (*used, *self.pool.earmarks.values()):
            self._charge(earmark.team, earmark.job, is_borrowed=self.pool.is_borrowed(earmark))
        self._line_up()
        self._expect()
        self._prospects.look_out(self.reserved)
        self._serve_prospects()
        if self._left.starts > 0 and self._left.reclaims > 0:
            self._elastic.grow_all(self.starts, self.standing, self._charge)

    def _serve_prospects(self) -> None:
        """Serve the queues in order, as long as anybody has prospects, or a start may grow."""
        for _ in self._service:
            if not self._grows and not self._prospects.are_any():
                break

    def finish(self) -> None:
        """Serve all the others, of whom no decision is left but why each waits, and who of them
        holds a reservation."""
        for _ in self._service:
            pass
        self.reserved.release()
        if self._only_starts:
            self._forget_the_served()

    def close(self) -> None:
        """The cycle is over: the pool is as it was before it. Nothing here is known by itself any
        more, so that all of it goes at once and not when garbage is collected."""
        self.pool.close()
        self._service = iter(())
        self.reserved.limits.close()
        self._agenda_now = None

    def _forget_the_served(self) -> None:
        """Who is served in another pool waits in no line any more."""
        for team, queue in self.queues.items():
            self._lines.touch(team)
            for cls in queue.classes:
                for line in cls.lines:
                    waiting = line.jobs[line.at :]
                    line.jobs = [age for age in waiting if age[1] not in self._only_starts]
                    line.at = 0
                    line.refused = [age for age in line.refused if age[1] not in self._only_starts]

    # -- claims ---------------------------------------------------------------------------

    def _use_claims(self) -> list[Earmark]:
        """Start what is claimed and free; returns the claims of what starts."""
        used = use_claims(self.pool, self._left.starts)
        for earmark, place, _ in used:
            priority = self.pool.ground.priority(earmark.job.priority_class)
            self._note_start(earmark.job, earmark.team, priority, place)
        # Only now is it known which claims are left, whose ends reservations count on too.
        for earmark, place, slots in used:
            self.reserved.note_start(earmark.job, earmark.team, place.cluster, slots)
        return [earmark for earmark, _, _ in used]

    # -- queues ---------------------------------------------------------------------------

    def _line_up(self) -> None:
        """Line the waiting jobs up in team queues, and set aside what cannot start anyway."""
        settled = {start.job.id for start in self.starts}
        self._settled = settled.union(self.pool.earmarks, self._shared.absent)
        self._lines.line_up(
            self.pool.ground.group_of, self._settled, self.shares, self._shared.reserves
        )

    # -- service --------------------------------------------------------------------------

    def _enlist(self, queue: TeamQueue) -> None:
        """Put the team's next job on the agenda; what has no chance any more fails here.

        That spares most jobs of a full pool the agenda: room only shrinks within a cycle.
        """
        team = queue.team
        while (line := queue.head()) is not None:
            source, code, turn = self._outlook(queue, line)
            if turn is not None:
                self._agenda.enlist(turn, line.job, team)
                return
            self._lines.touch(team)
            if self._only_starts and line.job[1] in self._only_starts:
                queue.advance()
            else:
                assert code is not None
                self._fail(queue, line, code, source)

    def _expect(self) -> None:
        """All queues are still to be looked at, in the order of the most that could be said of any:
        that its next job draws on its team's own guarantee."""
        self._unseen = set(self.queues)
        self._expected = sorted(self.pool.by_ratio(self.queues).items(), reverse=True)

    def _next(self) -> tuple[int, int] | None:
        """Whose turn it is, and what that draws on. Who cannot come before somebody on the agenda
        is not looked at yet: often nothing is left for them when they could."""
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

    def _serve_all(self) -> Iterator[None]:
        """Serve the queues in order. Stops after every job that does not start, and before a
        reservation is made, as that costs most: the rest may be only to be told."""
        while (served := self._next()) is not None:
            turn, team = served
            count = len(self.starts)
            yield from self._serve(turn, self.queues[team])
            if self._has_more_room:
                self._begin_anew()
            if len(self.starts) == count:
                yield

    def _begin_anew(self) -> None:
        """Claims were given up: what that leaves is there for everybody, so that all who wait are
        looked at again, in order, and what was reserved is reserved anew."""
        self._has_more_room = False
        self.reserved.release()
        self.reserved = Reservations(self.pool)
        self._reclaimer.held = self.reserved.held
        for start in self.starts:
            slots = self.pool.held_by(start.job, start.place)
            self.reserved.note_start(start.job, start.team, start.place.cluster, slots)
        self._agenda_now = self._elastic_now = None
        self._line_up()
        self._expect()
        self._prospects.look_out(self.reserved)

    def _serve(self, enlisted_for: int, queue: TeamQueue) -> Iterator[None]:
        """Settle the team's next job, unless it lost the guarantee it was enlisted for."""
        team = queue.team
        self._lines.touch(team)
        line = queue.head()
        if line is None:
            return
        source, code, turn = self._outlook(queue, line)
        if turn == enlisted_for:
            if code is None:
                self._start(queue, line, source)
            elif line.job[1] in self._only_starts:
                queue.advance()
            elif (code := self._reclaim(queue, line, code, source)) is not None:
                may_reserve = self._may_reserve(queue, line, code)
                if code is not Code.RESERVED_FOR_LARGER_JOB:
                    line.cls.code = code
                if may_reserve:
                    yield
                    job = self.jobs[line.job[1]]
                    line.cls.turn = turn
                    self.reserved.reserve(job, team, line.cls.shape, source)
                self._fail(queue, line, code, source)
        self._enlist(queue)

    def _outlook(self, queue: TeamQueue, line: JobLine) -> tuple[int, Code | None, int | None]:
        """What the next job of `line` draws on, why it cannot start now (None: it can), and on
        whose guarantee it has its turn (None: on nobody's, it has no chance any more)."""
        source = self.pool.source(queue.team, line.cls.shape.total_mgpu)
        code = self._obstacle(queue, line, source)
        if code is None or self._may_reclaim(queue, line, code, source):
            return source, code, source
        if self._may_reserve(queue, line, code):
            return (
                source,
                code,
                self._blocked_order.source_of(queue.team, line.cls.shape.total_mgpu, source),
            )
        return source, code, None

    def standing(self, team: int, source: int) -> Standing:
        ratio = self.pool.ratio(source)
        if source == team:
            return Standing(0, ratio)
        tree = self.pool.tree
        level = tree.level(source, team)
        order = tree.given[tree.paths[team][-1]].spare_order or self.pool.policy.spare_order
        minus_credits = -self.pool.credits.tenths(team) if order is not SpareOrder.FAIR_SHARE else 0
        if order is SpareOrder.FAIR_SHARE_THEN_CREDITS:
            return Standing(level, ratio, -tree.ranks[team], 0, minus_credits)
        return Standing(level, ratio, -tree.ranks[team], minus_credits)

    def _obstacle(self, queue: TeamQueue, line: JobLine, source: int) -> Code | None:
        """Why the next job of `line` cannot start now, or None when it can.

        WAITING_FOR_FREE_GPUS stands for all that quota and devices refuse.
        """
        cls = line.cls
        pool, team, mgpu = self.pool, queue.team, cls.shape.total_mgpu
        cap = cls.priority.cap_mgpu
        if cap is not None and mgpu > cap - pool.class_use.get((team, cls.priority.id), 0):
            return Code.CLASS_CAP_REACHED
        if queue.blocked_mgpu and not pool.guarantees.fits(team, team, queue.blocked_mgpu + mgpu):
            return Code.BEHIND_HIGHER_PRIORITY
        at = pool.blocker(team, mgpu)
        if at is not None or not self.reserved.fits(cls.shape):
            if at != team and self._may_not_claim(queue, line):
                return Code.BEHIND_HIGHER_PRIORITY
            return Code.WAITING_FOR_FREE_GPUS
        if self._kept_from(queue, line) is not None:
            return Code.RESERVED_FOR_LARGER_JOB
        if self.reserved.made and self._delays(queue, cls, source)(line.job):
            return Code.RESERVED_FOR_LARGER_JOB
        if self._left.starts <= 0:
            return Code.BEHIND_FAIR_SHARE
        return None

    def _kept_from(self, queue: TeamQueue, line: JobLine) -> Kept | None:
        """For whom of its team room is kept that the next job of `line` would take."""
        limits, cls = self.reserved.limits, line.cls
        if queue.team not in limits:
            return None
        mgpu = cls.shape.total_mgpu
        longest_s, kept = limits.longest_s(queue.team, mgpu, cls.priority.id)
        return kept if longest_s < limit_s(self.jobs, line.job) else None

    def _may_not_claim(self, queue: TeamQueue, line: JobLine) -> bool:
        """Whether GPUs that were taken back for the next job of `line` would be in the way of one
        of its team that comes first. Who may stop others of its team is asked once it is known
        whom."""
        return (
            queue.team in self.reserved.limits
            and not line.cls.priority.preempts
            and self.reserved.claim_delays(self.jobs[line.job[1]], queue.team)
        )

    def _delays(self, queue: TeamQueue, cls: JobClass, source: int) -> Callable[[Age], bool]:
        """Which jobs of `cls`, which fits now, would delay one for whom something is kept: as they
        may run longer than it allows, or have no time limit."""
        longest_s, _ = self.reserved.longest_s(queue.team, cls.shape, cls.priority.id, source)
        return self._longer_than(longest_s)

    def _longer_than(self, longest_s: int) -> Callable[[Age], bool]:
        def is_too_long(job: Age) -> bool:
            return longest_s < limit_s(self.jobs, job)

        return is_too_long

    def _may_reserve(self, queue: TeamQueue, line: JobLine, code: Code) -> bool:
        """Whether the next job of `line`, which cannot start, may get a reservation."""
        return (
            code in _MAY_RESERVE
            and line.cls.may_reserve
            and self.reserved.may_reserve(queue.team, line.cls.shape, line.cls.priority.id)
            and line.job[1] not in self._only_starts
        )

    def _start(self, queue: TeamQueue, line: JobLine, source: int) -> None:
        team, cls = queue.team, line.cls
        job, shape, is_own = self.jobs[line.job[1]], cls.shape, source == team
        if is_own and is_elastic(job):
            job, shape = self._elastic.sized(job, team)
        place = self.reserved.find(job, team, shape, source)
        assert place is not None
        if self._explains and not is_own:
            self.spared.add(source, self.standing(team, source), team, job.mgpu)
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
        """What starts, or is promised its GPUs, counts as used for the first hour at once, and
        holds the credits for it."""
        self.shares.charge_start(team, job.user, job.mgpu)
        if is_borrowed:
            self.pool.hold_credits(team, job.mgpu)

    def _may_reclaim(self, queue: TeamQueue, line: JobLine, code: Code, source: int) -> bool:
        """Whether the next job of `line`, which cannot start, may look for victims."""
        priority = line.cls.priority
        return (
            code is Code.WAITING_FOR_FREE_GPUS
            and self._left.reclaims > 0
            and (source != ROOT or priority.preempts or priority.preempts_others)
            and self._reclaimer.may_find(queue.team, priority)
            and line.job[1] not in self._not_again
            and line.job[1] not in self._only_starts
        )

    def _reclaim(self, queue: TeamQueue, line: JobLine, code: Code, source: int) -> Code | None:
        """Take GPUs back for the next job of `line`, which waits by `code` (None: done); else why
        it goes on waiting, as no victims make room for it or it would delay another one."""
        pool, team, cls = self.pool, queue.team, line.cls
        if not self._may_reclaim(
            queue, line, code, source
        ) or not self._prospects.may_look_for_victims(team, cls.shape, cls.priority):
            return code
        job, mgpu = self.jobs[line.job[1]], cls.shape.total_mgpu
        with self.reserved.set_aside(job, team, mgpu, source) as barred:
            taking = self._reclaimer.find(team, cls.shape, cls.priority, barred)
        if taking is None:
            return Code.RESERVED_FOR_LARGER_JOB if self._is_held_up(queue, line, source) else code
        holdings = [one.holding for one in taking.victims]
        if self.reserved.claim_delays(job, team, holdings):
            return code
        if self.reserved.claim_takes_quota(job, team, source, holdings):
            return Code.RESERVED_FOR_LARGER_JOB
        victims = [one for one in holdings if one.claim_of is None]
        if len(victims) < len(holdings):
            self._give_up([one for one in holdings if one.claim_of is not None])
            source = pool.source(team, line.cls.shape.total_mgpu)
            if not victims and self._obstacle(queue, line, source) is None:
                self._start(queue, line, source)
                return None
        self.reclaims.append(pool.reclaim(job, team, taking.place, victims))
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

    def _is_held_up(self, queue: TeamQueue, line: JobLine, source: int) -> bool:
        """Whether GPUs could be taken back for the next job of `line` but for reservations that it
        would delay; not after so many questions in a cycle, as each is a search."""
        team, cls = queue.team, line.cls
        job = self.jobs[line.job[1]]
        if self._questions_left <= 0 or self.reserved.longest_of_claim_s(job, team, source) is None:
            return False
        self._questions_left -= 1
        with self.reserved.set_aside_nothing():
            return self._reclaimer.could_find(team, cls.shape, cls.priority)

    def _give_up(self, claims: Sequence[Holding]) -> None:
        """The jobs of these claims wait without them, and make no new ones in this cycle."""
        for one in claims:
            self.pool.give_up(one)
        self.reserved.note_gone(claims)
        self._not_again.update(one.run.job for one in claims)
        self._has_more_room = True

    def _renew(self, team: int) -> None:
        """The protected use on the team's path changed: renew the standing of who draws on it, be
        it jobs of the nodes above themselves."""
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
        """The team's next job may stand elsewhere than it was enlisted for, or is yet to be."""
        if team in self._unseen:
            self._unseen.remove(team)
            self._enlist(self.queues[team])
        elif self._agenda.withdraw(team):
            self._enlist(self.queues[team])

    def _fail(self, queue: TeamQueue, line: JobLine, code: Code, source: int) -> None:
        """Nobody of the class of `line` starts in this cycle, or nobody who would delay a
        reservation; in a strict queue nobody behind it either.

        A job that fits in its team's guarantee keeps its place in it, unless it would start no
        sooner if those behind it waited, too: it waits for one of its team that comes first, or
        for GPUs that nobody could give back and of which nobody knows when they come free.
        """
        cls, keeps_place = line.cls, source == queue.team
        if code is Code.RESERVED_FOR_LARGER_JOB:
            keeps_place &= not self._refuse(queue, line, source)
        else:
            cls.code = code
        if cls.may_reserve:
            self._keep_in_limits(queue, line, code)
        if code is Code.CLASS_CAP_REACHED:
            return
        if code is Code.WAITING_FOR_FREE_GPUS:
            keeps_place = keeps_place and self._may_get_gpus(line)
        if keeps_place and code is not Code.BEHIND_HIGHER_PRIORITY:
            queue.blocked_mgpu += cls.shape.total_mgpu
        if not self._skips_blocked(queue.team):
            for behind in queue.classes:
                if behind.code is None:
                    behind.code = Code.BEHIND_HIGHER_PRIORITY

    def _may_get_gpus(self, line: JobLine) -> bool:
        """Whether the next job of `line`, which cannot start, is to have its GPUs at a time that is
        known, or could have them now if all that is borrowed were gone, or may yet look in another
        cycle whom of lower class to stop for them."""
        job, shape, priority = line.job[1], line.cls.shape, line.cls.priority
        if self._reclaimer.could_be_freed(shape) or self.reserved.knows_when(job, shape):
            return True
        is_over = self._left.reclaims <= 0 or job in self._not_again
        return is_over and (priority.preempts or priority.preempts_others)

    def _keep_in_limits(self, queue: TeamQueue, line: JobLine, code: Code) -> None:
        """Keep room for the next job of `line` where its own team's limits refuse it."""
        team, by_cap = queue.team, code is Code.CLASS_CAP_REACHED
        shape = line.cls.shape
        if by_cap or (
            code is Code.WAITING_FOR_FREE_GPUS and self.pool.is_at_limit(team, shape.total_mgpu)
        ):
            has_place = self.reserved.fits(shape) or self._reclaimer.could_be_freed(shape)
            job = self.jobs[line.job[1]]
            self.reserved.limits.refuse(job, team, shape, has_place=has_place)

    def _skips_blocked(self, team: int) -> bool:
        tree, for_all = self.pool.tree, self.pool.policy.skips_blocked_within_team
        given = tree.given[tree.paths[team][-1]].skips_blocked_within_team
        return for_all if given is None else given

    def _refuse(self, queue: TeamQueue, line: JobLine, source: int) -> bool:
        """Set aside those of the class of `line`, and its next job among them, who would delay one
        for whom something is kept; whether that is in their own team's limits alone."""
        reserved, cls, team = self.reserved, line.cls, queue.team
        mgpu, class_id = cls.shape.total_mgpu, cls.priority.id
        kept = self._kept_from(queue, line)
        longest: tuple[int, Reserved | Kept | None] | None
        if kept is not None:
            longest = reserved.limits.longest_s(team, mgpu, class_id)
        elif self.pool.blocker(team, mgpu) is None and reserved.fits(cls.shape):
            longest = reserved.longest_s(team, cls.shape, class_id, source)
        else:
            longest = reserved.longest_of_claim_s(self.jobs[line.job[1]], team, source)
        assert longest is not None
        longest_s, first = longest
        assert first is not None
        cls.reserved = first.job.mgpu, first.start_at
        queue.refuse(cls, self._longer_than(longest_s))
        return kept is not None

    # -- account --------------------------------------------------------------------------

    @property
    def homeless(self) -> list[Age]:
        """The jobs of unknown teams, the oldest first."""
        return sorted(self._lines.homeless(self._settled))
