"""The fair-share of nodes in the numbers of the arbiter's own reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from arbiter.api.policy import Policy
from arbiter.api.snapshot import Phase, Snapshot
from arbiter.cycle.decide import decide
from arbiter.explain.fair_shares import NodeFairShare, fair_shares
from builders.arbiter_builders import NOW, a_queued, a_quota, a_running, a_snapshot, devices, slots

HOUR_S = 3_600


def shares_of(snapshot: Snapshot, policy: Policy | None = None) -> Mapping[str, NodeFairShare]:
    return fair_shares(
        "h100",
        nodes=snapshot.nodes,
        quotas=snapshot.quotas,
        priority_classes=snapshot.priority_classes,
        pool_weights=snapshot.pool_weights,
        usage=snapshot.usage,
        running=snapshot.running,
        policy=policy or Policy(),
        at=snapshot.taken_at,
    )


def test_the_numbers_are_those_of_the_reason_behind_fair_share() -> None:
    """A job waits behind fair-share; the node that its reason names has the same numbers here.

    Planted: the charge for starting attempts is left out.
    """
    snapshot = a_snapshot(
        quotas={"x": 0, "x/a": 0, "x/b": 0},
        devices=devices(1),
        queued=[a_queued("a", "x/a", gpus=8), a_queued("b", "x/b", gpus=8)],
        used={("x/a", "alice"): 600_000, ("x/b", "bob"): 100_000},
    )
    plan = decide(snapshot, Policy())
    (waiting,) = plan.waiting
    assert waiting.node == "x/a"
    started = a_running("b", "x/b", slots(0, 1), phase=Phase.STARTING, started_at=NOW)
    share = shares_of(replace(snapshot, running=(started,)))["x/a"]
    assert (share.weight_permille, share.used_permille) == (
        waiting.numbers["weight_permille"],
        waiting.numbers["used_permille"],
    )
    assert (share.weight_permille, share.used_permille, share.level_permille) == (500, 823, 607)
    assert (share.place, share.siblings) == (2, 2)


def test_weights_and_use_of_siblings() -> None:
    """Against: a node is compared with all nodes; use of a team does not count above it."""
    snapshot = a_snapshot(
        quotas=[
            a_quota("x", 8),
            a_quota("x/a", 4, weight=300),
            a_quota("x/b", 4, weight=100),
            a_quota("x/c", 0, weight=100),
        ],
        devices=devices(1),
        used={("x/a", "alice"): 3_000, ("x/b", "bob"): 1_000},
    )
    found = shares_of(snapshot)
    assert [
        (name, share.weight, share.weight_of_siblings, share.used_mgpu_s, share.level_permille)
        for name, share in sorted(found.items())
    ] == [
        ("x", 100, 100, 4_000_000, 1_000),
        ("x/a", 300, 500, 3_000_000, 800),
        ("x/b", 100, 500, 1_000_000, 800),
        ("x/c", 100, 500, 0, None),
    ]
    # Equal loads share a place.
    assert [found[name].place for name in ("x/a", "x/b", "x/c")] == [2, 2, 1]


def test_use_halves_in_each_half_life() -> None:
    """Against: use counts in full at any age."""
    snapshot = a_snapshot(
        quotas={"x": 0, "x/a": 0}, devices=devices(1), used={("x/a", "alice"): 1_000}
    )
    policy = Policy(fair_share_half_life_s=HOUR_S)
    later = replace(snapshot, taken_at=NOW + 2 * HOUR_S)
    assert shares_of(later, policy)["x/a"].used_mgpu_s == 250_000
