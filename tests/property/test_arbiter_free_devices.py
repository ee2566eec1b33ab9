"""What is free on the nodes of some kinds: what is kept for all sets is as good as looking anew."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from arbiter.api.snapshot import Device
from arbiter.placement.free_devices import FreeDevices, Place, Shape
from arbiter.placement.node_sets import NodeKinds

FEATURES = st.frozensets(st.sampled_from("abc"))
NODES = [("x", "n0"), ("x", "n1"), ("x", "n2"), ("y", "n3"), ("y", "n4")]


def plainly(
    free: dict[str, dict[str, int]], has: dict[str, frozenset[str]], wanted: frozenset[str]
) -> FreeDevices:
    """Only the nodes that have what is wanted, nothing known of kinds."""
    return FreeDevices(
        {
            cluster: {node: mgpu for node, mgpu in nodes.items() if wanted <= has[node]}
            for cluster, nodes in free.items()
        }
    )


def chosen(place: Place | None) -> tuple[str, ...] | None:
    return None if place is None else place.nodes


@given(st.data())
@settings(max_examples=200)
def test_every_answer_is_that_of_the_nodes_which_have_the_features(data: st.DataObject) -> None:
    """Through takes and returns, with questions before, between and after them. Between clusters
    the tighter whole one wins, which filtered nodes do not know; so where there are two, only
    whether there is a place is compared.

    Mutants that died: `Levels` not renewed by `take`; features of which one is enough.
    """
    has = {node: data.draw(FEATURES) for _, node in NODES}
    free: dict[str, dict[str, int]] = {"x": {}, "y": {}}
    for cluster, node in NODES:
        free[cluster][node] = data.draw(st.integers(-2, 8))
    kinds = NodeKinds(
        [Device(cluster, node, "p", 8, features=has[node]) for cluster, node in NODES]
    )
    kept = FreeDevices(free, kinds)
    for _ in range(data.draw(st.integers(1, 12))):
        if data.draw(st.booleans()):
            cluster, node = data.draw(st.sampled_from(NODES))
            mgpu = data.draw(st.integers(-4, 4))
            kept.take(cluster, node, mgpu)
            free[cluster][node] -= mgpu
        wanted = data.draw(FEATURES)
        clusters = data.draw(st.sampled_from([None, frozenset("x"), frozenset("y")]))
        mgpu, count = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
        mask = kinds.having(wanted)
        shape = Shape(mgpu, count, clusters, mgpu * count, mask)
        plain = plainly(free, has, wanted)
        bare = Shape(mgpu, count, clusters, mgpu * count)
        assert kept.fits(shape) == plain.fits(bare)
        assert kept.fitting_nodes(shape) == plain.fitting_nodes(bare)
        assert kept.total_free(clusters, mask) == plain.total_free(clusters)
        assert kept.largest_free(clusters, mask) == plain.largest_free(clusters)
        if clusters is not None:
            assert chosen(kept.find(shape)) == chosen(plain.find(bare))
