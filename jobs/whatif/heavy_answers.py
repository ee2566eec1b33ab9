"""A bound on the number of slow answers at once, over all web processes.

They run the arbiter, which keeps a core busy, or wait for clusters. Any user may request one.
Without a bound, a few of them would block every page, and the arbiter itself. The slots are session
locks of the database. When a web process dies, the database releases its slots.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection

from primitives.errors import TooManyRequests

#: Numbers that no other session lock uses.
_FIRST_SLOT = 7_206_119_425_031_441
#: Pause in seconds between two attempts to take a slot.
LOOK_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class HeavyAnswer:
    """A kind of slow answer, with a limited number of slots.

    `slots` are the numbers of its locks. A request waits `wait_s` seconds for a free slot. If none
    becomes free, it is refused with `refusal`, and may be repeated after `retry_after_s` seconds.
    """

    slots: tuple[int, ...]
    wait_s: float
    refusal: str
    retry_after_s: int


#: One cycle: previews of jobs, and replays. A request waits for its slot, because a cycle is short.
ONE_CYCLE = HeavyAnswer(
    slots=(_FIRST_SLOT + 1, _FIRST_SLOT + 2),
    wait_s=2.0,
    refusal="Two other previews are being computed; ask again in 2 seconds. You can submit "
    "without a preview.",
    retry_after_s=2,
)
#: A cycle for each of a few requests: alternatives. Their slot is separate, so that the previews of
#: forms do not wait for them.
SEVERAL_CYCLES = HeavyAnswer(
    slots=(_FIRST_SLOT + 3,),
    wait_s=2.0,
    refusal="The alternatives to another job are being computed; ask again in 5 seconds.",
    retry_after_s=5,
)
#: The starts of all sizes in the pools of a team: up to eleven cycles of each pool.
SIZES = HeavyAnswer(
    slots=(_FIRST_SLOT + 7,),
    wait_s=2.0,
    refusal="The starts of another team are being computed; ask again in 5 seconds.",
    retry_after_s=5,
)
#: A whole future, cycle after cycle: start estimates, and previews of changes of quotas.
FUTURE = HeavyAnswer(
    slots=(_FIRST_SLOT,),
    wait_s=0.0,
    refusal="Another look-ahead is being computed; ask again in 5 seconds.",
    retry_after_s=5,
)
#: The future after a write of quotas or rules that may need a second person. The write waits.
GUARDED_WRITE = HeavyAnswer(
    slots=(_FIRST_SLOT + 8,),
    wait_s=10.0,
    refusal="Another change of quotas or rules is being checked; send yours again in 5 seconds.",
    retry_after_s=5,
)
#: Manifests that clusters are asked about. Without a slot a request goes on without the trial.
TRIALS = HeavyAnswer(
    slots=(_FIRST_SLOT + 4, _FIRST_SLOT + 5, _FIRST_SLOT + 6),
    wait_s=0.0,
    refusal="Three other manifests are being tried.",
    retry_after_s=5,
)


@contextmanager
def worked_out(
    kind: HeavyAnswer,
    *,
    monotonic_s: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> Iterator[None]:
    """Hold a slot of `kind` while the context lasts.

    Raises TooManyRequests if no slot becomes free in time.
    """
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
