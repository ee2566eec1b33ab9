"""The meter's arithmetic: folds the events of an attempt into its usage segments (R-97)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

EventKind = Literal["started", "ended", "lost", "classed", "sized", "anew", "fault"]
#: A preemption this soon after the start makes the whole attempt free.
EARLY = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Event:
    """One fact. `sequence` is the order of recording.

    `guaranteed_mgpu` belongs to `classed`, `mgpu` to `sized`, and `reason` to `fault`.
    """

    kind: EventKind
    at: datetime
    sequence: int
    guaranteed_mgpu: int | None = None
    mgpu: int | None = None
    reason: str = ""


class Unpaid(NamedTuple):
    """Borrowed use of `mgpu` during `[start, end)` that no credits paid."""

    start: datetime
    end: datetime
    mgpu: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Use during `[start, end)`. An end of None means that it continues.

    `unpaid_mgpu` is a part of `borrowed_mgpu`. `fault` is the reason why all of it costs nothing.
    """

    start: datetime
    end: datetime | None
    guaranteed_mgpu: int
    borrowed_mgpu: int
    unpaid_mgpu: int = 0
    fault: str = ""


def fold(
    events: Iterable[Event], *, mgpu: int, unpaid: Sequence[Unpaid] = ()
) -> tuple[Segment, ...]:
    """Return the usage segments of one attempt that was granted `mgpu`, by time, without gaps.

    The result depends on the set of `events` only, not on their order:

    - `started` and `ended`: the attempt uses its GPUs from the first to the second.
    - `lost`: without an end, use lasts until this time (last seen). `ended` replaces it when the
      cluster's own record appears.
    - Of several facts of one of these kinds, the one recorded first counts.
    - `anew`: the cluster forgot that run and began the attempt again at this time. The latest one
      up to the end counts. One before the start has no effect.
    - `classed`: the last class at or before the start is that of the first segment. A later one
      splits. One at or after the end has no effect. The first class also counts for the time before
      it. Without any class, all use is borrowed. Of two classes in one second, the one recorded
      later counts.
    - `sized`: from then on the attempt uses this amount instead of `mgpu`. At or before the start,
      it counts from the start.
    - `fault` after a failed node or a loss: use since its time, or since the start where that is
      later, costs nothing. That time is the last checkpoint. A loss that `ended` replaced is no
      fault.
    - `fault` for a preemption: all use costs nothing if it came within `EARLY` of the start.

    Borrowed use is unpaid as `unpaid` says, which do not overlap, unless a fault made it free. An
    unpaid amount above what is borrowed is cut.

    A guaranteed amount outside 0 to `mgpu` is cut, so that the parts always sum to `mgpu`. Without
    a start, or with an end at or before it, there is no segment.
    """
    facts = set(events)
    start = _first(facts, "started")
    end = _first(facts, "ended") or _first(facts, "lost")
    if start is None:
        return ()
    anew = [fact.at for fact in facts if fact.kind == "anew" and (end is None or fact.at <= end)]
    start = max(start, *anew) if anew else start
    if end is not None and end <= start:
        return ()
    classes = _of_kind(facts, "classed", end)
    sizes = _of_kind(facts, "sized", end)
    free_since, reason = _fault(facts, start, end)
    turns = [fact.at for fact in (*classes, *sizes)]
    turns += [at for one in unpaid for at in (one.start, one.end) if end is None or at < end]
    turns += [] if free_since is None else [free_since]
    moments = sorted({start, *(at for at in turns if at > start)})
    told = [fact for fact in classes if fact.at <= start] or classes[:1]
    changes: list[tuple[datetime, int, int, int, str]] = []
    for moment in moments:
        held_mgpu = _latest([fact.mgpu for fact in sizes if fact.at <= moment], mgpu)
        told = [fact for fact in classes if fact.at <= moment] or told
        guaranteed = _latest([fact.guaranteed_mgpu for fact in told], 0)
        guaranteed = max(0, min(guaranteed, held_mgpu))
        fault = "" if free_since is None or moment < free_since else reason
        without = sum(one.mgpu for one in unpaid if one.start <= moment < one.end)
        without = 0 if fault else min(without, held_mgpu - guaranteed)
        if not changes or changes[-1][1:] != (guaranteed, held_mgpu, without, fault):
            changes.append((moment, guaranteed, held_mgpu, without, fault))
    ends = [change[0] for change in changes[1:]]
    return tuple(
        Segment(at, until, guaranteed, held_mgpu - guaranteed, without, fault)
        for (at, guaranteed, held_mgpu, without, fault), until in zip(
            changes, [*ends, end], strict=True
        )
    )


def _fault(
    facts: Iterable[Event], start: datetime, end: datetime | None
) -> tuple[datetime | None, str]:
    """Return since when the use costs nothing, and the reason; None for never."""
    found = min((fact for fact in facts if fact.kind == "fault"), key=_recorded, default=None)
    if found is None:
        return None, ""
    if found.reason == "preempted":
        return (start if found.at < start + EARLY else None), found.reason
    if found.reason == "lost" and _first(facts, "ended") is not None:
        return None, ""
    since = max(start, found.at)
    return (since if end is None or since < end else None), found.reason


def _recorded(fact: Event) -> int:
    return fact.sequence


def _of_kind(facts: Iterable[Event], kind: EventKind, end: datetime | None) -> list[Event]:
    """Return the facts of `kind` before `end`, in the order in which they count."""
    return sorted(
        (fact for fact in facts if fact.kind == kind and (end is None or fact.at < end)),
        key=lambda fact: (fact.at, fact.sequence),
    )


def _latest(amounts: Sequence[int | None], otherwise: int) -> int:
    return (amounts[-1] or 0) if amounts else otherwise


def _first(facts: Iterable[Event], kind: EventKind) -> datetime | None:
    told = [(fact.sequence, fact.at) for fact in facts if fact.kind == kind]
    return min(told)[1] if told else None
