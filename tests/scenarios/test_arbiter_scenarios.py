"""Stored situations and the decisions that they must lead to, as JSON that people can read.

A file holds GPUs in whole numbers: a fleet, quotas, what runs, what waits and what is claimed,
with times in seconds before (negative) or after now; and the plan that must come out. Parts of
the plan that a file does not name are not compared.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arbiter.api.plan import Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import (
    Claim,
    Device,
    Phase,
    PriorityClass,
    QueuedJob,
    Quota,
    RunningJob,
    Slot,
    Snapshot,
    TreeNode,
)
from arbiter.cycle.decide import decide

NOW, GPU = 1_000_000, 1_000
FILES = sorted((Path(__file__).parent / "arbiter").glob("*.json"))


def slots(nodes: dict[str, int]) -> tuple[Slot, ...]:
    return tuple(Slot(node, gpus * GPU) for node, gpus in nodes.items())


def limit(row: dict[str, Any], name: str) -> int | None:
    return None if row.get(name) is None else row[name] * GPU


def snapshot_of(given: dict[str, Any]) -> Snapshot:
    tree = given["tree"]
    devices = [
        Device(
            cluster,
            node,
            "h100",
            gpus * GPU,
            features=frozenset(given.get("features", {}).get(node, ())),
        )
        for cluster, nodes in given["fleet"].items()
        for node, gpus in nodes.items()
    ]
    return Snapshot(
        taken_at=NOW,
        nodes=tuple(
            TreeNode(path, path.rpartition("/")[0] or None, row.get("rank", 0))
            for path, row in tree.items()
        ),
        quotas=tuple(
            Quota(path, "h100", row["guaranteed"] * GPU, limit(row, "lend"), limit(row, "borrow"))
            for path, row in tree.items()
            if "guaranteed" in row
        ),
        priority_classes=(
            PriorityClass("critical", 1000, preempts_within_team=True),
            PriorityClass("normal", 10),
            PriorityClass("low", 1, grace_period_s=60),
        ),
        devices=tuple(devices),
        clusters=frozenset(given.get("answering", given["fleet"])),
        running=tuple(
            RunningJob(
                job=job,
                attempt=f"{job}.1",
                team=row["team"],
                user="user",
                pool="h100",
                cluster=row.get("cluster", "alpha"),
                slots=slots(row["on"]),
                priority_class=row.get("class", "normal"),
                submitted_at=NOW + row["since"],
                started_at=NOW + row["since"],
                phase=Phase(row.get("phase", "running")),
                checkpoint_at=NOW + row["checkpoint"] if "checkpoint" in row else None,
                grace_until=NOW + row["grace_until"] if "grace_until" in row else None,
                beneficiary=row.get("for"),
            )
            for job, row in given.get("running", {}).items()
        ),
        queued=tuple(
            QueuedJob(
                id=job,
                team=row["team"],
                user="user",
                pool="h100",
                mgpu_per_node=row["gpus_per_node"] * GPU,
                node_count=row.get("nodes", 1),
                priority_class=row.get("class", "normal"),
                submitted_at=NOW + row["since"],
                clusters=frozenset({row["cluster"]}) if "cluster" in row else None,
                features=frozenset(row["features"]) if "features" in row else None,
            )
            for job, row in given.get("queued", {}).items()
        ),
        claims=tuple(
            Claim(job, row.get("cluster", "alpha"), slots(row["on"]), NOW + row["grace_until"])
            for job, row in given.get("claims", {}).items()
        ),
    )


def shown(plan: Plan) -> dict[str, Any]:
    """The plan in the words of the files."""
    return {
        "starts": {
            start.job: {slot.node: slot.mgpu // GPU for slot in start.slots}
            for start in plan.starts
        },
        "reclaims": {
            reclaim.job: {
                "on": {slot.node: slot.mgpu // GPU for slot in reclaim.slots},
                "victims": [victim.job for victim in reclaim.victims],
            }
            for reclaim in plan.reclaims
        },
        "dropped": list(plan.dropped_claims),
        "waiting": {one.job: one.code.value for one in plan.waiting},
        "in_use": {use.node: use.in_use_mgpu // GPU for use in plan.use},
        "borrowed": {use.node: use.borrowed_mgpu // GPU for use in plan.use},
        "lent": {use.node: use.lent_mgpu // GPU for use in plan.use},
        "available": {use.node: use.available_mgpu // GPU for use in plan.use},
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_situation_leads_to_its_plan(file: Path) -> None:
    scenario = json.loads(file.read_text())
    plan = shown(decide(snapshot_of(scenario["given"]), Policy()))
    expected = scenario["then"]
    assert {part: plan[part] for part in expected} == expected


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 6
