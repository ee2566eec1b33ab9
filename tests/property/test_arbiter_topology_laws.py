"""Gangs that are to be close together, held to all placements there are in small fleets
(R-42, R-43)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from arbiter.api.snapshot import Device, Domains, Level, Topology
from arbiter.placement.capacity import Layout
from arbiter.placement.free_devices import FreeDevices, Place, Shape
from arbiter.placement.node_sets import NodeKinds
from arbiter.placement.topology import LEVELS, TopologyPlans, levels_from

Fleet = list[tuple[str, str, Domains, frozenset[str], int]]

DOMAINS = st.builds(
    Domains,
    st.sampled_from(["", "A", "A", "B", "B"]),
    st.sampled_from(["", "1", "1", "2"]),
    st.sampled_from(["", "x", "y"]),
)
FEATURES = st.sampled_from([frozenset[str](), frozenset("f")])


@st.composite
def fleets(draw: st.DrawFn, *, amounts: st.SearchStrategy[int], clusters: str = "cd") -> Fleet:
    """Cluster, name, place, features and free milli-GPU of up to eight nodes."""
    return [
        (draw(st.sampled_from(clusters)), f"n{i}", draw(DOMAINS), draw(FEATURES), draw(amounts))
        for i in range(draw(st.integers(1, 8)))
    ]


def opened(fleet: Fleet) -> tuple[FreeDevices, NodeKinds, TopologyPlans]:
    devices = [
        Device(cluster, node, "p", 8, features=features, domains=domains)
        for cluster, node, domains, features, _ in fleet
    ]
    free: dict[str, dict[str, int]] = {}
    for cluster, node, _, _, mgpu in fleet:
        free.setdefault(cluster, {})[node] = mgpu
    kinds = NodeKinds(devices)
    plans = TopologyPlans(devices, kinds)
    return FreeDevices(free, kinds, plans), kinds, plans


def domain(domains: Domains, level: Level, node: str) -> object:
    """What a node shares with the others of its domain, or None where it is in none."""
    match level:
        case Level.NODE:
            return node
        case Level.NVLINK:
            return domains.nvlink or None
        case Level.RACK:
            return (domains.block, domains.rack) if domains.rack else None
        case Level.BLOCK:
            return domains.block or None


def every_place(
    fleet: Fleet, mgpu: int, count: int, features: frozenset[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """All places that have room, one by one."""
    for cluster in sorted({cluster for cluster, *_ in fleet}):
        fitting = [
            node
            for other, node, _, has, free in fleet
            if other == cluster and free >= mgpu and features <= has
        ]
        for nodes in combinations(fitting, count):
            yield cluster, nodes


def tightness(fleet: Fleet, level: Level, nodes: tuple[str, ...]) -> int:
    """0 when `nodes` share a domain of `level`, 1 of the next wider one, and so on."""
    of_node = {node: domains for _, node, domains, _, _ in fleet}
    wider = levels_from(level)
    for spread, one in enumerate(wider):
        shared = {domain(of_node[node], one, node) for node in nodes}
        if len(shared) == 1 and shared != {None}:
            return spread
    return len(wider)


def sizes(fleet: Fleet, level: Level, mgpu: int, taken: tuple[str, ...] = ()) -> Counter[object]:
    """The nodes with at least `mgpu` in each domain of a level once some are taken."""
    found: Counter[object] = Counter()
    for cluster, node, domains, _, free in fleet:
        of = domain(domains, level, node)
        if free >= mgpu and node not in taken and of is not None:
            found[cluster, of] += 1
    return found


def largest(fleet: Fleet, level: Level, mgpu: int, taken: tuple[str, ...]) -> int:
    return max(sizes(fleet, level, mgpu, taken).values(), default=0)


def toggle(data: st.DataObject, free: FreeDevices, fleet: Fleet) -> None:
    """Some nodes that were free are taken, and some that were full come back."""
    for i in data.draw(st.lists(st.integers(0, len(fleet) - 1), max_size=4, unique=True)):
        cluster, node, domains, has, before = fleet[i]
        free.take(cluster, node, 2 if before else -2)
        fleet[i] = cluster, node, domains, has, 0 if before else 2


WISHES = st.none() | st.builds(Topology, st.sampled_from(list(Level)), st.booleans())


@given(st.data())
@settings(max_examples=300)
def test_a_place_is_found_exactly_where_there_is_one(data: st.DataObject) -> None:
    """And preferred takes the tightest there is. Through takes and returns, with what was asked
    before carried on.

    Mutants that died: the widest level tried first; features not looked at within a cell; of
    clusters the one with least left over, however spread.
    """
    fleet = data.draw(fleets(amounts=st.integers(-1, 4)))
    free, kinds, _ = opened(fleet)
    wishes = data.draw(st.lists(WISHES, min_size=1, max_size=2))
    for _ in range(data.draw(st.integers(1, 6))):
        for i in data.draw(st.lists(st.integers(0, len(fleet) - 1), max_size=4)):
            mgpu = data.draw(st.integers(-3, 3))
            cluster, node, domains, has, before = fleet[i]
            free.take(cluster, node, mgpu)
            fleet[i] = cluster, node, domains, has, before - mgpu
        mgpu, count = data.draw(st.integers(1, 2)), data.draw(st.integers(2, 3))
        features, wish = data.draw(FEATURES), data.draw(st.sampled_from(wishes))
        shape = Shape(mgpu, count, None, mgpu * count, kinds.having(features), wish)
        places = [
            (cluster, nodes)
            for cluster, nodes in every_place(fleet, mgpu, count, features)
            if wish is None
            or not wish.is_required
            or (wish.level is not Level.NODE and tightness(fleet, wish.level, nodes) == 0)
        ]
        assert free.fits(shape) == bool(places)
        found = free.find(shape)
        if found is None:
            assert not places
            continue
        assert (found.cluster, found.nodes) in places
        if wish is not None:
            assert tightness(fleet, wish.level, found.nodes) == min(
                tightness(fleet, wish.level, nodes) for _, nodes in places
            )


@given(st.data())
@settings(max_examples=300)
def test_a_required_domain_leaves_the_largest_ones_whole(data: st.DataObject) -> None:
    """On one cluster of nodes that are free or full, no other place leaves a larger domain of nodes
    that would do.

    Mutants that died: the first domain by name taken; counts of a domain not changed by
    `NodeBuckets.move`; a node in no rack counted as in a rack of no name; racks of different blocks
    taken for one.
    """
    fleet = data.draw(fleets(amounts=st.sampled_from([0, 2, 2, 2]), clusters="c"))
    free, kinds, _ = opened(fleet)
    level = data.draw(st.sampled_from(LEVELS))
    for _ in range(data.draw(st.integers(1, 3))):
        toggle(data, free, fleet)
        count, features = data.draw(st.integers(2, 3)), data.draw(FEATURES)
        wish = Topology(level, is_required=True)
        found = free.find(Shape(2, count, None, 2 * count, kinds.having(features), wish))
        having = [one for one in fleet if features <= one[3]]
        left = [
            largest(having, level, 2, nodes)
            for _, nodes in every_place(fleet, 2, count, features)
            if tightness(fleet, level, nodes) == 0
        ]
        assert (found is None) == (not left)
        if found is not None:
            assert largest(having, level, 2, found.nodes) == max(left)


@given(st.data())
@settings(max_examples=300)
def test_who_asks_for_no_place_leaves_the_largest_blocks_whole(data: st.DataObject) -> None:
    """Gangs and single nodes, one after the other: what is kept between them is carried on.

    Mutants that died: nodes taken in the order of the blocks' names; the order of blocks kept
    though one of them got a node back; what is in no block taken last.
    """
    fleet = data.draw(fleets(amounts=st.sampled_from([0, 2, 2, 2]), clusters="c"))
    free, _, _ = opened(fleet)
    for _ in range(data.draw(st.integers(1, 3))):
        toggle(data, free, fleet)
        count = data.draw(st.integers(1, 3))
        found = free.find(Shape(2, count, None, 2 * count))
        left = [
            largest(fleet, Level.BLOCK, 2, nodes)
            for _, nodes in every_place(fleet, 2, count, frozenset())
        ]
        assert (found is None) == (not left)
        if found is not None:
            assert largest(fleet, Level.BLOCK, 2, found.nodes) == max(left)


@given(st.data())
@settings(max_examples=300)
def test_what_fits_nowhere_takes_the_fewest_domains(data: st.DataObject) -> None:
    """Where the nodes of each domain are known and free or full.

    Mutant: the smallest domains taken first.
    """
    fleet = [
        (cluster, node, Domains(domains.block or "C"), has, mgpu)
        for cluster, node, domains, has, mgpu in data.draw(
            fleets(amounts=st.sampled_from([0, 2, 2, 2]), clusters="c")
        )
    ]
    free, _, _ = opened(fleet)
    count = data.draw(st.integers(2, 6))
    found = free.find(
        Shape(2, count, None, 2 * count, None, Topology(Level.BLOCK, is_required=False))
    )
    domains = {node: domains.block for _, node, domains, _, _ in fleet}

    def blocks(nodes: tuple[str, ...]) -> int:
        return len({domains[node] for node in nodes})

    fewest = [blocks(nodes) for _, nodes in every_place(fleet, 2, count, frozenset())]
    assert (found is None) == (not fewest)
    if found is not None:
        assert blocks(found.nodes) == min(fewest)


@given(st.data())
@settings(max_examples=200)
def test_the_fleet_holds_what_it_could_start_if_it_were_empty(data: st.DataObject) -> None:
    """Mutant: the domain was not looked for among the nodes that have the features."""
    fleet = data.draw(fleets(amounts=st.integers(1, 4)))
    free, kinds, plans = opened(fleet)
    layout = Layout(free.free, kinds, plans)
    mgpu, count = data.draw(st.integers(1, 4)), data.draw(st.integers(2, 4))
    wanted, wish = kinds.having(data.draw(FEATURES)), data.draw(WISHES)
    shape = Shape(mgpu, count, None, mgpu * count, wanted, wish)
    assert layout.holds(shape) == free.fits(shape)
    if shape.is_bound:
        assert layout.together(shape) == free.together(shape)


@given(st.data())
@settings(max_examples=100)
def test_the_order_of_the_nodes_is_nothing(data: st.DataObject) -> None:
    """Mutant: of equal domains the one that was seen first was taken."""
    fleet = data.draw(fleets(amounts=st.integers(1, 3)))
    shuffled = data.draw(st.permutations(fleet))
    count, wish = data.draw(st.integers(1, 3)), data.draw(WISHES)
    wish = None if count == 1 else wish
    found: list[Callable[[], Place | None]] = []
    for nodes in (fleet, shuffled):
        free, _, _ = opened(nodes)
        found.append(lambda free=free: free.find(Shape(1, count, None, count, None, wish)))
    assert found[0]() == found[1]()
