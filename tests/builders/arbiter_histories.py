"""Long random histories of small worlds in which all that a snapshot may hold comes and goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from arbiter.api.policy import Policy, SpareOrder
from arbiter.api.snapshot import (
    NOWHERE,
    Balance,
    Device,
    Domains,
    Level,
    Maintenance,
    OtherPool,
    Phase,
    PoolWeight,
    PriorityClass,
    QueuedJob,
    Quota,
    Snapshot,
    TreeNode,
    Usage,
)
from builders.arbiter_builders import GPU, NOW, World

POOLS = ("p", "q")
USERS = ("u", "v")
CLASSES = (
    PriorityClass("critical", 20, team_cap_mgpu=3 * GPU, preempts_across_teams=True),
    PriorityClass("high", 10, preempts_within_team=True, grace_period_s=30),
    PriorityClass("normal", 5),
    PriorityClass("low", 1, team_cap_mgpu=4 * GPU),
)
_NAMES = ("critical", "high", "normal", "low", "?")
_FEATURES = (frozenset[str](), frozenset("a"), frozenset("ab"))
_PLACES = (NOWHERE, Domains("b", "r"), Domains("b", "s"), Domains("c", "r", "n"))


def policy(dice: Random) -> Policy:
    """Knobs small enough to bind."""
    return Policy(
        grace_period_s_default=60,
        starts_max=dice.choice((2, 100)),
        reclaims_max=dice.choice((0, 2, 100)),
        claim_overdue_s=40,
        skips_blocked_within_team=dice.random() < 0.8,
        spare_order=dice.choice(list(SpareOrder)),
        reservations_max=dice.choice((0, 1, 3)),
        reservation_horizon_s=dice.choice((200, 86_400)),
        min_run_s=dice.choice((0, 30)),
        preemptions_max=2,
    )


def histories(
    dice: Random,
    policy: Policy,
    steps: int,
    *,
    accept_several: bool = False,
    maintenance: bool = False,
) -> Iterator[Snapshot]:
    """The snapshots of `steps` cycles of one world that does what the plans say; between them
    jobs come, end and are cancelled, and now and then a node, a quota or anything else changes.
    Where jobs `accept_several` pools most of them do, out of three. With `maintenance`, windows are
    announced, moved and cancelled."""
    pools = (*POOLS, "r") if accept_several else POOLS
    world = World(_empty(dice, pools), policy)
    for number in range(steps):
        _move(dice, world, number, pools)
        if maintenance and dice.random() < 0.3:
            world.base = replace(world.base, maintenance=_windows(dice, world.now))
        yield world.snapshot()
        world.step()


def _empty(dice: Random, pools: tuple[str, ...]) -> Snapshot:
    is_open = dice.random() < 0.5
    kinds = (_FEATURES, _PLACES) if dice.random() < 0.5 else ((_FEATURES[0],), (NOWHERE,))
    # CPU and memory in ones: known of most nodes, and given with each GPU in half of the worlds.
    amounts = (None, 2, 4, 8) if dice.random() < 0.7 else (None,)
    share = dice.choice((0, 1))
    devices = tuple(
        Device(
            f"c{number % 2}",
            f"n{number}",
            pool,
            dice.randint(1, 4) * GPU,
            features=dice.choice(kinds[0]),
            domains=dice.choice(kinds[1]),
            cpu_milli=dice.choice(amounts),
            memory_mib=dice.choice(amounts),
            cpu_milli_per_gpu=share,
            memory_mib_per_gpu=share,
        )
        for pool in pools
        for number in range(dice.randint(2, 6))
    )
    nodes: dict[str, TreeNode] = {}
    quotas: list[Quota] = []

    def grow(name: str, parent: str | None, pool: str, most: int, depth: int) -> None:
        given = dice.choice((most, most // 2, dice.randint(0, most)))
        rank = dice.randint(0, 2)
        nodes.setdefault(name, TreeNode(name, parent, rank, dice.choice((None, 3_600))))
        if dice.random() < 0.9:
            quotas.append(_quota(dice, name, pool, given, is_open=is_open))
        left = given
        for number in range(2 if depth else 0):
            grow(f"{name}/{number}", name, pool, left, depth - 1)
            left -= left // 2

    depth = dice.randint(1, 2)
    for pool in pools:
        whole = sum(one.capacity_mgpu for one in devices if one.pool == pool) // GPU
        for name in ("o", "x"):
            grow(name, None, pool, dice.choice((whole, whole // 2)), depth)
    return Snapshot(
        taken_at=NOW,
        nodes=tuple(nodes.values()),
        quotas=tuple(quotas),
        priority_classes=CLASSES,
        devices=devices,
        clusters=frozenset({"c0", "c1"}),
        running=(),
        queued=(),
    )


def _quota(dice: Random, node: str, pool: str, gpus: int, *, is_open: bool) -> Quota:
    lend = None if is_open or dice.random() < 0.5 else dice.randint(0, 3) * GPU
    borrow = None if is_open or dice.random() < 0.5 else dice.randint(0, 3) * GPU
    return Quota(node, pool, gpus * GPU, lend, borrow, dice.choice((100, 50)))


def _move(dice: Random, world: World, number: int, pools: tuple[str, ...]) -> None:
    """Something happens between two cycles."""
    for i in range(dice.randint(0, 5)):
        job = _job(dice, f"j{number:03d}{i}", world)
        if len(pools) > len(POOLS):
            first, *others = dice.sample(pools, dice.randint(1, len(pools)))
            clusters = frozenset({"c0"}) if dice.random() < 0.1 else None
            there = tuple(OtherPool(other, clusters) for other in others)
            job = replace(job, pool=first, others=there)
        world.submit(job)
    for job in sorted(world.queued):
        if dice.random() < (0.02 if job in world.claims else 0.05):
            del world.queued[job]
        elif dice.random() < 0.02:
            world.queued[job] = replace(world.queued[job], priority_class="high", clusters=None)
    for job in sorted(world.running):
        if dice.random() < 0.1:
            world.leave(job)
        elif dice.random() < 0.1:
            world.running[job] = replace(
                world.running[job],
                checkpoint_at=world.now,
                is_preemptible=dice.random() < 0.5,
                phase=dice.choice((world.running[job].phase, Phase.STARTING)),
            )
    world.now += dice.choice((1, 10, 10, 10, 50, 50, 4_000))
    for run in list(world.running.values()):
        if run.grace_until is not None and run.grace_until <= world.now and dice.random() < 0.8:
            world.leave(run.job)
    if dice.random() < 0.2:
        world.base = _changed(dice, world.base, world.now)


def _windows(dice: Random, now: int) -> tuple[Maintenance, ...]:
    """Up to three windows: past, open or ahead, on a cluster, on a pool of it, or on some nodes."""
    found = []
    for _ in range(dice.randint(0, 3)):
        start = now + dice.choice((-200, -5, 0, 1, 19, 20, 60, 100, 1_000, 6_000))
        end = start + dice.choice((1, 30, 300, 5_000))
        pool = dice.choice((None, *POOLS))
        cluster = dice.choice(("c0", "c1"))
        names = (f"n{number}" for number in range(6) if dice.random() < 0.3)
        nodes = frozenset(names) if dice.random() < 0.5 else None
        found.append(Maintenance(cluster, start, end, pool, nodes))
    return tuple(found)


def _job(dice: Random, name: str, world: World) -> QueuedJob:
    gpus, count = dice.choice(((1, 1), (1, 1), (1, 1), (2, 1), (3, 1), (2, 2), (1, 3)))
    return QueuedJob(
        id=name,
        team=dice.choice(_teams(world.base)),
        user=dice.choice(USERS),
        pool=dice.choice(POOLS),
        mgpu_per_node=gpus * GPU,
        node_count=count,
        priority_class=dice.choices(_NAMES, (1, 2, 12, 2, 1))[0],
        submitted_at=world.now - dice.choice((0, 0, 5)),
        time_limit_s=dice.choice((None, 20, 20, 100, 5_000)),
        node_count_max=count + 2 if dice.random() < 0.2 else None,
        clusters=frozenset({"c0"}) if dice.random() < 0.1 else None,
        features=frozenset("a") if dice.random() < 0.1 else None,
        required_topology=Level.RACK if count > 1 and dice.random() < 0.2 else None,
        cpu_milli=dice.choice((1, 2, 3, 6)) if dice.random() < 0.2 else None,
        memory_mib=dice.choice((1, 2, 3, 6)) if dice.random() < 0.1 else None,
    )


def _teams(base: Snapshot) -> list[str]:
    """Mostly teams; now and then a node with others below it, or one that is not there."""
    return [*sorted({node.id for node in base.nodes if node.parent is not None} | {"o"}), "gone"]


def _changed(dice: Random, base: Snapshot, now: int) -> Snapshot:
    """The same with one of the facts that seldom change, changed."""
    match dice.randrange(12):
        case 0:
            at = dice.randrange(len(base.devices))
            device = replace(base.devices[at], capacity_mgpu=dice.randint(0, 4) * GPU)
            return replace(base, devices=(*base.devices[:at], device, *base.devices[at + 1 :]))
        case 1:
            return replace(base, clusters=frozenset(dice.sample(("c0", "c1"), dice.randint(1, 2))))
        case 2 if base.quotas:
            at = dice.randrange(len(base.quotas))
            old = base.quotas[at]
            quota = _quota(dice, old.node, old.pool, dice.randint(0, 6), is_open=False)
            return replace(base, quotas=(*base.quotas[:at], quota, *base.quotas[at + 1 :]))
        case 3:
            usage = tuple(
                Usage(team, user, pool, dice.randint(0, 10**8), now - dice.randint(0, 9_000))
                for team in _teams(base)
                for user in USERS
                for pool in POOLS
                if dice.random() < 0.5
            )
            return replace(base, usage=usage)
        case 4:
            balances = tuple(
                Balance(
                    team,
                    dice.choice(POOLS),
                    dice.randint(-(10**11), 10**11),
                    dice.randint(0, 10**9),
                )
                for team in _teams(base)
                if dice.random() < 0.5
            )
            return replace(base, balances=balances)
        case 5:
            number, pool = dice.randint(6, 9), dice.choice(POOLS)
            come = Device(f"c{number % 2}", f"n{number}", pool, 2 * GPU)
            known = {(one.node, one.pool) for one in base.devices}
            return (
                base if (come.node, pool) in known else replace(base, devices=(*base.devices, come))
            )
        case 6 if len(base.devices) > 2:
            at = dice.randrange(len(base.devices))
            return replace(base, devices=(*base.devices[:at], *base.devices[at + 1 :]))
        case 7:
            at = dice.randrange(len(base.devices))
            device = replace(
                base.devices[at],
                features=dice.choice(_FEATURES),
                domains=dice.choice(_PLACES),
                outside_mgpu=dice.randint(0, 2) * GPU,
            )
            return replace(base, devices=(*base.devices[:at], device, *base.devices[at + 1 :]))
        case 8:
            at = dice.randrange(len(CLASSES))
            cls = replace(
                CLASSES[at],
                order=dice.randint(0, 30),
                team_cap_mgpu=dice.choice((None, 2 * GPU)),
                preempts_within_team=dice.random() < 0.5,
            )
            return replace(base, priority_classes=(*CLASSES[:at], cls, *CLASSES[at + 1 :]))
        case 9:
            return replace(base, nodes=tuple(_governed(dice, one) for one in base.nodes))
        case 10 if base.quotas:
            at = dice.randrange(len(base.quotas))
            return replace(base, quotas=(*base.quotas[:at], *base.quotas[at + 1 :]))
        case 11:
            parent = dice.choice([one.id for one in base.nodes if one.parent is None])
            new = f"{parent}/new"
            if any(one.id == new for one in base.nodes):
                left = tuple(one for one in base.nodes if one.id != new)
                return replace(base, nodes=left)
            return replace(base, nodes=(*base.nodes, TreeNode(new, parent)))
        case _:
            weights = (PoolWeight("p", dice.choice((500, 1_000))),)
            node = dice.choice(base.nodes)
            nodes = tuple(
                replace(one, rank=dice.randint(0, 3)) if one is node else one for one in base.nodes
            )
            return replace(base, pool_weights=weights, nodes=nodes)


def _governed(dice: Random, node: TreeNode) -> TreeNode:
    """An organization under another policy of its own."""
    if node.parent is not None:
        return node
    return replace(
        node,
        half_life_s=dice.choice((None, 600, 3_600)),
        spare_order=dice.choice((None, *SpareOrder)),
        min_run_s=dice.choice((None, 0, 30)),
        skips_blocked_within_team=dice.choice((None, True, False)),
    )
