"""Full clusters of one moment, in which several teams want their GPUs back at once."""

from __future__ import annotations

from random import Random

from arbiter.api.snapshot import QueuedJob, Quota, RunningJob, Slot, Snapshot
from builders.arbiter_builders import NOW, a_queued, a_quota, a_running, a_snapshot, devices

#: Each size divides all larger ones, so that jobs fit in any order that begins with the largest.
PER_NODE = 4
_SIZES = (1, 1, 2, 4)


def a_dense_world(dice: Random) -> Snapshot:
    """Every node is full, mostly of what is borrowed, and up to five jobs wait that fit in
    guarantees. Jobs of several nodes have these for themselves."""
    count = dice.randint(2, 5)
    teams, quotas = _tree(dice, count * PER_NODE)
    running: list[RunningJob] = []
    order = dice.sample(range(count), count)
    while order:
        node, left = order.pop(), PER_NODE
        while left:
            gpus = dice.choice([size for size in _SIZES if size <= left])
            width = 1
            if gpus == PER_NODE:
                width = min(dice.choice((1, 1, 2)), len(order) + 1)
            on = [node, *(order.pop() for _ in range(width - 1))]
            left -= gpus
            if dice.random() < 0.05:
                continue
            running.append(
                a_running(
                    f"r{len(running)}",
                    dice.choice(teams),
                    [Slot(f"alpha-{one:03d}", gpus * 1000) for one in sorted(on)],
                    started_at=NOW - dice.randrange(5_000),
                    priority=dice.choice(("low", "normal", "normal", "high")),
                    is_preemptible=dice.random() < 0.3,
                )
            )
    queued: list[QueuedJob] = []
    for number in range(dice.randint(2, 6)):
        gpus = dice.choice(_SIZES)
        width = dice.choice((1, 1, 2)) if gpus == PER_NODE else 1
        priority = dice.choice(("normal", "normal", "high"))
        team = dice.choice(teams)
        queued.append(
            a_queued(
                f"q{number}",
                team,
                gpus=gpus,
                nodes=width,
                priority=priority,
                submitted_at=NOW - 10 - number,
            )
        )
    return a_snapshot(
        quotas=quotas, devices=devices(count, gpus=PER_NODE), running=running, queued=queued
    )


def _tree(dice: Random, gpus: int) -> tuple[list[str], list[Quota]]:
    """Teams of two organizations, one of them with departments, and guarantees that fit."""
    teams: list[str] = []
    quotas: list[Quota] = []
    left = gpus
    for org in ("a", "b"):
        of_org = dice.randint(0, left)
        left -= of_org
        quotas.append(_quota(dice, org, of_org))
        for dept in ("x", "y") if org == "a" else ("",):
            above = f"{org}/{dept}" if dept else org
            of_dept = dice.randint(0, of_org) if dept else of_org
            if dept:
                of_org -= of_dept
                quotas.append(_quota(dice, above, of_dept))
            for name in ("1", "2", "3"):
                own = dice.randint(0, of_dept)
                of_dept -= own
                teams.append(f"{above}/{name}")
                quotas.append(_quota(dice, teams[-1], own))
    return teams, quotas


def _quota(dice: Random, node: str, gpus: int) -> Quota:
    lend = dice.choice((None, None, None, None, 0, 1))
    borrow = dice.choice((None, None, None, 0, 2, 4, 8))
    return a_quota(node, gpus, lend=lend, borrow=borrow)
