"""Which claims of a cycle others would take in the next: who is stopped for them would be stopped
for nothing (R-65).

A claim that draws on more than its team's own guarantee yields to a right further down the tree.
Who has such a right comes first in the order of service, but may wait behind others of its own
team, may have found nobody to stop before this claim was made, or is itself being stopped and waits
again. And a claim on the own guarantee is lost where another of its team takes its place in that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from arbiter.earmarks import Earmark
from arbiter.holdings import Holding
from arbiter.placement import Shape
from arbiter.pool import Pool
from arbiter.queue_order import Priority
from arbiter.quota_tree import ROOT
from arbiter.reclaim import Reclaimer
from arbiter.reservations import Reservations
from arbiter.rooms import is_beside
from arbiter.snapshot import QueuedJob
from arbiter.sparing import Made
from arbiter.standing import NewStart, protection_after


class Rival(NamedTuple):
    """A job that waits, or will once it is stopped."""

    job: QueuedJob
    team: int
    shape: Shape
    priority: Priority


def exposed_among(made: Iterable[Made]) -> dict[str, Earmark]:
    """Those claims of a cycle, by their jobs, for which somebody is stopped and which others than
    their teams may have a right to take."""
    return {
        one.earmark.job.id: one.earmark
        for one in made
        if one.earmark.victims and one.source != one.earmark.team
    }


def in_the_way(pool: Pool, made: Sequence[Made], starts: Sequence[NewStart]) -> frozenset[str]:
    """The jobs of those claims of a cycle that would take a place in its team's guarantee from
    another claim of the team, which was made on that: both count from one moment, and then their
    ids say who comes first, not who was served first. Made a cycle later they come after it."""
    owning = [one.earmark for one in made if one.source == one.earmark.team]
    teams = {one.team for one in owning}
    beyond = [one for one in made if one.source != one.earmark.team and one.earmark.team in teams]
    if not beyond:
        return frozenset()
    after = protection_after(pool, starts, [one.stand_in for one in pool.earmarks.values()])
    lost = {
        one.team
        for one in owning
        if any(job.what is one.stand_in for job in after.unprotected.get(one.team, ()))
    }
    return frozenset(one.earmark.job.id for one in beyond if one.earmark.team in lost)


def overtaken(
    pool: Pool,
    exposed: Mapping[str, Earmark],
    stand_ins: Sequence[Holding],
    starts: Sequence[NewStart],
    waiting: Iterable[Rival],
    reserved: Reservations,
) -> frozenset[str]:
    """The jobs of those `exposed` claims that somebody of another team would take if the next cycle
    were now: of those `waiting`, of whom one of each kind does, or of those who are being stopped.
    `stand_ins` are those of all claims of this cycle, beside its `starts`."""
    found: set[str] = set()
    with _as_in_the_next_cycle(pool, stand_ins, starts):
        reclaimer = Reclaimer(pool, reserved.held)
        for rival in chain(waiting, _stopped(pool)):
            if _may_take_any(pool, rival, exposed.values(), reclaimer):
                found |= exposed.keys() & _taken_by(pool, rival, reclaimer, reserved)
    return frozenset(found)


@contextmanager
def _as_in_the_next_cycle(
    pool: Pool, stand_ins: Sequence[Holding], starts: Sequence[NewStart]
) -> Iterator[None]:
    """For a while, new claims, for which these `stand_ins` are, and guarantees stand as they will
    when all is classed anew that runs, starts or is claimed after the plan."""
    after = protection_after(pool, starts, [one.stand_in for one in pool.earmarks.values()])
    before, pool.guarantees = pool.guarantees, after.taken
    for one in stand_ins:
        for node in pool.tree.paths[one.team]:
            bit = 1 << pool.tree.depths[node]
            one.everywhere |= bit
            if all(job.what is not one for job in after.unprotected.get(node, ())):
                one.protected |= bit
    try:
        yield
    finally:
        pool.guarantees = before
        for one in stand_ins:
            one.protected = one.everywhere = 0


def _may_take_any(
    pool: Pool, rival: Rival, claims: Iterable[Earmark], reclaimer: Reclaimer
) -> bool:
    """Whether `rival` may find victims, and a guarantee may give it a right to any of `claims`."""
    team, mgpu = rival.team, rival.job.mgpu
    return any(_may_have_right(pool, rival, one.stand_in) for one in claims) and (
        rival.priority.preempts
        or (
            pool.source(team, mgpu) != ROOT
            and reclaimer.could_help(team, rival.shape)
            and reclaimer.could_be_freed(rival.shape)
        )
    )


def _may_have_right(pool: Pool, rival: Rival, claim: Holding) -> bool:
    sides = pool.tree.sides(rival.team, claim.team)
    if sides is None:
        return False
    mine, its = sides
    is_protected = claim.is_protected_at(pool.tree.depths[its])
    return not is_protected and rival.job.mgpu <= pool.quota.guaranteed[mine]


def _taken_by(pool: Pool, rival: Rival, reclaimer: Reclaimer, reserved: Reservations) -> set[str]:
    """The jobs of other teams whose claims would be given up for `rival`."""
    job, team, mgpu = rival.job, rival.team, rival.job.mgpu
    with reserved.set_aside((job, team, mgpu, pool.source(team, mgpu))) as owed:
        taking = reclaimer.find(team, rival.shape, rival.priority, owed)
    victims = () if taking is None else taking.victims
    return {
        one.holding.claim_of
        for one in victims
        if one.holding.claim_of is not None and one.holding.team != team
    }


def _stopped(pool: Pool) -> Iterator[Rival]:
    """Those who are being stopped for others and wait again then."""
    for holding in (*pool.leaving, *pool.stopped):
        rival = _again(pool, holding)
        if rival is not None:
            yield rival


def _again(pool: Pool, holding: Holding) -> Rival | None:
    """The job of an attempt that is stopped for another as it will wait again, on the same cluster
    at least; None where that is not known."""
    run = holding.run
    slots = [slot for slot in run.slots if not is_beside(slot.node)]
    is_alike = len({slot.mgpu for slot in slots}) == 1
    is_for_another = holding in pool.stopped or run.beneficiary is not None
    if not is_for_another or holding.team == ROOT or not is_alike:
        return None
    job = replace(run, slots=tuple(slots)).queued_again()
    priority = pool.ground.priority(run.priority_class)
    return Rival(job, holding.team, pool.ground.shape_of(job), priority)
