"""The reason why each job of a pool still waits after a cycle (R-85)."""

from __future__ import annotations

from itertools import compress, count, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from arbiter.api.plan import Code, Waiting
from arbiter.backfill.start_estimates import Foresight
from arbiter.cache.claims import Earmark, in_order_of_grace
from arbiter.cycle.service_position import position_of
from arbiter.explain.credit_order import RicherAhead
from arbiter.explain.reasons import Reason, Reasons, of_claimed
from arbiter.explain.usage import InUse
from arbiter.queue.order import Age, Position
from arbiter.queue.service_order import ServiceOrder

if TYPE_CHECKING:
    from arbiter.cycle.pool_cycle import PoolCycle

#: Codes of jobs outside the order of service, because they cannot start at all.
_OUTSIDE_OF_ORDER = frozenset((Code.NEVER_FITS, Code.CLUSTER_UNAVAILABLE, Code.MAINTENANCE))

#: Codes of jobs that take GPUs as soon as enough come free.
_TAKES_WHAT_COMES_FREE = frozenset(
    (
        Code.WAITING_FOR_FREE_GPUS,
        Code.BEHIND_CREDITS,
        Code.BEHIND_FAIR_SHARE,
        Code.TOPOLOGY_FRAGMENTED,
    )
)

#: The usual values of the fields after `jobs_ahead`.
_REST = Waiting("", Code.NEVER_FITS)[5:]


class Explained(NamedTuple):
    """The reason why each job of a pool waits, and the requested milli-GPU by team."""

    reasons: list[Waiting]
    waiting_mgpu: dict[int, int]


def explain(cycle: PoolCycle, used: InUse) -> Explained:
    """Return why each job still waits.

    Claimed jobs come first, then the jobs in the order of service, then those that cannot start at
    all. `used` is the use after the cycle.
    """
    explained: list[Waiting] = []
    claimed_mgpu: dict[int, int] = {}
    for earmark in in_order_of_grace(cycle.pool.earmarks.values()):
        explained.append(_explain_claimed(cycle, earmark, len(explained)))
        claimed_mgpu[earmark.team] = claimed_mgpu.get(earmark.team, 0) + earmark.job.mgpu
    batches = _Batches(cycle, used, claimed_mgpu)
    for team in sorted(cycle.queues):
        batches.add_queue(team)
    explained += batches.explained(len(explained))
    for _, job in cycle.homeless:
        numbers = {"need_mgpu": cycle.jobs[job].mgpu, "could_ever_mgpu": 0}
        explained.append(Waiting(job, Code.NEVER_FITS, numbers))
    return Explained(explained, batches.waiting_mgpu)


class _Batches:
    """The queued jobs in batches that share one reason and one position.

    The jobs of one `UserQueue` are one batch, except jobs that would delay a reservation.
    """

    def __init__(self, cycle: PoolCycle, used: InUse, waiting_mgpu: dict[int, int]) -> None:
        """Start with the use after the cycle and the requests of jobs outside the queues."""
        self.waiting_mgpu = waiting_mgpu
        self._cycle = cycle
        self._reasons = Reasons(cycle.pool, cycle.spare_taken, used)
        self._order = ServiceOrder()
        #: The reason of each batch in the order, and the jobs outside the order with their reasons.
        self._of_batches: list[Reason] = []
        self._hopeless: list[tuple[Age, Reason]] = []
        #: The batches that wait for free GPUs: number, position, fair-share and team of each.
        self._borrowing: list[tuple[int, Position, tuple[int, ...], int]] = []
        self._richer = RicherAhead(cycle.pool.tree) if cycle.pool.credits.are_any else None
        #: The batches of teams with reservations.
        self._reserving: set[int] = set()
        self._may_reserve = {one.team for one in cycle.reserved.reserved_jobs}
        self._foresight = Foresight(cycle.pool, cycle.reserved.reserved_jobs, cycle.reserved.ends())

    def add_queue(self, team: int) -> None:
        """Add the queued jobs of a team."""
        cycle, order, reasons = self._cycle, self._order, self._reasons
        shares = cycle.shares
        asked_mgpu, first = self.waiting_mgpu.get(team, 0), len(self._of_batches)
        positions: dict[int, tuple[Position, tuple[int, ...]]] = {}

        def position_at(node: int) -> tuple[Position, tuple[int, ...]]:
            found = positions.get(node)
            if found is None:
                position = position_of(cycle.pool, team, node)
                found = positions[node] = position, position.with_loads(shares.order(team))
            return found

        for cls in cycle.queues[team].classes:
            count_waiting = sum([user_queue.waiting_count for user_queue in cls.user_queues])
            if not count_waiting:
                continue
            need_mgpu = cls.shape.total_mgpu
            asked_mgpu += need_mgpu * count_waiting
            if cls.code in _OUTSIDE_OF_ORDER:
                why = reasons.hopeless(cls)
                for user_queue in cls.user_queues:
                    self._hopeless += [(job, why) for job in user_queue.jobs[user_queue.at :]]
                continue
            source = cycle.pool.source(team, need_mgpu)
            position, level = position_at(source)
            # It is served on a lower guarantee once enough of that has come free.
            serving_nodes = [self._foresight.serving_node(team, need_mgpu, source)]
            if cls.serving_node is not None:
                serving_nodes.append(cls.serving_node)
            serving_node = min(serving_nodes, key=lambda node: cycle.pool.tree.level(node, team))
            placed = position
            if serving_node != source:
                placed, level = position_at(serving_node)
            reason = None if cls.code is None else reasons.of(team, cls, source, position)
            for user_queue in cls.user_queues:
                used = shares.of_user(team, user_queue.user)
                if reason is not None and user_queue.at < len(user_queue.jobs):
                    jobs = user_queue.jobs[user_queue.at :] if user_queue.at else user_queue.jobs
                    order.add(cls.priority.order, used, jobs, level)
                    self._note_credits(reason, placed, team)
                    self._of_batches.append(reason)
                    self._foresight.add_batch(team, cls.shape, len(jobs), source)
                if user_queue.refused:
                    order.add(cls.priority.order, used, sorted(user_queue.refused), level)
                    self._of_batches.append(reasons.reserved(cls))
                    count = len(user_queue.refused)
                    self._foresight.add_batch(team, cls.shape, count, source)
        self.waiting_mgpu[team] = asked_mgpu
        if team in self._may_reserve:
            self._reserving.update(range(first, len(self._of_batches)))
        order.end_team()

    def _note_credits(self, reason: Reason, position: Position, team: int) -> None:
        """Note a batch that takes what comes free, where credits may decide between teams."""
        if self._richer is None or reason.code not in _TAKES_WHAT_COMES_FREE:
            return
        loads = self._cycle.shares.order(team)
        self._richer.add(position, loads, team)
        if reason.code is Code.WAITING_FOR_FREE_GPUS:
            self._borrowing.append((len(self._of_batches), position, loads, team))

    def _name_richer_teams(self) -> None:
        """Give the reason BEHIND_CREDITS to jobs that wait for what a richer team takes first."""
        if self._richer is None:
            return
        for at, position, loads, team in self._borrowing:
            richer = self._richer.before(position, loads, team)
            if richer is not None:
                numbers = self._of_batches[at].numbers
                self._of_batches[at] = self._reasons.behind(team, richer, numbers)

    def explained(self, ahead: int) -> list[Waiting]:
        """Return why each of the jobs waits; `ahead` other jobs come before them."""
        self._name_richer_teams()
        jobs, batches = self._order.merged()
        codes, numbers, nodes = zip(*self._of_batches, strict=True) if jobs else ((), (), ())
        rows = zip(
            map(itemgetter(1), jobs),
            map(codes.__getitem__, batches),
            map(numbers.__getitem__, batches),
            map(nodes.__getitem__, batches),
            count(ahead),
            *map(repeat, _REST),
        )
        # A cycle makes 100,000, and calling the class costs twice as much.
        explained = list(map(tuple.__new__, repeat(Waiting), rows))
        latest = self._foresight.latest(jobs, batches)
        for at in compress(count(), map(self._reserving.__contains__, batches)):
            if (job := explained[at].job) in latest:
                explained[at] = explained[at]._replace(latest=latest[job], method="time_limits")
        self._hopeless.sort(key=itemgetter(0))
        explained += [Waiting(job, *reason) for (_, job), reason in self._hopeless]
        return explained


def _explain_claimed(cycle: PoolCycle, earmark: Earmark, ahead: int) -> Waiting:
    reason, taken_at = of_claimed(cycle.pool, earmark), cycle.pool.taken_at
    explained = Waiting(earmark.job.id, reason.code, reason.numbers, jobs_ahead=ahead)
    latest = earmark.claim.grace_until
    if latest < taken_at:
        # Its GPUs are overdue, so there is no estimate.
        return explained
    return explained._replace(earliest=taken_at, latest=latest, method="reclaim")
