"""The meter's arithmetic: what was told about an attempt, folded into what it held when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

EventKind = Literal["started", "ended", "lost", "classed"]


@dataclass(frozen=True, slots=True)
class Event:
    """One fact. `sequence` is the order of recording; `guaranteed_mgpu` belongs to `classed`."""

    kind: EventKind
    at: datetime
    sequence: int
    guaranteed_mgpu: int | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """Held over `[start, end)`; an end of None means that it is held still."""

    start: datetime
    end: datetime | None
    guaranteed_mgpu: int
    borrowed_mgpu: int


def fold(events: Iterable[Event], *, mgpu: int) -> tuple[Segment, ...]:
    """The usage segments of one attempt that holds `mgpu`, in order of time, without gaps.

    Depends on the set of `events` only. From `started` the attempt holds its GPUs until
    `ended`, the moment at which they were released. Without an end it is held until it was
    `lost` (at: last seen), and `ended` replaces `lost` when the cluster's own record turns up.
    Of several facts of one of these kinds the first recorded counts.

    The last class told for the start or before it is the first segment's; a later one splits;
    one at or after the end says nothing. Before the first class that was told, that one holds; with
    none at all, everything counts as borrowed. Of two classes for the same second the one
    recorded later counts. An amount outside 0 to `mgpu` is cut to it, so that the parts always
    sum to `mgpu`. No start, or an end at or before it, gives no segment.
    """
    facts = set(events)
    start = _first(facts, "started")
    end = _first(facts, "ended") or _first(facts, "lost")
    if start is None or (end is not None and end <= start):
        return ()
    classes = sorted(
        (c for c in facts if c.kind == "classed" and (end is None or c.at < end)),
        key=lambda c: (c.at, c.sequence),
    )
    inside = [c for c in classes if c.at > start]
    opening = [c for c in classes if c.at <= start][-1:] or classes[:1]
    amounts = {start: _cut(opening[0].guaranteed_mgpu, mgpu) if opening else 0}
    for change in inside:
        amounts[change.at] = _cut(change.guaranteed_mgpu, mgpu)
    return tuple(_segments(amounts, end, mgpu))


def _first(facts: Iterable[Event], kind: EventKind) -> datetime | None:
    told = [(fact.sequence, fact.at) for fact in facts if fact.kind == kind]
    return min(told)[1] if told else None


def _cut(guaranteed_mgpu: int | None, mgpu: int) -> int:
    return max(0, min(guaranteed_mgpu or 0, mgpu))


def _segments(amounts: dict[datetime, int], end: datetime | None, mgpu: int) -> Iterable[Segment]:
    """`amounts` are guaranteed milli-GPU from each time on, in order of time."""
    changes: list[tuple[datetime, int]] = []
    for at, guaranteed in amounts.items():
        if not changes or changes[-1][1] != guaranteed:
            changes.append((at, guaranteed))
    ends = [at for at, _ in changes[1:]]
    for (at, guaranteed), until in zip(changes, [*ends, end], strict=True):
        yield Segment(at, until, guaranteed, mgpu - guaranteed)
