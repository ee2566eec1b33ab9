"""To ask for more GPUs than are needed never pays, through the arbiter and the bank (R-89 to R-93).

Three teams with a guarantee of one GPU each share four GPUs. Each day begins with the jobs that the
teams ask for, of one GPU and one day. The arbiter decides what runs, and the bank settles the day.
Every world of two days is tried, with every lie of team a.

Planted: the poorest borrower is served first.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product

from arbiter.api.policy import Policy
from arbiter.cycle.decide import decide
from builders.arbiter_builders import a_queued, a_snapshot, devices
from credits.settlement import Account, Interval, Limits, settle

TEAMS = ("o/a", "o/b", "o/c")
CAPACITY = 4
#: One GPU for a day is one credit here.
DAY = 1
DAY_S = 86_400
LIMITS = Limits(floor_s=2 * DAY, cap_s=2 * DAY)
POLICY = Policy(credit_floor_s=2 * DAY_S)

GpuDays = tuple[int, ...]


@cache
def served(asked: GpuDays, balances: GpuDays, used: GpuDays) -> GpuDays:
    """The GPUs of each team for a day, as the arbiter decides."""
    snapshot = a_snapshot(
        quotas={"o": CAPACITY, **dict.fromkeys(TEAMS, 1)},
        devices=devices(1, gpus=CAPACITY),
        queued=[
            a_queued(f"{team} {number}", team)
            for team, count in zip(TEAMS, asked, strict=True)
            for number in range(count)
        ],
        credits=dict(zip(TEAMS, balances, strict=True)),
        used={
            (team, "alice"): gpu_days * DAY_S
            for team, gpu_days in zip(TEAMS, used, strict=True)
            if gpu_days
        },
    )
    starts = Counter(start.job.partition(" ")[0] for start in decide(snapshot, POLICY).starts)
    return tuple(starts[team] for team in TEAMS)


def useful(days: list[GpuDays], needs: GpuDays) -> int:
    """The GPUs that team a gets of those that it needs, day by day."""
    accounts = tuple(Account(team, 1) for team in TEAMS)
    pool = total = 0
    used: GpuDays = (0, 0, 0)
    for asked, need in zip(days, needs, strict=True):
        got = served(asked, tuple(one.balance for one in accounts), used)
        assert sum(got) == min(CAPACITY, sum(asked))
        assert all(gpus >= min(1, wanted) for gpus, wanted in zip(got, asked, strict=True))
        total += min(need, got[0])
        used = tuple(before + gpus for before, gpus in zip(used, got, strict=True))
        interval = Interval(DAY, dict(zip(TEAMS, got, strict=True)))
        settled = settle(accounts, pool, interval, expires_at=99, limits=LIMITS)
        accounts, pool = settled.accounts, settled.pool
        assert sum(one.balance for one in accounts) + pool == 0
    return total


def test_to_ask_for_more_than_is_needed_never_pays() -> None:
    checked = 0
    for others in product(product(range(4), repeat=2), repeat=2):
        for needs in product(range(4), repeat=2):
            honest = useful(
                [(need, *rest) for need, rest in zip(needs, others, strict=True)], needs
            )
            for lies in product(*(range(need, 4) for need in needs)):
                asked = [(lie, *rest) for lie, rest in zip(lies, others, strict=True)]
                assert useful(asked, needs) <= honest, (others, needs, lies)
                checked += 1
    assert checked == 256 * 100
