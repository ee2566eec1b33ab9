"""Corrections that arrive after others counted the use: the sums of fair-share, and the bank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID

from billing.folding import Segment
from billing.models import ChangedUse, LateUse

#: Time within which the meter may learn of use before it is added to the sums (`billing.fair_use`).
LATE_MAX = timedelta(hours=1)
#: Slightly newer use is stored too, because the sums may be updated before this is committed.
_MARGIN = timedelta(minutes=5)
#: Credits are settled a minute after an interval ends, so older news may change what is settled.
SETTLED_AFTER_LEAST = timedelta(seconds=30)


def late_use(
    attempt_id: UUID, before: Iterable[Segment], after: Iterable[Segment], now: datetime
) -> Iterator[LateUse]:
    """Yield the corrections to an attempt's use `LATE_MAX` ago and earlier; usually none.

    They are the differences between the segments before and after some news. A change of the class
    is no difference.
    """
    steps: dict[datetime, int] = defaultdict(int)
    for sign, segments in ((-1, before), (1, after)):
        for segment in segments:
            mgpu = sign * (segment.guaranteed_mgpu + segment.borrowed_mgpu)
            steps[segment.start] += mgpu
            steps[now if segment.end is None else segment.end] -= mgpu
    height = 0
    for start, end in pairwise(sorted(steps)):
        height += steps[start]
        if height and start < now - LATE_MAX + _MARGIN:
            yield LateUse(attempt_id=attempt_id, start=start, end=end, mgpu=height)


def changed_use(
    attempt_id: UUID, before: Iterable[Segment], after: Iterable[Segment], now: datetime
) -> Iterator[ChangedUse]:
    """Yield the time before now in which an attempt's use is other than before; usually none.

    A change of what credits paid is no difference, because only the bank decides that. News of the
    last `SETTLED_AFTER_LEAST` comes before any settlement.
    """
    was, will = _profile(before, now), _profile(after, now)
    moments = sorted({*was, *will})
    first = last = None
    fault, held, holds = "", _NOTHING, _NOTHING
    for start, end in pairwise(moments):
        held, holds = was.get(start, held), will.get(start, holds)
        if held != holds:
            first, last = first or start, end
            fault = fault or (holds[2] if holds[2] != held[2] else "")
    if first is not None and last is not None and first < now - SETTLED_AFTER_LEAST:
        yield ChangedUse(attempt_id=attempt_id, start=first, end=last, fault=fault)


_NOTHING = (0, 0, "")


def _profile(segments: Iterable[Segment], now: datetime) -> dict[datetime, tuple[int, int, str]]:
    """Return guaranteed and borrowed use and its fault from each time on, until `now`."""
    steps: dict[datetime, tuple[int, int, str]] = {}
    for segment in sorted(segments, key=lambda one: one.start):
        end = now if segment.end is None else min(segment.end, now)
        if segment.start < end:
            steps[segment.start] = (
                segment.guaranteed_mgpu,
                segment.borrowed_mgpu,
                segment.fault,
            )
            steps[end] = _NOTHING
    return steps
