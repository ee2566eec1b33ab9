"""A stored snapshot gives the same decision again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from arbiter.cycle import decide
from arbiter.policy import Policy
from arbiter.replay import plan_to_json, snapshot_from_json, snapshot_to_json
from builders.arbiter_builders import (
    NOW,
    a_claim,
    a_queued,
    a_quota,
    a_running,
    a_snapshot,
    a_victim,
    devices,
    slots,
)

SNAPSHOT = a_snapshot(
    quotas=[a_quota("o", 16), a_quota("o/a", 8, lend=4, borrow=0), a_quota("o/b", 8)],
    ranks={"o/a": 2},
    devices=tuple(replace(device, features=frozenset("abc")) for device in devices(2)),
    running=[
        a_running("r", "o/b", slots(0, 1), time_limit_s=60, guaranteed_mgpu=0),
        a_victim("v", "o/b", slots(1, 1, gpus=4), of="j", checkpoint_at=NOW - 5),
    ],
    queued=[
        replace(a_queued("j", "o/a", gpus=8, cluster="alpha"), features=frozenset("ab")),
        a_queued("k", "o/b", nodes=2),
    ],
    claims=[a_claim("j", slots(1, 1))],
)


def test_a_snapshot_survives_json() -> None:
    text = snapshot_to_json(SNAPSHOT)
    again = snapshot_from_json(text)
    assert again == SNAPSHOT
    assert snapshot_to_json(again) == text
    assert decide(again, Policy()) == decide(SNAPSHOT, Policy())


def test_defaults_are_left_out() -> None:
    rows = json.loads(snapshot_to_json(SNAPSHOT))
    assert "cluster" not in rows["queued"][1]
    assert rows["nodes"][1] == {"id": "o/a", "parent": "o", "rank": 2}


def test_a_plan_is_readable() -> None:
    plan = json.loads(plan_to_json(decide(SNAPSHOT, Policy())))
    assert plan["taken_at"] == NOW
    assert [(one["job"], one["code"]) for one in plan["waiting"]] == [
        ("j", "waiting_for_reclaim"),
        ("k", "waiting_for_free_gpus"),
    ]


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"taken_at": 1, "nodes": [{"name": "x"}]}', "nonsense"]
)
def test_json_that_is_no_snapshot_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no snapshot|Expecting value"):
        snapshot_from_json(text)
