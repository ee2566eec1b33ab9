"""Corrections that arrive so late that the sums of fair-share may have counted the use already."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID

from billing.folding import Segment
from billing.models import LateUse

#: Time within which the meter may learn of use before it is added to the sums (`billing.fair_use`).
LATE_MAX = timedelta(hours=1)
#: Slightly newer use is stored too, because the sums may be updated before this is committed.
_MARGIN = timedelta(minutes=5)


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
