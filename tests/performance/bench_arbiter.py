"""How long one cycle takes: python tests/performance/bench_arbiter.py [--smoke]

Prints milliseconds of CPU time (min / median / max) of `decide` for 1,000 teams in three levels
and 1,250 nodes of 8 GPUs with 10,000 jobs queued and 1,000 running: nothing free, 2 % of the
running just ended, the same with as many reclaims as one cycle may make, and nothing running with
as many starts as one cycle may make. First with two kinds of jobs in each team, as teams have;
then with every job of a random kind, which leaves next to nothing to decide once for many.
Last 10,000 nodes, 100,000 queued and 10,000 running, where nobody asks for features and where
jobs ask for 20 and for 300 different sets of nodes by them. And where the nodes stand in 32 blocks
of 20 racks, with jobs that do not mind, and with gangs that require or prefer a rack or a block.
The fleet by whose figures the core is judged, and a core that lives on, are in `bench_scale.py`.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from dataclasses import replace

from arbiter.api.policy import Policy
from arbiter.api.snapshot import (
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
from arbiter.cycle.decide import decide

NOW = 1_000_000
CLASSES = (
    PriorityClass("high", 100, preempts_within_team=True),
    PriorityClass("normal", 10),
    PriorityClass("low", 1, grace_period_s=60),
)
SHAPES = ((1000, 1), (2000, 1), (4000, 1), (8000, 1), (8000, 2), (8000, 4))


def tree(
    teams: int, devices: int
) -> tuple[tuple[TreeNode, ...], tuple[Quota, ...], tuple[str, ...]]:
    """10 organizations, 100 departments and `teams` teams that share all GPUs evenly."""
    nodes, quotas, leaves = [], [], []
    per_team = devices * 8_000 // teams
    for i in range(teams):
        org, dept, team = f"o{i % 10}", f"o{i % 10}/d{i % 100}", f"o{i % 10}/d{i % 100}/t{i}"
        leaves.append(team)
        for node, parent in ((org, None), (dept, org), (team, dept)):
            nodes.append(TreeNode(node, parent, rank=i % 3 if node == dept else 0))
            share = teams // 10 if parent is None else min(teams, teams // 100 or 1)
            share = 1 if node == team else share
            quotas.append(Quota(node, "h100", per_team * share, None, None))
    unique = {node.id: node for node in nodes}
    return (
        tuple(unique.values()),
        tuple({quota.node: quota for quota in quotas}.values()),
        tuple(leaves),
    )


def world(
    *, queued: int, running: int, devices: int, teams: int, kinds: int | None, seed: int
) -> Snapshot:
    """A snapshot in which `running` attempts hold every node whole; `kinds`: how many kinds of
    jobs a team has, None for any."""
    dice = random.Random(seed)
    nodes, quotas, leaves = tree(teams, devices)
    free = [(f"n{i:05d}", 8_000) for i in range(devices)]
    held: list[RunningJob] = []
    at = 0
    for i in range(running):
        count = max(1, (devices * (i + 1)) // running - at)
        if at + count > devices:
            break
        slots = tuple(Slot(node, mgpu) for node, mgpu in free[at : at + count])
        at += count
        held.append(
            RunningJob(
                job=f"r{i}",
                attempt=f"r{i}.1",
                team=dice.choice(leaves),
                user="u",
                pool="h100",
                cluster="c",
                slots=slots,
                priority_class=dice.choice(CLASSES).id,
                submitted_at=NOW - 9_000,
                started_at=NOW - dice.randrange(8_000),
                time_limit_s=86_400,
            )
        )
    every = [(shape, cls.id) for shape in SHAPES for cls in CLASSES]
    kinds_of = {leaf: dice.sample(every, kinds or len(every)) for leaf in leaves}
    jobs = []
    for i in range(queued):
        team = dice.choice(leaves)
        (mgpu, count), priority_class = dice.choice(kinds_of[team])
        jobs.append(
            QueuedJob(
                id=f"q{i:06d}",
                team=team,
                user="u",
                pool="h100",
                mgpu_per_node=mgpu,
                node_count=count,
                priority_class=priority_class,
                submitted_at=NOW - dice.randrange(50_000),
            )
        )
    return Snapshot(
        taken_at=NOW,
        nodes=nodes,
        quotas=quotas,
        priority_classes=CLASSES,
        devices=tuple(Device("c", f"n{i:05d}", "h100", 8_000) for i in range(devices)),
        clusters=frozenset({"c"}),
        running=tuple(held),
        queued=tuple(jobs),
    )


def asking(snapshot: Snapshot, sets: int) -> Snapshot:
    """The same where each node lacks one of ten features, and each job asks for one of `sets`
    choices of them: as many different sets of nodes, each of most of them or of a few."""
    dice = random.Random(sets)
    names = [f"f{i}" for i in range(10)]
    choices: set[frozenset[str]] = set()
    while len(choices) < sets:
        choices.add(frozenset(dice.sample(names, dice.randrange(1, 9))))
    asked = sorted(choices, key=sorted)
    return replace(
        snapshot,
        devices=tuple(
            replace(device, features=frozenset(names) - {names[i % 10]})
            for i, device in enumerate(snapshot.devices)
        ),
        queued=tuple(replace(job, features=dice.choice(asked)) for job in snapshot.queued),
    )


def standing(snapshot: Snapshot, *, wished: bool) -> Snapshot:
    """The same with 16 nodes in a rack and 20 racks in a block; `wished`: gangs ask by turns for
    one rack, for one block, for a rack if there is room, and for nothing."""
    wishes = (
        {"required_topology": Level.RACK},
        {"required_topology": Level.BLOCK},
        {"preferred_topology": Level.RACK},
        {},
    )
    places = [Domains(f"b{i // 20}", f"r{i}") for i in range(len(snapshot.devices) // 16 + 1)]
    return replace(
        snapshot,
        devices=tuple(
            replace(device, domains=places[i // 16]) for i, device in enumerate(snapshot.devices)
        ),
        queued=tuple(
            replace(job, **wishes[i % 4]) if wished and job.node_count > 1 else job
            for i, job in enumerate(snapshot.queued)
        ),
    )


def classed(snapshot: Snapshot) -> Snapshot:
    """The same, with every attempt's guaranteed part as the last cycle left it."""
    plan = decide(replace(snapshot, queued=()), Policy())
    parts = {one.attempt: one.guaranteed_mgpu for one in plan.classed}
    return replace(
        snapshot,
        running=tuple(
            replace(run, guaranteed_mgpu=parts.get(run.attempt, 0)) for run in snapshot.running
        ),
    )


def measure(name: str, snapshot: Snapshot, policy: Policy, rounds: int) -> None:
    """Print the times of `rounds` cycles over one snapshot."""
    times = []
    plan = decide(snapshot, policy)
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        plan = decide(snapshot, policy)
        times.append((time.process_time() - start) * 1000)
    print(
        f"{name:<26} {len(snapshot.queued):>7} {len(snapshot.running):>8}"
        f" {len(plan.starts):>7} {len(plan.reclaims):>9}"
        f"   {min(times):7.1f} {statistics.median(times):7.1f} {max(times):7.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small numbers, one round")
    smoke = parser.parse_args().smoke
    size = (
        {"queued": 200, "running": 20, "devices": 25, "teams": 100}
        if smoke
        else {"queued": 10_000, "running": 1_000, "devices": 1_250, "teams": 1_000}
    )
    rounds = 1 if smoke else 15
    print(f"{'case':<26} {'queued':>7} {'running':>8} {'starts':>7} {'reclaims':>9}", end="")
    print("   ms: min  median     max")
    no_reclaim = Policy(reclaims_max=0)
    for kinds, name in ((2, "2 kinds a team"), (None, "any kinds")):
        full = classed(world(**size, kinds=kinds, seed=1))
        cut = len(full.running) * 98 // 100
        steady = replace(full, running=full.running[:cut])
        measure(f"full, {name}", full, no_reclaim, rounds)
        measure(f"steady, {name}", steady, no_reclaim, rounds)
        measure(f"reclaims, {name}", steady, Policy(), rounds)
        measure(f"empty, {name}", replace(full, running=()), Policy(), rounds)
    measure("nothing queued", replace(full, queued=()), Policy(), rounds)
    if not smoke:
        size = {"queued": 100_000, "running": 10_000, "devices": 10_000, "teams": 1_000}
        rounds = 3
    full = classed(world(**size, kinds=2, seed=1))
    for sets in (0, 20, 300):
        asked = asking(full, sets) if sets else full
        steady = replace(asked, running=asked.running[: len(asked.running) * 98 // 100])
        measure(f"full, {sets} sets", asked, no_reclaim, rounds)
        measure(f"reclaims, {sets} sets", steady, Policy(), rounds)
        measure(f"empty, {sets} sets", replace(asked, running=()), Policy(), rounds)
    for wished, name in ((False, "racks, no wishes"), (True, "racks, wishes")):
        asked = standing(full, wished=wished)
        steady = replace(asked, running=asked.running[: len(asked.running) * 98 // 100])
        measure(f"full, {name}", asked, no_reclaim, rounds)
        measure(f"steady, {name}", steady, no_reclaim, rounds)
        measure(f"reclaims, {name}", steady, Policy(), rounds)
        measure(f"empty, {name}", replace(asked, running=()), Policy(), rounds)


if __name__ == "__main__":
    main()
