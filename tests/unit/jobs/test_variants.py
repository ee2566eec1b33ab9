"""What may be asked for instead: from the body of a request to changes of it."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.whatif.variants import (
    Hints,
    Variant,
    in_smaller_parts,
    limits_of,
    on_fitting,
    outcome,
    possible_mgpu_of,
    variants_of,
)
from primitives.units import DeviceKind

GPU, CPU = DeviceKind.GPU, DeviceKind.CPU


SCATTERED = Hints(is_about_nodes=True)


def a_request(**changes: Any) -> dict[str, Any]:
    """4 nodes with 8 GPUs each in h100, for an hour."""
    body = {"pool": "h100", "gpus_per_node": 8, "nodes": 4, "time_limit_s": 3_600, **changes}
    return {name: value for name, value in body.items() if value is not ...}


def found(
    body: dict[str, Any], hints: Hints | None = None, device: DeviceKind = GPU
) -> dict[str, Any]:
    """Changes by label, in order."""
    return {one.label: one.changes for one in variants_of(body, device, hints or Hints())}


def test_a_gang_asks_for_less_step_by_step() -> None:
    """Planted: the largest concession first; a part of it before all of it elsewhere; pools that it
    accepts already."""
    body = a_request(required_topology="rack", time_limit_s=...)
    told = found(body, Hints(is_about_nodes=True, pools={"a100": 8_000, "h100": 8_000}))
    assert list(told.items()) == [
        (
            "Not all in one rack",
            {"required_topology": None, "preferred_topology": "rack"},
        ),
        ("On 8 nodes with 4 GPUs each", {"gpus_per_node": 4, "nodes": 8}),
        ("On 16 nodes with 2 GPUs each", {"gpus_per_node": 2, "nodes": 16}),
        ("In pool a100", {"pool": "a100"}),
        ("With a time limit of 1 h", {"time_limit_s": 3_600}),
        ("With 16 GPUs on 2 nodes", {"nodes": 2}),
        ("With 8 GPUs on 1 node", {"nodes": 1}),
    ]


def test_against_a_quota_only_less_another_class_and_another_pool_help() -> None:
    """Planted: a shorter limit; other nodes."""
    body = a_request(required_topology="rack", features=["ib"], time_limit_s=...)
    hints = Hints(
        is_about_quota=True, possible_mgpu=24_000, lower_class="low", pools={"a100": 8_000}
    )
    assert list(found(body, hints)) == [
        "In the priority class low",
        "In pool a100",
        "With 24 GPUs on 3 nodes",
        "With 16 GPUs on 2 nodes",
        "With 8 GPUs on 1 node",
    ]


def test_a_variant_is_a_request_without_what_it_takes_out() -> None:
    body = a_request(required_topology="rack")
    variant = Variant("", {"required_topology": None, "preferred_topology": "rack", "nodes": 2})
    assert variant.of(body) == {
        "pool": "h100",
        "gpus_per_node": 8,
        "nodes": 2,
        "time_limit_s": 3_600,
        "preferred_topology": "rack",
    }
    assert body == a_request(required_topology="rack")


def test_nothing_is_left_to_ask_of_one_gpu_for_an_hour() -> None:
    assert found(a_request(gpus_per_node=1, nodes=1)) == {}
    assert found(a_request(gpus_per_node=0.5, nodes=1)) == {}
    assert found(a_request(cpus_per_node=1, nodes=1, gpus_per_node=...), device=CPU) == {}


def test_a_single_node_is_spread_and_made_smaller() -> None:
    """Planted: parts of half a GPU; a quarter of six that is one and a half; spread where it waits
    for quota, which that does not change."""
    assert found(a_request(gpus_per_node=6, nodes=1)) == {
        "With 3 GPUs": {"gpus_per_node": 3},
        "With 1 GPU": {"gpus_per_node": 1},
    }
    assert found(a_request(gpus_per_node=6, nodes=1), SCATTERED) == {
        "On 2 nodes with 3 GPUs each": {"gpus_per_node": 3, "nodes": 2},
        "With 3 GPUs": {"gpus_per_node": 3},
        "With 1 GPU": {"gpus_per_node": 1},
    }
    # Three cannot be halved.
    assert list(found(a_request(gpus_per_node=3, nodes=1), SCATTERED)) == ["With 1 GPU"]
    # All in one node is what it says that it needs.
    assert "On 2 nodes with 3 GPUs each" not in found(
        a_request(gpus_per_node=6, nodes=1, required_topology="node"), SCATTERED
    )


def test_what_it_wants_beside_its_gpus_is_spread_with_them() -> None:
    """Planted: twice the memory in all."""
    body = a_request(gpus_per_node=2, nodes=1, cpus_per_node=15, memory_mib_per_node=1_000)
    assert found(body, SCATTERED) == {
        "With the CPUs and memory that come with its GPUs": {
            "cpus_per_node": None,
            "memory_mib_per_node": None,
        },
        "On 2 nodes with 1 GPU each": {
            "gpus_per_node": 1,
            "nodes": 2,
            "cpus_per_node": 8,
            "memory_mib_per_node": 500,
        },
        "With 1 GPU": {"gpus_per_node": 1},
    }
    # Only what it says can be left out.
    modest = found(a_request(gpus_per_node=1, nodes=1, memory_mib_per_node=1_000))
    assert modest == {
        "With the CPUs and memory that come with its GPUs": {"memory_mib_per_node": None}
    }


def test_cores_are_counted_as_cores() -> None:
    body = a_request(gpus_per_node=..., cpus_per_node=4, nodes=2, memory_mib_per_node=1_000)
    assert found(body, Hints(is_about_nodes=True, pools={"cpu-old": None}), CPU) == {
        "With the memory that comes with its cores": {"memory_mib_per_node": None},
        "On 4 nodes with 2 cores each": {
            "cpus_per_node": 2,
            "nodes": 4,
            "memory_mib_per_node": 500,
        },
        "On 8 nodes with 1 core each": {
            "cpus_per_node": 1,
            "nodes": 8,
            "memory_mib_per_node": 250,
        },
        "With 4 cores on 1 node": {"nodes": 1},
        "With 2 cores on 1 node": {"cpus_per_node": 2, "nodes": 1},
        "In pool cpu-old": {"pool": "cpu-old"},
    }


def test_an_elastic_job_is_content_with_less() -> None:
    """Planted: less at most, which does not let it start any sooner."""
    assert found(a_request(gpus_per_node=2, nodes=3, nodes_min=2), SCATTERED) == {
        "On 4 to 6 nodes with 1 GPU each": {"gpus_per_node": 1, "nodes": 6, "nodes_min": 4},
        "With at least 2 GPUs on 1 node": {"nodes_min": 1},
        "With 1 GPU on 1 node": {"gpus_per_node": 1, "nodes": 1, "nodes_min": None},
    }
    assert found(a_request(nodes=16, nodes_min=4)) == {
        "With at least 16 GPUs on 2 nodes": {"nodes_min": 2},
        "With at least 8 GPUs on 1 node": {"nodes_min": 1},
    }
    tiny = found(a_request(nodes=3, nodes_min=1))
    assert tiny["With 4 GPUs on 1 node"] == {"gpus_per_node": 4, "nodes": 1, "nodes_min": None}


@pytest.mark.parametrize(
    ("possible_mgpu", "labels"),
    [
        (None, ["With 16 GPUs on 2 nodes", "With 8 GPUs on 1 node"]),
        # 29 GPUs are three whole nodes.
        (29_000, ["With 24 GPUs on 3 nodes", "With 16 GPUs on 2 nodes", "With 8 GPUs on 1 node"]),
        # Less than a node: on one of them.
        (7_500, ["With 16 GPUs on 2 nodes", "With 8 GPUs on 1 node", "With 7 GPUs on 1 node"]),
        # As much as it asks for, or nothing at all, says nothing.
        (32_000, ["With 16 GPUs on 2 nodes", "With 8 GPUs on 1 node"]),
        (90_000, ["With 16 GPUs on 2 nodes", "With 8 GPUs on 1 node"]),
        (0, ["With 16 GPUs on 2 nodes", "With 8 GPUs on 1 node"]),
        (-8_000, ["With 16 GPUs on 2 nodes", "With 8 GPUs on 1 node"]),
    ],
)
def test_as_much_as_there_is_room_for(possible_mgpu: int | None, labels: list[str]) -> None:
    """Planted: the room rounded up to nodes; more than it asked for."""
    told = found(a_request(), Hints(possible_mgpu=possible_mgpu))
    assert list(told) == labels


def test_what_there_is_room_for_in_smaller_parts() -> None:
    """Planted: more than was asked for; parts of a node that must stay whole; half a GPU."""

    def parts(possible_mgpu: int | None, **changes: Any) -> dict[str, Any]:
        body = a_request(**changes)
        return {one.label: one.changes for one in in_smaller_parts(body, GPU, possible_mgpu)}

    assert parts(14_000, cpus_per_node=30) == {
        "With 12 GPUs on 3 nodes with 4 GPUs each": {
            "gpus_per_node": 4,
            "nodes": 3,
            "cpus_per_node": 15,
        },
        "With 14 GPUs on 7 nodes with 2 GPUs each": {
            "gpus_per_node": 2,
            "nodes": 7,
            "cpus_per_node": 8,
        },
    }
    assert [*parts(90_000)] == [
        "With 32 GPUs on 8 nodes with 4 GPUs each",
        "With 32 GPUs on 16 nodes with 2 GPUs each",
    ]
    assert [*parts(5_000, gpus_per_node=2)] == ["With 5 GPUs on 5 nodes with 1 GPU each"]
    assert [parts(None), parts(1_000), parts(9_000, required_topology="node")] == [{}, {}, {}]


def test_as_many_nodes_as_fit() -> None:
    """Planted: the part of an elastic job that it is content with left as it was; a change of its
    nodes taken for one of its size."""
    body = a_request(nodes=6, nodes_min=4)
    (half, *_) = in_smaller_parts(body, GPU, 16_000)
    assert on_fitting(body, GPU, half, 3) == Variant(
        "With at least 12 GPUs on 3 nodes with 4 GPUs each",
        {"gpus_per_node": 4, "nodes": 12, "nodes_min": 3},
        is_part=True,
    )
    fewer = Variant("With 24 GPUs on 3 nodes", {"nodes": 3})
    told = on_fitting(a_request(), GPU, fewer, 2)
    assert told == Variant("With 16 GPUs on 2 nodes with 8 GPUs each", {"nodes": 2}, is_part=True)
    assert on_fitting(a_request(), GPU, fewer, 0) is None
    assert on_fitting(a_request(), GPU, Variant("In pool a100", {"pool": "a100"}), 2) is None


def test_shorter_and_in_a_lower_class() -> None:
    """Planted: a limit that is longer than its own."""
    hints = Hints(limits_s=(86_400, 7_200, 600), lower_class="low")
    assert found(a_request(gpus_per_node=1, nodes=1, time_limit_s=86_400), hints) == {
        "With a time limit of 2 h": {"time_limit_s": 7_200},
        "With a time limit of 10 min": {"time_limit_s": 600},
        "In the priority class low": {"priority_class": "low"},
    }


def test_elsewhere_nothing_is_said_of_nodes_and_clusters() -> None:
    """Planted: features of h100's nodes asked for in another pool."""
    body = a_request(
        pool=..., pools=["h100", "a100"], gpus_per_node=1, nodes=1, features=["ib"], cluster="one"
    )
    hints = Hints(pools=dict.fromkeys(("a100", "b200", "h100", "l40", "t4", "v100")))
    gone = {"pools": None, "features": None, "cluster": None}
    assert found(body, hints) == {
        "On nodes without ib": {"features": None},
        "On any cluster": {"cluster": None},
        "In pool b200": {"pool": "b200", **gone},
        "In pool l40": {"pool": "l40", **gone},
        "In pool t4": {"pool": "t4", **gone},
    }


def test_elsewhere_it_is_asked_for_in_parts_that_the_nodes_can_hold() -> None:
    """Planted: the size of the nodes here; parts of which the GPUs are no whole number; a node that
    is to be one; an elastic job's least as it was."""
    hints = Hints(pools={"a100": 4_000, "l40": 2_000, "t4": 1_500})
    body = a_request(nodes=2, nodes_min=1, memory_mib_per_node=1_001)
    elsewhere = [one for one in found(body, hints).items() if "pool" in one[1]]
    assert elsewhere == [
        (
            "In pool a100 on 2 to 4 nodes with 4 GPUs each",
            {
                "pool": "a100",
                "gpus_per_node": 4,
                "nodes": 4,
                "nodes_min": 2,
                "memory_mib_per_node": 501,
            },
        ),
        (
            "In pool l40 on 4 to 8 nodes with 2 GPUs each",
            {
                "pool": "l40",
                "gpus_per_node": 2,
                "nodes": 8,
                "nodes_min": 4,
                "memory_mib_per_node": 251,
            },
        ),
        (
            "In pool t4 on 8 to 16 nodes with 1 GPU each",
            {
                "pool": "t4",
                "gpus_per_node": 1,
                "nodes": 16,
                "nodes_min": 8,
                "memory_mib_per_node": 126,
            },
        ),
    ]

    def told(largest_mgpu: int | None, **changes: Any) -> list[str]:
        there = Hints(pools={"a100": largest_mgpu})
        return [label for label in found(a_request(**changes), there) if "a100" in label]

    assert told(8_000) == told(0) == told(None) == told(500) == ["In pool a100"]
    assert told(4_000, required_topology="node", nodes=1) == ["In pool a100"]
    assert told(500, gpus_per_node=0.75, nodes=1) == ["In pool a100"]
    assert told(4_000, gpus_per_node=6, nodes=1) == ["In pool a100 on 2 nodes with 3 GPUs each"]
    assert told(4_000, gpus_per_node=7, nodes=1) == ["In pool a100 on 7 nodes with 1 GPU each"]


def test_there_are_at_most_seven_and_two_of_them_elsewhere() -> None:
    """Planted: no place left for other pools."""
    body = a_request(
        required_topology="block", features=["ib"], cluster="one", cpus_per_node=4, time_limit_s=...
    )
    hints = Hints(is_about_nodes=True, pools=dict.fromkeys(("a100", "b200", "l40")))
    assert list(found(body, hints)) == [
        "Not all in one block",
        "On nodes without ib",
        "With the CPUs and memory that come with its GPUs",
        "On any cluster",
        "On 8 nodes with 4 GPUs each",
        "In pool a100",
        "In pool b200",
    ]
    assert len(found(body, SCATTERED)) == 7


@pytest.mark.parametrize(
    ("code", "numbers", "possible_mgpu"),
    [
        ("never_fits", {"need_mgpu": 9_000, "could_ever_mgpu": 8_000}, 8_000),
        ("never_fits", {"need_mgpu": 9_000}, None),
        ("class_cap_reached", {"class_cap_mgpu": 8_000, "class_in_use_mgpu": 6_000}, 2_000),
        (
            "waiting_for_free_gpus",
            {
                "free_mgpu": 9_000,
                "largest_free_on_a_cluster_mgpu": 5_000,
                "available_by_quota_mgpu": 6_000,
                "guaranteed_mgpu": 1_000,
            },
            5_000,
        ),
        (
            "topology_fragmented",
            {"available_by_quota_mgpu": 64_000, "nodes_fitting": 3, "mgpu_per_node": 8_000},
            24_000,
        ),
        ("waiting_for_reclaim", {"need_mgpu": 8_000, "coming_back_mgpu": 8_000}, None),
    ],
)
def test_the_room_that_a_reason_tells_of(
    code: str, numbers: dict[str, int], possible_mgpu: int | None
) -> None:
    assert possible_mgpu_of(code, numbers) == possible_mgpu


def test_limits_that_clusters_allow_or_that_end_before_a_reservation() -> None:
    """Planted: a limit that ends after the reservation once it is sent a minute later."""
    assert limits_of([{}], [7_200], at=1_000) == (7_200,)
    in_two_pools = [{"reserved_start_at": 1_000 + 8_000}, {"reserved_start_at": 1_000 + 4_000}]
    assert limits_of(in_two_pools, [], at=1_000) == (7_500, 3_600)
    assert limits_of([{"reserved_start_at": 1_000 + 8_000}], [], at=1_000) == (7_500,)
    assert limits_of([{"reserved_start_at": 1_000 + 8_100}], [9_000], at=1_000) == (9_000, 7_800)
    # Too soon for anything to end before.
    assert limits_of([{"reserved_start_at": 1_000 + 599}], [], at=1_000) == ()


def ends(
    latest: str | None = None, *, own: str | None = None, is_part: bool = False, **changes: bool
) -> tuple[int, str]:
    given = {"would_start_now": False, "fits": True, **changes}
    return outcome(**given, latest=latest, is_part=is_part, own_latest=own)


def test_outcomes_in_the_order_of_what_people_want() -> None:
    """Planted: a part of it now before all of it elsewhere; an unknown time before a known one; all
    of it no sooner than by waiting before a part of it now; what can never run before what waits.
    """
    noon, one, two = (f"2026-11-21T{hour}:00:00Z" for hour in (12, 13, 14))
    best_first = [
        ends(would_start_now=True, own=two),
        ends(noon, own=two),
        ends(one, own=two),
        ends(would_start_now=True, own=two, is_part=True),
        ends(noon, own=two, is_part=True),
        ends(two, own=two),
        ends("2026-11-21T15:00:00Z", own=two, is_part=True),
        ends(own=two),
        ends(fits=False, own=two),
    ]
    assert sorted(best_first) == best_first
    assert len(set(best_first)) == 9
    assert ends(own=two) == ends(own=two, is_part=True)
    # Where nobody knows when the job itself starts, every known time is sooner.
    assert [ends(two), ends(two, is_part=True)] == [(0, "2026-11-21T14:0"), (1, "2026-11-21T14:0")]


def test_seconds_are_no_reason_to_ask_for_less() -> None:
    """As jobs that started one after another end one after another. Planted: seconds that count,
    among others or against the job's own time."""
    soon, later = "2026-11-21T12:06:32Z", "2026-11-21T12:06:39Z"
    assert ends(soon) == ends(later) == (0, "2026-11-21T12:0")
    assert ends(soon, own=later) == (2, "2026-11-21T12:0")
