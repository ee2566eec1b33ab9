"""Best fit on one cluster, and what could never fit."""

from __future__ import annotations

from arbiter.placement.capacity import Layout
from arbiter.placement.free_devices import FreeDevices, Place, Shape


def shape(mgpu: int, count: int = 1, cluster: str | None = None) -> Shape:
    clusters = None if cluster is None else frozenset({cluster})
    return Shape(mgpu, count, clusters, mgpu * count)


def test_the_fullest_node_that_fits_is_taken() -> None:
    free = FreeDevices({"a": {"n1": 8, "n2": 3, "n3": 5}})
    assert free.find(shape(3)) == Place("a", ("n2",))
    assert free.find(shape(4)) == Place("a", ("n3",))
    assert free.find(shape(4, 2)) == Place("a", ("n1", "n3"))


def test_a_gang_takes_different_nodes_of_one_cluster() -> None:
    free = FreeDevices({"a": {"n1": 8}, "b": {"n2": 8}})
    assert free.find(shape(4, 2)) is None
    assert free.find(shape(4)) == Place("a", ("n1",))


def test_the_cluster_that_leaves_the_largest_whole_blocks_is_chosen() -> None:
    free = FreeDevices({"a": {"n1": 8, "n2": 8}, "b": {"n3": 4, "n4": 8}})
    assert free.find(shape(4)) == Place("b", ("n3",))
    assert free.find(shape(8)) == Place("b", ("n4",))
    assert free.find(shape(8, 2)) == Place("a", ("n1", "n2"))


def test_a_pinned_job_stays_on_its_cluster() -> None:
    free = FreeDevices({"a": {"n1": 8}, "b": {"n2": 4}})
    assert free.find(shape(4, 1, "a")) == Place("a", ("n1",))
    assert free.find(shape(4, 1, "elsewhere")) is None
    on_a = free.total_free(frozenset("a"))
    assert (on_a, free.largest_free(), free.total_free()) == (8, 8, 12)


def test_among_nodes_as_full_what_is_lent_stays_together() -> None:
    free = FreeDevices({"a": {"n1": 2, "n2": 2, "n3": 2, "n4": 3, "n5": 8}})
    lent = {"a": {"n1": 3, "n2": 6, "n4": 5}}
    assert free.find(shape(1), lent) == Place("a", ("n3",))
    assert free.find(shape(1), lent, joins_lent=True) == Place("a", ("n2",))
    # A tighter place goes before better company.
    assert free.find(shape(3), lent) == Place("a", ("n4",))
    free.take("a", "n3", 1)
    assert free.find(shape(1), lent, joins_lent=True) == Place("a", ("n3",))
    # Without any difference it is the first by name, and a gang looks at none.
    assert free.find(shape(2), {"a": {"n5": 1}}, joins_lent=True) == Place("a", ("n1",))
    assert free.find(shape(2, 2), lent, joins_lent=True) == Place("a", ("n1", "n2"))


def test_taking_and_giving_back() -> None:
    free = FreeDevices({"a": {"n1": 8}})
    free.take("a", "n1", 6)
    assert not free.fits(shape(3))
    assert free.fits(shape(2))
    assert free.total_free() == 2
    free.take("a", "n1", -6)
    assert free.fits(shape(8))


def test_an_overfull_node_takes_nothing_and_hides_nothing() -> None:
    free = FreeDevices({"a": {"drained": -8, "n1": 8}})
    assert free.total_free() == 8
    assert free.find(shape(1)) == Place("a", ("n1",))
    free.take("a", "drained", -8)
    assert free.total_free() == 8
    assert free.fitting_nodes(shape(1)) == 1


def test_fractions_share_a_node() -> None:
    free = FreeDevices({"a": {"n1": 1_000, "n2": 1_000}})
    for _ in range(2):
        place = free.find(shape(500))
        assert place == Place("a", ("n1",))
        free.take("a", "n1", 500)
    assert free.find(shape(1_000)) == Place("a", ("n2",))


def test_never_is_said_of_what_no_empty_cluster_holds() -> None:
    layout = Layout({"a": {"n1": 8, "n2": 8}, "b": {"n3": 4}})
    assert layout.capacity_mgpu == 20
    assert [layout.holds(shape(8, count)) for count in (1, 2, 3)] == [True, True, False]
    assert not layout.holds(shape(5, 1, "b"))
    assert layout.most_mgpu(shape(8, 3)) == 16
    assert layout.most_mgpu(shape(9)) == 0


def test_a_drained_device_counts_as_if_it_came_back() -> None:
    layout = Layout({"a": {"n1": 8, "n2": 0}})
    assert layout.holds(shape(8, 2))
    assert layout.capacity_mgpu == 16
    assert Layout({"a": {"n1": 0}}).holds(shape(1_000))
    assert Layout({"a": {}}).is_empty
    assert not Layout({"a": {"n1": 0}}).is_empty


def test_what_is_left_of_a_node_is_put_right_for_the_next_cycle() -> None:
    """Planted bugs that died of it: a mark keeps what was taken; what is left adds to what is free;
    a node or a cluster that nobody knows is asked for."""
    free = FreeDevices({"a": {"n1": 8, "n2": 8}}, free_resources={"a": {"n1\0cpu": 4}})
    free.mark()
    free.take("a", "n1", 5)
    free.take("a", "n1\0cpu", 3)
    assert free.taken == {("a", "n1"), ("a", "n1\0cpu")}
    for cluster, resource, left in (
        *(("a", "n1", 3), ("a", "n2", 5), ("a", "n1\0cpu", 2)),
        *(("a", "gone", 3), ("gone", "n1", 3)),
    ):
        free.leave(cluster, resource, left)
    free.mark()
    assert free.taken == set()
    assert (free.free, free.free_resources) == ({"a": {"n1": 3, "n2": 5}}, {"a": {"n1\0cpu": 2}})
    assert free.find(shape(4)) == Place("a", ("n2",))
    assert free.total_free() == 8
