"""Jobs that ask for features: where they start, what they wait for, whose GPUs come back (R-41)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arbiter.api.plan import Code, Plan, Waiting
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Device, QueuedJob, Slot, Snapshot
from arbiter.cycle.decide import decide
from arbiter.explain.sentences import sentence
from arbiter.placement.capacity import Layout
from arbiter.placement.free_devices import FreeDevices, Place, Shape
from arbiter.placement.node_sets import Levels, NodeKinds
from builders.arbiter_builders import (
    GPU,
    NOW,
    a_claim,
    a_queued,
    a_running,
    a_snapshot,
    a_victim,
    slots,
)

NAMES = {"h100": "h100", "alpha": "alpha"}


def fleet(*features: str, gpus: int = 8, cluster: str = "alpha") -> tuple[Device, ...]:
    """One node for each text of features with spaces between."""
    return tuple(
        Device(cluster, f"{cluster}-{i:03d}", "h100", gpus * GPU, features=frozenset(has.split()))
        for i, has in enumerate(features)
    )


def asking(job: QueuedJob, *features: str) -> QueuedJob:
    return replace(job, features=frozenset(features))


def placed(plan: Plan) -> dict[str, list[str]]:
    return {start.job: [slot.node for slot in start.slots] for start in plan.starts}


def waiting(plan: Plan, job: str) -> Waiting:
    return next(one for one in plan.waiting if one.job == job)


def decided(snapshot: Snapshot) -> Plan:
    return decide(snapshot, Policy())


# -- kinds of nodes -----------------------------------------------------------------------------


def members(kinds: NodeKinds, features: str, cluster: str = "alpha") -> set[str]:
    """The numbers of the nodes that have each letter of `features`."""
    found = kinds.having(frozenset(features))
    assert found is not None
    return {number for number in "0123456789" if kinds.has(found, cluster, f"{cluster}-00{number}")}


def test_a_set_of_features_is_the_set_of_the_nodes_that_have_them_all() -> None:
    kinds = NodeKinds((*fleet("a b", "b", "", "b a c"), *fleet("a", cluster="beta")))
    assert members(kinds, "b") == {"0", "1", "3"}
    assert members(kinds, "ab") == {"0", "3"}
    assert members(kinds, "a") == {"0", "3"}
    assert members(kinds, "c") == {"3"}
    assert members(kinds, "bd") == members(kinds, "b", "gamma") == set()
    assert members(kinds, "a", "beta") == {"0"}


def test_features_that_the_same_nodes_have_are_the_same_set() -> None:
    kinds = NodeKinds(fleet("a b", "b", "", "a b c"))
    assert kinds.having(frozenset("ab")) == kinds.having(frozenset("a"))
    assert kinds.having(frozenset("x")) == kinds.having(frozenset({"y", "b"}))
    numbers = {kinds.having(frozenset(features)) for features in ("a", "ab", "b", "c", "x")}
    assert len(numbers) == 4


def test_what_excludes_no_node_is_no_wish() -> None:
    kinds = NodeKinds(fleet("a b", "a"))
    assert kinds.having(None) is kinds.having(frozenset()) is kinds.having(frozenset("a")) is None
    assert NodeKinds(()).having(frozenset("a")) is None


def test_two_devices_of_one_node_share_their_features() -> None:
    (device,) = fleet("a")
    kinds = NodeKinds((device, replace(device, features=frozenset("b")), *fleet("", cluster="b")))
    assert members(kinds, "ab") == {"0"}


def test_nodes_stand_once_by_what_is_free_however_many_sets_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once by what is free, once by size and once by what could be taken back, for 255 sets.

    Mutant: a set had nodes by what is free of its own (255 times).
    """
    sorted_clusters = []
    levels = NodeKinds.levels

    def counted(kinds: NodeKinds, cluster: str, mgpu: dict[str, int]) -> Levels:
        sorted_clusters.append(cluster)
        return levels(kinds, cluster, mgpu)

    monkeypatch.setattr(NodeKinds, "levels", counted)
    names = "abcdefgh"
    sets = [{name for i, name in enumerate(names) if bits >> i & 1} for bits in range(1, 256)]
    plan = decided(
        a_snapshot(
            quotas={"o": 72, "o/t": 64, "o/s": 8},
            devices=fleet(*(" ".join(set(names) - {name}) for name in names), " ".join(names)),
            running=[a_running(f"r{i}", "o/s", slots(i, 1)) for i in range(1, 9)],
            queued=[
                asking(a_queued(f"j{i:03d}", "o/t", gpus=8), *features)
                for i, features in enumerate(sets)
            ],
        )
    )
    assert len(plan.waiting) + len(plan.starts) == 255
    assert len(plan.reclaims) == 7
    assert sorted_clusters == ["alpha"] * 3


# -- placement ----------------------------------------------------------------------------------


def test_only_nodes_of_the_kinds_are_counted_and_taken() -> None:
    """Mutant: what had no room on nodes of some kinds was taken to have none anywhere."""
    kinds = NodeKinds(fleet("a", "", "a", "a"))
    free = FreeDevices(
        {"alpha": {"alpha-000": 8, "alpha-001": 2, "alpha-002": 4, "alpha-003": 3}}, kinds
    )
    a = kinds.having(frozenset("a"))
    assert free.find(Shape(2, 1, None, 2)) == Place("alpha", ("alpha-001",))
    assert free.find(Shape(2, 1, None, 2, a)) == Place("alpha", ("alpha-003",))
    assert free.find(Shape(2, 4, None, 8, a)) is None
    assert free.fits(Shape(2, 4, None, 8))
    assert (free.total_free(None, a), free.largest_free(None, a), free.total_free()) == (15, 15, 17)
    assert (
        free.count("alpha", Shape(4, 1, None, 4, a)),
        free.fitting_nodes(Shape(3, 1, None, 3, a)),
    ) == (2, 3)


def test_what_is_taken_is_taken_for_every_set() -> None:
    """Mutant: `take` renewed the list of all nodes only."""
    kinds = NodeKinds(fleet("a b", "a", ""))
    free = FreeDevices({"alpha": {"alpha-000": 8, "alpha-001": 8, "alpha-002": 8}}, kinds)
    a, ab = kinds.having(frozenset("a")), kinds.having(frozenset("ab"))
    assert (
        free.count("alpha", Shape(8, 1, None, 8, a)),
        free.count("alpha", Shape(8, 1, None, 8, ab)),
    ) == (2, 1)
    free.take("alpha", "alpha-000", 5)
    assert (
        free.count("alpha", Shape(8, 1, None, 8, a)),
        free.count("alpha", Shape(8, 1, None, 8, ab)),
    ) == (1, 0)
    assert free.find(Shape(3, 1, None, 3, a)) == Place("alpha", ("alpha-000",))
    free.take("alpha", "alpha-002", 8)
    assert free.count("alpha", Shape(8, 1, None, 8, a)) == 1
    free.take("alpha", "alpha-000", -5)
    assert (
        free.count("alpha", Shape(8, 1, None, 8, a)),
        free.count("alpha", Shape(8, 1, None, 8, ab)),
    ) == (2, 1)


def test_a_layout_counts_the_nodes_of_the_kinds() -> None:
    kinds = NodeKinds((*fleet("a", "a", ""), *fleet("a", cluster="beta")))
    layout = Layout(
        {"alpha": {"alpha-000": 8, "alpha-001": 0, "alpha-002": 8}, "beta": {"beta-000": 4}}, kinds
    )
    a = kinds.having(frozenset("a"))
    assert [layout.holds(Shape(8, count, None, 8, a)) for count in (1, 2, 3)] == [True, True, False]
    assert layout.nodes_of_kinds(Shape(99, 1, None, 99, a)) == 2
    assert layout.nodes_of_kinds(Shape(99, 1, frozenset({"beta"}), 99, a)) == 1
    nobody = kinds.having(frozenset("x"))
    assert layout.nodes_of_kinds(Shape(8, 1, None, 8, nobody)) == 0


# -- starts -------------------------------------------------------------------------------------


def test_a_job_starts_on_nodes_that_have_all_that_it_asks_for() -> None:
    plan = decided(
        a_snapshot(
            quotas={"o": 32, "o/t": 32},
            devices=fleet("", "ib", "ib nvlink", "nvlink"),
            queued=[
                asking(a_queued("both", "o/t", gpus=8), "ib", "nvlink"),
                asking(a_queued("gang", "o/t", gpus=4, nodes=2), "nvlink"),
                a_queued("any", "o/t", gpus=8),
            ],
        )
    )
    assert placed(plan) == {"both": ["alpha-002"], "any": ["alpha-000"]}
    gang = waiting(plan, "gang")
    assert gang.code is Code.TOPOLOGY_FRAGMENTED
    assert sentence(gang, asking(a_queued("gang", "o/t", gpus=4, nodes=2), "nvlink"), NAMES) == (
        "8 GPUs are free on one cluster, but scattered: it needs 2 nodes of one cluster with the"
        " feature nvlink and 4 free each, and 1 has."
    )


def test_a_job_waits_for_busy_nodes_that_have_it_while_others_are_free() -> None:
    snapshot = a_snapshot(
        quotas={"o": 24, "o/t": 24},
        devices=fleet("ib", "", ""),
        running=[a_running("r", "o/t", slots(0, 1), time_limit_s=100)],
        queued=[asking(a_queued("j", "o/t", gpus=8), "ib"), a_queued("other", "o/t", gpus=8)],
    )
    plan = decided(snapshot)
    assert placed(plan) == {"other": ["alpha-001"]}
    reason = waiting(plan, "j")
    assert reason.code is Code.WAITING_FOR_GUARANTEE
    assert (reason.numbers["free_mgpu"], reason.numbers["largest_free_on_a_cluster_mgpu"]) == (0, 0)
    assert (reason.latest, reason.method) == (NOW + 50, "time_limits")
    assert sentence(reason, snapshot.queued[0], NAMES) == (
        "Your team is entitled to these 8 GPUs. 0 are free on one cluster on nodes with the feature"
        " ib, and no jobs can be preempted now to free the rest."
    )


def test_the_end_of_a_job_elsewhere_is_no_estimate() -> None:
    plan = decided(
        a_snapshot(
            quotas={"o": 16, "o/t": 16},
            devices=fleet("ib", ""),
            running=[
                a_running("here", "o/t", slots(0, 1), time_limit_s=500),
                a_running("there", "o/t", slots(1, 1), time_limit_s=100),
            ],
            queued=[asking(a_queued("j", "o/t", gpus=8), "ib")],
        )
    )
    assert waiting(plan, "j").latest == NOW + 450


def test_what_no_node_has_never_fits_and_says_so() -> None:
    queued = [
        asking(a_queued("gold", "o/t"), "gold"),
        asking(a_queued("apart", "o/t"), "nvlink", "ib"),
        asking(a_queued("few", "o/t", nodes=2), "ib"),
        asking(replace(a_queued("pinned", "o/t"), clusters=frozenset({"alpha"})), "gold"),
        asking(replace(a_queued("some", "o/t"), clusters=frozenset({"alpha", "x"})), "gold"),
        asking(a_queued("large", "o/t", gpus=9), "ib"),
    ]
    snapshot = a_snapshot(
        quotas={"o": 24, "o/t": 24}, devices=fleet("ib", "nvlink", ""), queued=queued
    )
    plan = decided(snapshot)
    assert {one.job: one.code for one in plan.waiting} == dict.fromkeys(
        ("gold", "apart", "few", "pinned", "some", "large"), Code.NEVER_FITS
    )
    begin = "This job will never start as it is: "
    told = {
        one.job: sentence(one, next(job for job in queued if job.id == one.job), NAMES)
        for one in plan.waiting
    }
    assert told == {
        "gold": f"{begin}no node of pool h100 has the feature gold.",
        "apart": f"{begin}no node of pool h100 has the features ib, nvlink together.",
        "few": f"{begin}of pool h100 at most 1 node of one cluster has the feature ib, and it needs"
        " 2.",
        "pinned": f"{begin}no node of pool h100 on alpha has the feature gold.",
        "some": f"{begin}no node of pool h100 on the clusters that may run it has the feature"
        " gold.",
        "large": "This job asks for 9 GPUs on nodes with the feature ib and will never start as it"
        " is: your team can get no such GPUs in this pool.",
    }
    numbers = {one.job: one.numbers["nodes_with_features"] for one in plan.waiting}
    assert numbers == {"gold": 0, "apart": 0, "few": 1, "pinned": 0, "some": 0, "large": 1}


def test_a_drained_node_may_come_back_with_what_it_has() -> None:
    drained, other = fleet("ib", "")
    plan = decided(
        a_snapshot(
            quotas={"o": 16, "o/t": 16},
            devices=(replace(drained, capacity_mgpu=0), other),
            queued=[asking(a_queued("j", "o/t", gpus=8), "ib")],
        )
    )
    assert waiting(plan, "j").code is Code.WAITING_FOR_GUARANTEE


def test_other_features_that_the_same_nodes_have_are_the_same_wish() -> None:
    """First come, first served among them, as among equal jobs."""
    plan = decided(
        a_snapshot(
            quotas={"o": 16, "o/t": 16},
            devices=fleet("ib nvlink", ""),
            queued=[
                asking(a_queued("later", "o/t", gpus=8, submitted_at=NOW - 5), "ib"),
                asking(a_queued("first", "o/t", gpus=8, submitted_at=NOW - 9), "nvlink"),
            ],
        )
    )
    assert placed(plan) == {"first": ["alpha-000"]}


# -- reclaim ------------------------------------------------------------------------------------


def test_only_what_holds_nodes_that_help_is_taken_back() -> None:
    """The cheaper victim (the younger one) holds a node without the feature.

    Mutants: what comes free counted on any node; the nodes of the claim chosen among all.
    """
    plan = decided(
        a_snapshot(
            quotas={"o": 24, "o/t": 8, "o/s": 8},
            devices=fleet("", "ib", ""),
            running=[
                a_running("young", "o/s", slots(0, 1), started_at=NOW - 10),
                a_running("old", "o/s", slots(1, 1), started_at=NOW - 5000),
                a_running("own", "o/s", slots(2, 1), started_at=NOW - 9000),
            ],
            queued=[asking(a_queued("j", "o/t", gpus=8), "ib")],
        )
    )
    (reclaim,) = plan.reclaims
    assert [victim.job for victim in reclaim.victims] == ["old"]
    assert reclaim.slots == (Slot("alpha-001", 8 * GPU),)


def test_nothing_is_stopped_where_it_cannot_help() -> None:
    """What has the feature is protected; the borrowed job on the other node runs on."""
    plan = decided(
        a_snapshot(
            quotas={"o": 16, "o/t": 8, "o/s": 8},
            devices=fleet("ib", ""),
            running=[
                a_running("protected", "o/s", slots(0, 1), started_at=NOW - 5000),
                a_running("borrowed", "o/s", slots(1, 1), started_at=NOW - 10),
            ],
            queued=[asking(a_queued("j", "o/t", gpus=8), "ib")],
        )
    )
    assert plan.reclaims == ()
    assert waiting(plan, "j").code is Code.WAITING_FOR_GUARANTEE


def test_free_nodes_that_have_it_are_joined_by_victims() -> None:
    """Mutants: a free node without the feature counted as ready, or taken into the claim."""
    plan = decided(
        a_snapshot(
            quotas={"o": 32, "o/t": 16, "o/s": 8},
            devices=fleet("", "ib", "ib", ""),
            running=[
                a_running("other", "o/s", slots(3, 1), started_at=NOW - 9000),
                a_running("helps", "o/s", slots(1, 1), started_at=NOW - 7000),
            ],
            queued=[asking(a_queued("j", "o/t", gpus=8, nodes=2), "ib")],
        )
    )
    (reclaim,) = plan.reclaims
    assert [victim.job for victim in reclaim.victims] == ["helps"]
    assert [slot.node for slot in reclaim.slots] == ["alpha-001", "alpha-002"]


def test_what_is_coming_back_elsewhere_is_no_help() -> None:
    """A victim that leaves a node without the feature is not waited for."""
    plan = decided(
        a_snapshot(
            quotas={"o": 16, "o/t": 8, "o/s": 8},
            devices=fleet("ib", ""),
            running=[
                a_running("r", "o/s", slots(0, 1), started_at=NOW - 5000),
                a_victim("v", "o/s", slots(1, 1), of="gone"),
            ],
            queued=[asking(a_queued("j", "o/t", gpus=8), "ib")],
        )
    )
    assert plan.reclaims == ()


def test_a_claim_is_given_up_when_its_node_loses_the_feature() -> None:
    """Mutant: the claim was kept, and the job would have started there."""

    def plan(*features: str) -> Plan:
        return decided(
            a_snapshot(
                quotas={"o": 16, "o/t": 8, "o/s": 8},
                devices=fleet(*features),
                running=[
                    a_victim("v", "o/s", slots(0, 1), of="j"),
                    a_running("own", "o/s", slots(1, 1)),
                ],
                queued=[asking(a_queued("j", "o/t", gpus=8), "ib")],
                claims=[a_claim("j", slots(0, 1))],
            )
        )

    kept = plan("ib", "")
    assert (kept.dropped_claims, kept.starts) == ((), ())
    assert waiting(kept, "j").code is Code.WAITING_FOR_RECLAIM
    lost = plan("", "ib")
    assert (lost.dropped_claims, lost.starts, lost.reclaims) == (("j",), (), ())


def test_a_claimed_job_that_starts_elsewhere_starts_where_its_features_are() -> None:
    plan = decided(
        a_snapshot(
            quotas={"o": 24, "o/t": 8, "o/s": 16},
            devices=fleet("ib", "", "ib"),
            running=[a_victim("v", "o/s", slots(0, 1), of="j")],
            queued=[asking(a_queued("j", "o/t", gpus=8), "ib")],
            claims=[a_claim("j", slots(0, 1))],
        )
    )
    assert placed(plan) == {"j": ["alpha-002"]}


# -- images -------------------------------------------------------------------------------------


def test_a_job_with_an_image_that_no_cluster_may_run_says_so() -> None:
    job = replace(a_queued("j", "o/t"), clusters=frozenset(), has_image=True)
    snapshot = a_snapshot(quotas={"o": 8, "o/t": 8}, devices=fleet(""), queued=[job])
    reason = waiting(decided(snapshot), "j")
    assert reason.code is Code.CLUSTER_UNAVAILABLE
    assert sentence(reason, job, NAMES) == (
        "No cluster with such GPUs that runs container images and on which you have a user accepts"
        " jobs now."
    )
