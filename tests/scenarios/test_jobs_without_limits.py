"""A gang in a stream of small jobs: without time limits, and with a default of a day (R-74, R-82).

The situation is that of a public report: 64 GPUs, a gang of 48 whose team is guaranteed 32, and a
steady stream of jobs of one GPU that run for 5 to 10 minutes.
"""

from __future__ import annotations

from arbiter.api.plan import Code
from builders.arbiter_builders import (
    NOW,
    World,
    a_queued,
    a_running,
    a_snapshot,
    devices,
    slots,
)
from builders.arbiter_plans import plan_of, started, why

DAY_S = 86_400
GANG = a_queued("gang", "o/a", nodes=6, gpus=8, time_limit_s=DAY_S)
QUOTAS = {"o": 64, "o/a": 32, "o/b": 16}
_TURN_S = 60


def seconds_until_the_gang_starts(limit_s: int | None, most_s: int) -> int | None:
    """How long it waits beside a stream that always asks for more than there is; None: longer."""
    world = World(a_snapshot(quotas=QUOTAS, devices=devices(8), queued=[]))
    ends: dict[str, int] = {}
    count = 0
    for after in range(-600, most_s + 1, _TURN_S):
        now = NOW + 600 + after
        for job in [job for job, end in ends.items() if end <= now]:
            world.leave(job)
            del ends[job]
        while len(world.queued) < 12:
            count += 1
            world.submit(a_queued(f"s{count}", "o/b", time_limit_s=limit_s, submitted_at=now))
        if after == 0:
            world.submit(GANG)
        for job in started(world.step(now)):
            if job == "gang":
                return after
            number = int(job.removeprefix("s"))
            ends[job] = now + 300 + _TURN_S * (number % 6)
    return None


def test_with_a_default_limit_the_first_in_line_waits_at_most_that_long() -> None:
    """Without limits it still waits after an hour; with a default of a day it starts in minutes.

    Planted: jobs with a limit counted as endless.
    """
    assert seconds_until_the_gang_starts(None, 3_600) is None
    waited_s = seconds_until_the_gang_starts(DAY_S, DAY_S)
    assert waited_s is not None
    assert waited_s <= 900


def test_the_reason_names_the_jobs_without_a_limit() -> None:
    """Three jobs without a limit hold 16 GPUs on three of eight nodes; a gang of six cannot fit.

    Planted: counted by GPUs alone (48 of 64 are left). Against: jobs with a limit counted, too.
    """
    held = [
        a_running("u1", "o/b", slots(0, 1)),
        a_running("u2", "o/b", slots(1, 1, gpus=4)),
        a_running("u3", "o/b", slots(2, 1, gpus=4)),
    ]
    limited = [a_running(f"l{i}", "o/b", slots(i, 1), time_limit_s=600) for i in (3, 4)]
    snapshot = a_snapshot(
        quotas=QUOTAS, devices=devices(8), queued=[GANG], running=[*held, *limited]
    )
    told = why(plan_of(snapshot), "gang")
    assert (told.latest, told.numbers["unlimited_jobs"], told.numbers["unlimited_mgpu"]) == (
        None, 3, 16_000,
    )  # fmt: skip
    fewer = a_snapshot(
        quotas=QUOTAS, devices=devices(8), queued=[GANG], running=[*held[1:], *limited]
    )
    told = why(plan_of(fewer), "gang")
    assert "unlimited_jobs" not in told.numbers
    assert (told.code, told.latest) == (Code.WAITING_FOR_FREE_GPUS, NOW - 50 + 600)
