"""Random histories of full clusters, where teams borrow most of what they hold and others want it
back: hardly a cycle without victims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from arbiter.api.policy import Policy
from arbiter.api.snapshot import (
    NOWHERE,
    Balance,
    Device,
    Domains,
    Level,
    PriorityClass,
    QueuedJob,
    Quota,
    RunningJob,
    Slot,
    Snapshot,
    TreeNode,
)
from builders.arbiter_builders import GPU, NOW, World

_PER_NODE = 4
_CLASSES = (
    PriorityClass("critical", 20, team_cap_mgpu=8 * GPU, preempts_across_teams=True),
    PriorityClass("high", 10, preempts_within_team=True),
    PriorityClass("normal", 5),
    PriorityClass("low", 1),
)
_NAMES = ("critical", "high", "normal", "normal", "normal", "low")


def crowds(dice: Random, policy: Policy, steps: int) -> Iterator[Snapshot]:
    """The snapshots of `steps` cycles of a world that does what the plans say; between them jobs
    come, and a few end."""
    base = _full(dice)
    teams = sorted({run.team for run in base.running})
    world = World(base, policy)
    for number in range(steps):
        for i in range(dice.randint(1, 4)):
            world.submit(_job(dice, f"q{number}-{i}", dice.choice(teams), world))
        for job in sorted(world.running):
            if dice.random() < 0.03:
                world.leave(job)
        world.now += dice.choice((20, 90, 400))
        yield world.snapshot()
        world.step()


def _full(dice: Random) -> Snapshot:
    count = dice.choice((6, 12, 24))
    has_racks, has_cpu = dice.random() < 0.5, dice.random() < 0.3
    nodes: list[TreeNode] = []
    quotas: list[Quota] = []
    teams: list[str] = []
    for org in ("a", "b"):
        of_org = count * _PER_NODE // 3
        nodes.append(TreeNode(org, None))
        quotas.append(_quota(dice, org, of_org))
        for dept in ("x", "y"):
            of_dept = dice.randint(0, of_org // 2)
            nodes.append(TreeNode(f"{org}/{dept}", org, rank=dice.randint(0, 2)))
            quotas.append(_quota(dice, f"{org}/{dept}", of_dept))
            for team in ("1", "2", "3"):
                teams.append(f"{org}/{dept}/{team}")
                nodes.append(TreeNode(teams[-1], f"{org}/{dept}"))
                quotas.append(_quota(dice, teams[-1], dice.randint(0, of_dept // 3)))
    devices = tuple(
        Device(
            "c",
            f"n{i:02d}",
            "h100",
            _PER_NODE * GPU,
            domains=Domains(f"b{i // 8}", f"r{i // 4}") if has_racks else NOWHERE,
            cpu_milli=8 if has_cpu else None,
            cpu_milli_per_gpu=1 if has_cpu else 0,
        )
        for i in range(count)
    )
    has_bank = dice.random() < 0.5
    return Snapshot(
        taken_at=NOW,
        nodes=tuple(nodes),
        quotas=tuple(quotas),
        priority_classes=_CLASSES if dice.random() < 0.5 else _CLASSES[1:],
        devices=devices,
        clusters=frozenset("c"),
        running=_running(dice, count, teams),
        queued=(),
        balances=tuple(
            Balance(team, "h100", dice.randrange(-(10**10), 10**10)) for team in teams if has_bank
        ),
    )


def _quota(dice: Random, node: str, gpus: int) -> Quota:
    lend = dice.choice((None, None, None, 0, GPU))
    return Quota(node, "h100", gpus * GPU, lend, None)


def _running(dice: Random, count: int, teams: list[str]) -> tuple[RunningJob, ...]:
    found: list[RunningJob] = []
    order = dice.sample(range(count), count)
    while order:
        node, left = order.pop(), _PER_NODE
        while left:
            gpus = dice.choice([size for size in (1, 1, 2, 3, 4, 4) if size <= left])
            width = 1
            if gpus == left == _PER_NODE:
                width = min(dice.choice((1, 1, 2, 3)), len(order) + 1)
            on = [node, *(order.pop() for _ in range(width - 1))]
            left -= gpus
            name, started_at = f"r{len(found)}", NOW - dice.randrange(5_000)
            found.append(
                RunningJob(
                    name,
                    f"{name}.1",
                    dice.choice(teams),
                    "u",
                    "h100",
                    "c",
                    tuple(Slot(f"n{one:02d}", gpus * GPU) for one in sorted(on)),
                    dice.choice(_NAMES),
                    started_at,
                    started_at,
                    is_preemptible=dice.random() < 0.3,
                    preemptions=dice.randrange(3),
                )
            )
    return tuple(found)


def _job(dice: Random, name: str, team: str, world: World) -> QueuedJob:
    width = dice.choice((1, 1, 1, 2, 3))
    job = QueuedJob(
        name,
        team,
        "u",
        "h100",
        dice.choice((1, 2, 4)) * GPU,
        width,
        dice.choice(_NAMES),
        world.now,
        time_limit_s=dice.choice((None, 600)),
        cpu_milli=dice.choice((None, None, None, 6)),
    )
    return replace(job, required_topology=Level.RACK) if width > 1 and dice.random() < 0.3 else job
