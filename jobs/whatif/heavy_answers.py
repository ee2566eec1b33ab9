"""How many answers that cost a run of the arbiter are worked out at once, in all web processes.

Each takes a core for as long as it takes, and any user may ask for one: without a bound a handful
of them would keep every page waiting, and the arbiter itself. The slots are session locks of the
database, which a web process that dies gives back by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection

from primitives.errors import TooManyRequests

#: Any numbers that no other session lock has.
_FIRST_SLOT = 7_206_119_425_031_441
#: Between two looks for a free slot.
LOOK_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class HeavyAnswer:
    """A kind of answer: the locks that are its slots, for how many seconds one is waited for, and
    what is told when none is free, with the seconds after which to ask again."""

    slots: tuple[int, ...]
    wait_s: float
    refusal: str
    retry_after_s: int


#: One cycle: what would become of a job, what an old cycle would decide today. Waited for, as it
#: is over in a moment.
ONE_CYCLE = HeavyAnswer(
    slots=(_FIRST_SLOT + 1, _FIRST_SLOT + 2),
    wait_s=2.0,
    refusal="Two other previews are being computed; ask again in 2 seconds. You can submit "
    "without a preview.",
    retry_after_s=2,
)
#: A cycle for each of a handful of requests: what could be asked for instead. Previews, which forms
#: ask for while they are filled in, do not wait behind it.
SEVERAL_CYCLES = HeavyAnswer(
    slots=(_FIRST_SLOT + 3,),
    wait_s=2.0,
    refusal="The alternatives to another job are being computed; ask again in 5 seconds.",
    retry_after_s=5,
)
#: A whole future, cycle after cycle: when a job is to start, what a change of quotas would do.
FUTURE = HeavyAnswer(
    slots=(_FIRST_SLOT,),
    wait_s=0.0,
    refusal="Another look-ahead is being computed; ask again in 5 seconds.",
    retry_after_s=5,
)


@contextmanager
def worked_out(
    kind: HeavyAnswer,
    *,
    monotonic_s: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> Iterator[None]:
    """Hold a slot of `kind` meanwhile. Raises TooManyRequests when none comes free in time."""
    until_s = monotonic_s() + kind.wait_s
    while (slot := _free_slot(kind)) is None:
        if monotonic_s() >= until_s:
            raise TooManyRequests(kind.refusal, retry_after_s=kind.retry_after_s)
        pause(LOOK_AGAIN_S)
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [slot])


def _free_slot(kind: HeavyAnswer) -> int | None:
    for slot in kind.slots:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [slot])
            (is_ours,) = cursor.fetchone() or (False,)
        if is_ours:
            return slot
    return None
