"""Finding victims for a gang of 512 GPUs among 20,000 running jobs.

    python tests/performance/bench_victims.py [--smoke]

80,000 GPUs on 10,000 nodes, no GPU free; 999 teams borrow three quarters of what they hold, and a
team that uses nothing of its 512 GPUs asks for 64 whole nodes. Jobs hold 1, 2, 4 or 8 GPUs, or 2 or
4 whole nodes. Printed: CPU time of all that is done for the victims in one cycle, from the question
whether there are any; by a core that lives on, and by one that was just told everything. Target:
50 ms for the first. Then the same where 100 teams ask for 8 nodes each in one cycle.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from arbiter.api.plan import Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import (
    Device,
    PriorityClass,
    QueuedJob,
    Quota,
    RunningJob,
    Slot,
    Snapshot,
    TreeNode,
)
from arbiter.cycle.decide import decide
from arbiter.cycle.scheduler import Core
from arbiter.preemption.reclaim import Reclaimer

NOW = 1_000_000
TARGET_MS = 50
SIZES = (1,) * 4 + (2,) * 2 + (4,) * 3 + (8,) * 8 + (16, 32)


def world(*, nodes: int, teams: int, gang: int, askers: int = 1) -> Snapshot:
    """Every node full, and the first `askers` teams want `gang` nodes each back."""
    dice = random.Random(1)
    leaves = [f"o{i % 10}/d{i % 100}/t{i}" for i in range(teams)]
    share = (nodes - gang * askers) * 8_000 // (teams - askers) // 4
    guaranteed: dict[str, int] = {}
    for number, leaf in enumerate(leaves):
        mgpu = gang * 8_000 if number < askers else share
        for node in (leaf, leaf.rpartition("/")[0], leaf.partition("/")[0]):
            guaranteed[node] = guaranteed.get(node, 0) + mgpu
    running: list[RunningJob] = []
    order = dice.sample(range(nodes), nodes)
    while order:
        left = 8
        node = order.pop()
        while left:
            size = dice.choice([size for size in SIZES if size <= left or left == 8])
            on = [node, *(order.pop() for _ in range(min(size // 8 - 1, len(order))))]
            gpus = min(size, 8)
            left -= gpus
            running.append(
                RunningJob(
                    job=f"r{len(running)}",
                    attempt=f"r{len(running)}.1",
                    team=dice.choice(leaves[askers:]),
                    user="u",
                    pool="h100",
                    cluster="c",
                    slots=tuple(Slot(f"n{one:05d}", gpus * 1_000) for one in sorted(on)),
                    priority_class="normal",
                    submitted_at=0,
                    started_at=NOW - dice.randrange(90_000),
                )
            )
    return Snapshot(
        taken_at=NOW,
        nodes=tuple(TreeNode(node, node.rpartition("/")[0] or None) for node in guaranteed),
        quotas=tuple(Quota(node, "h100", mgpu) for node, mgpu in guaranteed.items()),
        priority_classes=(PriorityClass("normal", 10),),
        devices=tuple(Device("c", f"n{i:05d}", "h100", 8_000) for i in range(nodes)),
        clusters=frozenset({"c"}),
        running=tuple(running),
        queued=tuple(
            QueuedJob(f"j{i}", leaves[i], "u", "h100", 8_000, gang, "normal", NOW - 9)
            for i in range(askers)
        ),
    )


class Looked:
    """How long is spent on victims in `Reclaimer`, in milliseconds of CPU time."""

    def __init__(self) -> None:
        self.spent_ms = 0.0
        self._depth = 0
        for name in ("may_find", "could_be_freed", "find"):
            self._note(name)

    def _note(self, name: str) -> None:
        original: Callable[..., Any] = getattr(Reclaimer, name)

        def measured(*args: Any) -> Any:
            begin = time.process_time()
            self._depth += 1
            try:
                return original(*args)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.spent_ms += (time.process_time() - begin) * 1000

        setattr(Reclaimer, name, measured)

    def during(self, act: Callable[[], Plan]) -> tuple[Plan, float]:
        """What was spent on victims while a cycle decided."""
        gc.collect()
        gc.disable()
        before = self.spent_ms
        plan = act()
        gc.enable()
        return plan, self.spent_ms - before


def main() -> None:
    """Decide a few times, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small numbers, one round")
    smoke = parser.parse_args().smoke
    size = {"nodes": 200, "teams": 20, "gang": 4} if smoke else {
        "nodes": 10_000, "teams": 1_000, "gang": 64
    }  # fmt: skip
    rounds = 1 if smoke else 7
    looked = Looked()
    snapshot = world(**size)
    core = Core.of(snapshot, Policy())
    first, _ = looked.during(lambda: core.cycle(NOW))
    told = [looked.during(lambda: decide(snapshot, Policy()))[1] for _ in range(rounds)]
    living = [looked.during(lambda: core.cycle(NOW))[1] for _ in range(rounds)]
    (claim,) = first.reclaims
    held = sum(victim.mgpu for victim in claim.victims) // 1_000
    print(f"{len(snapshot.running)} running; {len(claim.victims)} victims with {held} GPUs")
    for name, times in (("a core that lives on", living), ("told everything", told)):
        print(f"{name:<21} min {min(times):6.1f}  median {statistics.median(times):6.1f} ms")
    word = "met" if statistics.median(living) < TARGET_MS else "NOT met"
    print(f"target {TARGET_MS} ms for the first: {word}")
    askers = 2 if smoke else 100
    many = world(**{**size, "gang": size["gang"] // 8 or 1, "askers": askers})
    plan, spent_ms = looked.during(lambda: decide(many, Policy()))
    print(f"{len(plan.reclaims)} such claims in one cycle: {spent_ms:.0f} ms for their victims")


if __name__ == "__main__":
    main()
