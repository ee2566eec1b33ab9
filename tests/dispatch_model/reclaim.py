"""Taking one GPU back for a waiting job: two leaders, two victims, calls that take long.

The fleet has two GPUs and one victim on each; the waiting job needs one of them, so one victim
must do. A victim may end by itself at any moment. Time stands still unless it passes by a step;
it is the database's time for both leaders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

from dispatch_model.search import Step

VICTIMS = (0, 1)
GPUS = 2
GRACE = 2
TIME_MAX = 3
NEVER = -1


class Wrong(StrEnum):
    """What must not happen."""

    GPU_TWICE = "a GPU is used twice"
    EARLY_KILL = "a victim is killed before its grace is over"
    TWO_VICTIMS = "two victims for one claim"


class Plan(IntEnum):
    """What a leader has decided from its snapshot and not yet applied."""

    NOTHING = 0
    RECLAIM_FROM_0 = 1
    RECLAIM_FROM_1 = 2
    START = 3


@dataclass(frozen=True)
class Design:
    """Which rules hold. The defaults are the protocol as Tidegate carries it out."""

    is_fenced: bool = True
    #: A claim with its victims is a row that every leader reads before it plans.
    stores_claim: bool = True
    #: At most one open claim per waiting job, by a unique constraint.
    claim_is_unique: bool = True
    #: The deadline is stored with the claim. Otherwise a new leader, which finds none, takes it
    #: as over.
    stores_deadline: bool = True
    #: GPUs are free when the cluster confirms the end, not when the victim has been told.
    waits_for_end: bool = True


class Victim(NamedTuple):
    """`deadline` as stored, `promised` as the victim was told first; `is_over` is our record,
    `runs` the truth."""

    runs: bool = True
    is_over: bool = False
    is_claimed: bool = False
    deadline: int = NEVER
    promised: int = NEVER
    kill_under_way: bool = False


class Leader(NamedTuple):
    """What dies with a leader: its plan and, where claims or deadlines are not stored, those."""

    plan: Plan = Plan.NOTHING
    deadlines: tuple[int, int] = (NEVER, NEVER)


class State(NamedTuple):
    """Everything at one moment. Leader 0 goes on believing after `epoch` became 1."""

    victims: tuple[Victim, Victim] = (Victim(), Victim())
    leaders: tuple[Leader, Leader] = (Leader(), Leader())
    epoch: int = 0
    has_started: bool = False
    time: int = 0


Steps = Iterator[Step[State]]


def reclaiming(design: Design) -> Callable[[State], Steps]:
    """The machine of one design."""

    def steps(state: State) -> Steps:
        for leader in range(state.epoch + 1):
            yield from _planning(state, design, leader)
            if leader == state.epoch or not design.is_fenced:
                yield from _applying(state, design, leader)
                yield from _confirming(state, leader)
                yield from _enforcing(state, design, leader)
        if state.epoch == 0:
            yield "leader 1 takes over", state._replace(epoch=1), None
        if state.time < TIME_MAX:
            yield "time passes", state._replace(time=state.time + 1), None
        yield from _cluster(state)

    return steps


def is_done(state: State) -> bool:
    """The waiting job runs."""
    return state.has_started


def _free_gpus(state: State, design: Design) -> int:
    """By our records."""
    used = sum(
        not victim.is_over and (design.waits_for_end or victim.promised == NEVER)
        for victim in state.victims
    )
    return GPUS - used - state.has_started


def _planning(state: State, design: Design, leader: int) -> Steps:
    """Read a snapshot and decide; the decision may lie about for long."""
    own = state.leaders[leader]
    if state.has_started or own.plan != Plan.NOTHING:
        return
    if _free_gpus(state, design) > 0:
        after = _with_leader(state, leader, own._replace(plan=Plan.START))
        yield f"leader {leader} plans the start", after, None
        return
    if design.stores_claim:
        is_claimed = any(victim.is_claimed for victim in state.victims)
    else:
        is_claimed = own.deadlines != (NEVER, NEVER)
    if is_claimed:
        return
    for index in VICTIMS:
        plan = (Plan.RECLAIM_FROM_0, Plan.RECLAIM_FROM_1)[index]
        if not state.victims[index].is_over:
            after = _with_leader(state, leader, own._replace(plan=plan))
            yield f"leader {leader} plans to reclaim from victim {index}", after, None


def _applying(state: State, design: Design, leader: int) -> Steps:
    """Check each touched row again and write the plan, in one transaction."""
    own = state.leaders[leader]
    if own.plan == Plan.NOTHING:
        return
    idle = _with_leader(state, leader, own._replace(plan=Plan.NOTHING))
    if own.plan == Plan.START:
        if state.has_started or _free_gpus(state, design) <= 0:
            yield f"leader {leader} drops a stale start", idle, None
            return
        is_twice = sum(victim.runs for victim in state.victims) == GPUS
        wrong = Wrong.GPU_TWICE if is_twice else None
        yield f"leader {leader} starts the job", idle._replace(has_started=True), wrong
        return
    index = int(own.plan) - 1
    victim = state.victims[index]
    has_claim = any(other.is_claimed for other in state.victims)
    is_refused = design.stores_claim and design.claim_is_unique and has_claim
    if state.has_started or victim.is_over or victim.promised != NEVER or is_refused:
        yield f"leader {leader} drops a stale reclaim", idle, None
        return
    deadline = state.time + GRACE
    wrong = None
    if any(other.promised != NEVER for other in state.victims):
        wrong = Wrong.TWO_VICTIMS
    after = idle
    if not (design.stores_claim and design.stores_deadline):
        deadlines = list(own.deadlines)
        deadlines[index] = deadline
        kept = Leader(deadlines=(deadlines[0], deadlines[1]))
        after = _with_leader(after, leader, kept)
    told = victim._replace(
        is_claimed=design.stores_claim,
        deadline=deadline if design.stores_deadline else NEVER,
        promised=deadline,
    )
    after = _with_victim(after, index, told)
    yield f"leader {leader} tells victim {index}", after, wrong


def _confirming(state: State, leader: int) -> Steps:
    """A complete listing says that nothing of the victim is left."""
    for index in VICTIMS:
        victim = state.victims[index]
        if not victim.runs and not victim.is_over:
            after = _with_victim(state, index, victim._replace(is_over=True))
            yield f"leader {leader} learns the end of victim {index}", after, None


def _enforcing(state: State, design: Design, leader: int) -> Steps:
    """Kill what is past its deadline. Repeats are harmless, so one call under way will do."""
    for index in VICTIMS:
        victim = state.victims[index]
        deadline = state.leaders[leader].deadlines[index]
        if design.stores_claim:
            if not victim.is_claimed:
                continue
            # A leader without a deadline takes it as over: NEVER is before any time.
            deadline = victim.deadline if design.stores_deadline else deadline
        elif deadline == NEVER:
            continue
        if victim.is_over or victim.kill_under_way or state.time < deadline:
            continue
        after = _with_victim(state, index, victim._replace(kill_under_way=True))
        wrong = Wrong.EARLY_KILL if state.time < victim.promised else None
        yield f"leader {leader} kills victim {index}", after, wrong


def _cluster(state: State) -> Steps:
    for index in VICTIMS:
        victim = state.victims[index]
        if victim.runs:
            after = _with_victim(state, index, victim._replace(runs=False))
            yield f"victim {index} ends by itself", after, None
        if victim.kill_under_way:
            arrived = victim._replace(runs=False, kill_under_way=False)
            lost = victim._replace(kill_under_way=False)
            yield f"the kill of victim {index} arrives", _with_victim(state, index, arrived), None
            yield f"the kill of victim {index} is lost", _with_victim(state, index, lost), None


def _with_victim(state: State, index: int, victim: Victim) -> State:
    zero, one = state.victims
    return state._replace(victims=(victim, one) if index == 0 else (zero, victim))


def _with_leader(state: State, index: int, leader: Leader) -> State:
    zero, one = state.leaders
    return state._replace(leaders=(leader, one) if index == 0 else (zero, leader))
