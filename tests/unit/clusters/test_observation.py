"""What clusters say, and their silence, becomes nodes, messages and capacity segments."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from arbiter.api.snapshot import Device
from builders.portal_builders import NOW, a_cluster, a_pool
from clusters.models import CapacitySegment, Cluster, ClusterNode, Pool
from clusters.observation import GONE, record_inventory, record_silence
from clusters.queries import accepting, read_fleet
from connectors.protocol import Inventory, NodeCapacity
from primitives.units import DeviceKind

pytestmark = pytest.mark.django_db
T0 = int(NOW.timestamp())
STALE_AFTER = timedelta(seconds=15)


def at(seconds: int) -> datetime:
    return NOW + timedelta(seconds=seconds)


def a_node(
    name: str = "n1",
    *,
    pool: str = "h100",
    capacity_mgpu: int = 8_000,
    is_schedulable: bool = True,
    state: str = "idle",
    device: DeviceKind = DeviceKind.GPU,
) -> NodeCapacity:
    return NodeCapacity(name, pool, capacity_mgpu, is_schedulable, state, device=device)


def an_inventory(*nodes: NodeCapacity, after_s: int = 0) -> Inventory:
    return Inventory(T0 + after_s, nodes)


def segments() -> list[tuple[int, int | None, int]]:
    return [
        (
            int(row.start.timestamp()) - T0,
            None if row.end is None else int(row.end.timestamp()) - T0,
            row.capacity_mgpu,
        )
        for row in CapacitySegment.objects.order_by("start")
    ]


def nodes() -> list[tuple[str, int, bool, str]]:
    return list(
        ClusterNode.objects.order_by("name").values_list(
            "name", "capacity_mgpu", "is_schedulable", "state"
        )
    )


def test_the_first_answer_adds_nodes_and_opens_a_segment() -> None:
    a_pool()
    cluster = a_cluster(seen_at=None)

    assert record_inventory(cluster, an_inventory(a_node("n1"), a_node("n2")), now=NOW)

    assert nodes() == [("n1", 8_000, True, "idle"), ("n2", 8_000, True, "idle")]
    assert segments() == [(0, None, 16_000)]
    cluster.refresh_from_db()
    assert (cluster.seen_at, cluster.observed_at) == (NOW, NOW)
    assert (cluster.failing_since, cluster.message) == (None, "")


def test_the_same_answer_again_changes_only_when_it_was_seen() -> None:
    a_pool()
    cluster = a_cluster()
    record_inventory(cluster, an_inventory(a_node()), now=NOW)

    assert not record_inventory(cluster, an_inventory(a_node()), now=NOW)
    assert not record_inventory(cluster, an_inventory(a_node(), after_s=5), now=at(6))

    assert segments() == [(0, None, 8_000)]
    assert ClusterNode.objects.get().seen_at == NOW
    cluster.refresh_from_db()
    assert (cluster.seen_at, cluster.observed_at) == (at(6), at(5))


def test_a_changed_capacity_ends_the_segment_where_the_next_begins() -> None:
    a_pool()
    cluster = a_cluster()
    record_inventory(cluster, an_inventory(a_node("n1"), a_node("n2")), now=NOW)
    drained = a_node("n2", is_schedulable=False, state="drained")

    record_inventory(cluster, an_inventory(a_node("n1"), drained, after_s=10), now=at(10))
    record_inventory(cluster, an_inventory(a_node("n1"), a_node("n2"), after_s=30), now=at(30))

    assert segments() == [(0, 10, 16_000), (10, 30, 8_000), (30, None, 16_000)]


def test_a_capacity_that_changes_twice_in_a_second_keeps_the_last() -> None:
    a_pool()
    cluster = a_cluster()
    record_inventory(cluster, an_inventory(a_node(capacity_mgpu=8_000)), now=NOW)

    record_inventory(cluster, an_inventory(a_node(capacity_mgpu=4_000)), now=NOW)

    assert segments() == [(0, None, 4_000)]


def test_a_node_that_is_not_listed_any_more_is_gone_and_comes_back() -> None:
    a_pool()
    cluster = a_cluster()
    record_inventory(cluster, an_inventory(a_node("n1"), a_node("n2")), now=NOW)
    record_inventory(cluster, an_inventory(a_node("n1"), a_node("n2"), after_s=5), now=at(5))

    record_inventory(cluster, an_inventory(a_node("n1"), after_s=10), now=at(10))

    assert nodes() == [("n1", 8_000, True, "idle"), ("n2", 8_000, False, "gone")]
    assert ClusterNode.objects.get(name="n2").seen_at == at(5)
    assert segments() == [(0, 10, 16_000), (10, None, 8_000)]
    assert not record_inventory(cluster, an_inventory(a_node("n1"), after_s=15), now=at(15))

    record_inventory(cluster, an_inventory(a_node("n1"), a_node("n2"), after_s=20), now=at(20))

    assert nodes() == [("n1", 8_000, True, "idle"), ("n2", 8_000, True, "idle")]


def test_a_cluster_that_lists_nothing_has_known_capacity_zero() -> None:
    a_pool()
    cluster = a_cluster()
    record_inventory(cluster, an_inventory(a_node()), now=NOW)

    record_inventory(cluster, an_inventory(after_s=60), now=at(60))

    assert segments() == [(0, 60, 8_000), (60, None, 0)]


def test_nodes_of_an_unknown_pool_are_left_out_and_named() -> None:
    a_pool()
    cluster = a_cluster()

    record_inventory(cluster, an_inventory(a_node("n1"), a_node("n2", pool="b200")), now=NOW)

    assert nodes() == [("n1", 8_000, True, "idle")]
    cluster.refresh_from_db()
    assert cluster.message == (
        "1 nodes are left out because their pool does not exist here: b200. Create the pool "
        "and they count from the next answer on."
    )

    a_pool("b200")
    record_inventory(
        cluster, an_inventory(a_node("n1"), a_node("n2", pool="b200"), after_s=5), now=at(5)
    )

    assert nodes() == [("n1", 8_000, True, "idle"), ("n2", 8_000, True, "idle")]
    cluster.refresh_from_db()
    assert cluster.message == ""


def test_nodes_that_offer_other_devices_than_their_pool_has_are_left_out_and_named() -> None:
    """Mutant: cores are offered, guaranteed and charged as GPUs."""
    a_pool()
    a_pool("cpu", device="cpu")
    cluster = a_cluster()
    core = DeviceKind.CPU
    seen = (a_node("n1"), a_node("n2", device=core), a_node("c1", pool="cpu", device=core))

    record_inventory(cluster, an_inventory(*seen, a_node("c2", pool="cpu")), now=NOW)

    assert nodes() == [("c1", 8_000, True, "idle"), ("n1", 8_000, True, "idle")]
    cluster.refresh_from_db()
    assert cluster.message == (
        "1 nodes are left out because they offer cores and their pool has other devices: h100. "
        "The pool here and the cluster's options must both be of cores, or neither. "
        "1 nodes are left out because they offer GPUs and their pool has other devices: cpu. "
        "The pool here and the cluster's options must both be of GPUs, or neither."
    )


def test_a_node_that_moves_to_an_unknown_pool_is_gone_from_its_old_one() -> None:
    a_pool()
    cluster = a_cluster()
    record_inventory(cluster, an_inventory(a_node("n1")), now=NOW)

    record_inventory(cluster, an_inventory(a_node("n1", pool="b200"), after_s=5), now=at(5))

    assert nodes() == [("n1", 8_000, False, "gone")]


@pytest.mark.parametrize(
    "bad",
    [
        a_node(""),
        a_node("n" * 254),
        a_node("n\x001"),
        a_node("n\n1"),
        a_node("bad", capacity_mgpu=-1),
        a_node("bad", capacity_mgpu=10**20),
    ],
    ids=["no name", "long name", "NUL", "newline", "negative", "huge"],
)
def test_an_impossible_node_is_left_out_and_the_others_count(bad: NodeCapacity) -> None:
    a_pool()
    cluster = a_cluster()

    record_inventory(cluster, an_inventory(a_node("good"), bad), now=NOW)

    assert nodes() == [("good", 8_000, True, "idle")]
    cluster.refresh_from_db()
    assert cluster.message.startswith("1 nodes are left out because their name or capacity is")


def test_a_node_listed_twice_counts_once() -> None:
    a_pool()
    cluster = a_cluster()

    record_inventory(cluster, an_inventory(a_node("n1"), a_node("n1")), now=NOW)

    assert segments() == [(0, None, 8_000)]
    cluster.refresh_from_db()
    assert cluster.message == ("1 nodes are listed twice for one pool; the first entry counts: n1.")


def test_a_state_of_any_text_is_stored_plainly() -> None:
    a_pool()
    cluster = a_cluster()

    record_inventory(cluster, an_inventory(a_node(state="idle\x00" + "x" * 200)), now=NOW)

    assert ClusterNode.objects.get().state == "idle " + "x" * 95


def test_a_late_answer_is_dropped() -> None:
    a_pool()
    cluster = a_cluster()
    record_inventory(cluster, an_inventory(a_node("n1"), a_node("n2"), after_s=10), now=at(10))

    assert not record_inventory(cluster, an_inventory(a_node("n1"), after_s=9), now=at(11))

    assert nodes() == [("n1", 8_000, True, "idle"), ("n2", 8_000, True, "idle")]
    assert segments() == [(10, None, 16_000)]
    cluster.refresh_from_db()
    assert cluster.seen_at == at(10)


def test_a_cluster_whose_clock_was_set_back_is_still_heard() -> None:
    a_pool()
    cluster = a_cluster()
    record_inventory(cluster, an_inventory(a_node(), after_s=3_600), now=at(0))

    record_inventory(cluster, an_inventory(a_node(capacity_mgpu=4_000)), now=at(5))
    record_inventory(
        cluster, an_inventory(a_node(capacity_mgpu=2_000), after_s=3_700), now=at(3_700)
    )

    cluster.refresh_from_db()
    assert cluster.seen_at == at(3_700)
    assert segments() == [(3_600, 3_700, 4_000), (3_700, None, 2_000)]


def test_silence_keeps_its_first_time_and_all_that_was_known() -> None:
    a_pool()
    cluster = a_cluster()
    record_inventory(cluster, an_inventory(a_node()), now=NOW)

    record_silence(cluster, "connection refused", now=at(5))
    record_silence(cluster, "time-out after 5 s", now=at(9))

    cluster.refresh_from_db()
    assert (cluster.failing_since, cluster.message) == (at(5), "time-out after 5 s")
    assert cluster.seen_at == NOW
    assert nodes() == [("n1", 8_000, True, "idle")]
    assert segments() == [(0, None, 8_000)]

    assert record_inventory(cluster, an_inventory(a_node(), after_s=12), now=at(12))

    cluster.refresh_from_db()
    assert (cluster.failing_since, cluster.message) == (None, "")
    assert segments() == [(0, None, 8_000)]


def test_a_silence_from_before_the_last_answer_is_dropped() -> None:
    a_pool()
    cluster = a_cluster()
    record_inventory(cluster, an_inventory(a_node(), after_s=10), now=at(10))

    record_silence(cluster, "connection refused", now=at(9))

    cluster.refresh_from_db()
    assert cluster.failing_since is None


def test_devices_are_all_that_are_known_and_clusters_only_those_that_answer() -> None:
    pool = str(a_pool().pk)
    fresh = a_cluster("fresh", seen_at=None)
    stale = a_cluster("stale", seen_at=None)
    disabled = a_cluster("disabled", seen_at=None)
    a_cluster("silent-from-the-start", seen_at=None)
    Cluster.objects.filter(pk=disabled.pk).update(is_enabled=False)
    drained = a_node("n2", is_schedulable=False, state="drained")
    record_inventory(fresh, an_inventory(a_node("n1"), drained, a_node("n3")), now=NOW)
    record_inventory(fresh, an_inventory(a_node("n1"), drained, after_s=20), now=at(20))
    record_inventory(stale, an_inventory(a_node("n1")), now=at(4))
    record_inventory(disabled, an_inventory(a_node("n1")), now=at(20))

    assert accepting(now=at(20), stale_after=STALE_AFTER) == {str(fresh.pk)}
    assert accepting(now=at(19), stale_after=STALE_AFTER) == {str(fresh.pk), str(stale.pk)}
    assert sorted(read_fleet().devices, key=str) == sorted(
        [
            Device(str(fresh.pk), "n1", pool, 8_000),
            Device(str(fresh.pk), "n2", pool, 0),
            Device(str(stale.pk), "n1", pool, 8_000),
            Device(str(disabled.pk), "n1", pool, 8_000),
        ],
        key=str,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"capacity_mgpu": 4_000},
        {"outside_mgpu": 1_000},
        {"is_schedulable": False},
        {"features": ["ib"]},
        {"domains": {"rack": "r1"}},
        {"state": GONE, "is_schedulable": False},
        {"name": "n9"},
        {"cpu_milli": 1},
        {"memory_mib": 1},
        {"cpu_milli_per_gpu": 1},
        {"memory_mib_per_gpu": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_fleet_is_made_anew_only_where_something_changed(change: dict[str, Any]) -> None:
    """Planted: each column left out of what is compared, and the first fleet kept for good."""
    a_pool()
    cluster = a_cluster("fresh", seen_at=None)
    record_inventory(cluster, an_inventory(a_node("n1"), a_node("n2")), now=NOW)
    first = read_fleet()
    record_inventory(cluster, an_inventory(a_node("n1"), a_node("n2"), after_s=9), now=at(9))
    assert read_fleet(first) is first
    ClusterNode.objects.filter(name="n2").update(**change)
    again = read_fleet(first)
    assert again.devices[0] == first.devices[0]
    assert again.devices != first.devices
    assert again == read_fleet()


def test_the_cpu_and_the_memory_of_a_node_are_kept() -> None:
    """And brought up to date; what cannot be is as good as no word.

    Mutant: a node of which only these changed counts as unchanged.
    """
    a_pool()
    cluster = a_cluster()
    told = replace(a_node(), cpu_milli=64_000, memory_mib=1_000, cpu_milli_per_gpu=8_000)

    def known() -> tuple[int | None, int | None, int, int]:
        node = ClusterNode.objects.get()
        return node.cpu_milli, node.memory_mib, node.cpu_milli_per_gpu, node.memory_mib_per_gpu

    record_inventory(cluster, an_inventory(told), now=NOW)
    assert known() == (64_000, 1_000, 8_000, 0)
    less = replace(told, memory_mib=None, memory_mib_per_gpu=9)
    assert record_inventory(cluster, an_inventory(less, after_s=5), now=at(5))
    assert known() == (64_000, None, 8_000, 9)
    odd = replace(told, cpu_milli=-1, memory_mib=1 << 62)
    assert record_inventory(cluster, an_inventory(odd, after_s=10), now=at(10))
    assert known() == (None, None, 8_000, 0)
    (device,) = read_fleet().devices
    assert (device.cpu_milli, device.memory_mib, device.cpu_milli_per_gpu) == (None, None, 8_000)


def test_the_cpu_and_the_memory_of_a_node_of_several_pools_count_in_none() -> None:
    """Each pool is decided without the others, so that all of them would give out the same.

    Mutants: they count in the first pool, or in all.
    """
    for name in ("a", "b", "c"):
        a_pool(name)
    told = replace(a_node(), cpu_milli=64_000, memory_mib=1_000, cpu_milli_per_gpu=8_000)
    nodes = [replace(told, pool=name, capacity_mgpu=mgpu) for name, mgpu in (("a", 1), ("b", 2))]
    nodes += [replace(told, pool="c"), replace(told, name="n9", pool="c")]
    record_inventory(a_cluster(), an_inventory(*nodes), now=NOW)
    names = {str(pool.pk): pool.name for pool in Pool.objects.all()}
    assert sorted(
        (one.node, names[one.pool], one.capacity_mgpu, one.cpu_milli, one.memory_mib)
        for one in read_fleet().devices
    ) == [
        ("n1", "a", 1, None, None),
        ("n1", "b", 2, None, None),
        ("n1", "c", 8_000, None, None),
        ("n9", "c", 8_000, 64_000, 1_000),
    ]
