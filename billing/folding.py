"""The meter's arithmetic: what was told about an attempt, folded into what it held when (R-97)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

EventKind = Literal["started", "ended", "lost", "classed", "sized", "anew"]


@dataclass(frozen=True, slots=True)
class Event:
    """One fact. `sequence` is the order of recording; `guaranteed_mgpu` belongs to `classed`, and
    `mgpu` to `sized`."""

    kind: EventKind
    at: datetime
    sequence: int
    guaranteed_mgpu: int | None = None
    mgpu: int | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """Held over `[start, end)`; an end of None means that it is held still."""

    start: datetime
    end: datetime | None
    guaranteed_mgpu: int
    borrowed_mgpu: int


def fold(events: Iterable[Event], *, mgpu: int) -> tuple[Segment, ...]:
    """The usage segments of one attempt that was granted `mgpu`, in order of time, without gaps.

    Depends on the set of `events` only. From `started` the attempt holds its GPUs until
    `ended`, the moment at which they were released. Without an end it is held until it was
    `lost` (at: last seen), and `ended` replaces `lost` when the cluster's own record turns up.
    Of several facts of one of these kinds the first recorded counts. `anew` takes the start back:
    the cluster forgot that run and began the attempt again at that time. Of all of them up to the
    end the latest counts, and one before the start says nothing, so that no order decides.

    The last class told for the start or before it is the first segment's; a later one splits;
    one at or after the end says nothing. Before the first class that was told, that one holds; with
    none at all, everything counts as borrowed. Of two classes for the same second the one
    recorded later counts. An amount outside 0 to `mgpu` is cut to it, so that the parts always
    sum to `mgpu`. From a `sized` on the attempt holds what that says instead of `mgpu`; one at
    the start or before it says what it held from its start. No start, or an end at or before it,
    gives no segment.
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
    moments = sorted({start, *(fact.at for fact in (*classes, *sizes) if fact.at > start)})
    told = [fact for fact in classes if fact.at <= start] or classes[:1]
    changes: list[tuple[datetime, int, int]] = []
    for moment in moments:
        held_mgpu = _latest([fact.mgpu for fact in sizes if fact.at <= moment], mgpu)
        told = [fact for fact in classes if fact.at <= moment] or told
        guaranteed = _latest([fact.guaranteed_mgpu for fact in told], 0)
        guaranteed = max(0, min(guaranteed, held_mgpu))
        if not changes or changes[-1][1:] != (guaranteed, held_mgpu):
            changes.append((moment, guaranteed, held_mgpu))
    ends = [at for at, _, _ in changes[1:]]
    return tuple(
        Segment(at, until, guaranteed, held_mgpu - guaranteed)
        for (at, guaranteed, held_mgpu), until in zip(changes, [*ends, end], strict=True)
    )


def _of_kind(facts: Iterable[Event], kind: EventKind, end: datetime | None) -> list[Event]:
    """Those before `end`, in the order in which they count."""
    return sorted(
        (fact for fact in facts if fact.kind == kind and (end is None or fact.at < end)),
        key=lambda fact: (fact.at, fact.sequence),
    )


def _latest(amounts: Sequence[int | None], otherwise: int) -> int:
    return (amounts[-1] or 0) if amounts else otherwise


def _first(facts: Iterable[Event], kind: EventKind) -> datetime | None:
    told = [(fact.sequence, fact.at) for fact in facts if fact.kind == kind]
    return min(told)[1] if told else None
