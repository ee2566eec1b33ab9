"""Laws of fair-share: exact decay, and an order that only one's own use makes worse
(R-30 to R-33)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from arbiter.api.snapshot import Phase, RunningJob, Slot, TreeNode
from arbiter.fairshare.decay import Decay
from arbiter.fairshare.fair_tree import FairShares, FairUse, Starts, half_lives_of
from arbiter.queue.order import Contest
from arbiter.quota.tree import ROOT, Tree, tree_of

AT = 10_000_000

intervals = st.lists(
    st.tuples(st.integers(0, AT), st.integers(0, 900_000), st.integers(1, 64_000)).map(
        lambda one: (one[0], one[0] + one[1], one[2])
    ),
    max_size=6,
)


@given(intervals, st.integers(3_600, 30_000_000), st.randoms(use_true_random=False), st.data())
@settings(max_examples=200, deadline=None)
def test_cutting_and_turning_intervals_changes_nothing(
    given: list[tuple[int, int, int]], half_life_s: int, dice: object, data: st.DataObject
) -> None:
    """To the last unit: the same integral is a difference of the same areas.

    Mutants that die here: each interval is rounded by itself; the middle of an interval stands for
    all of it.
    """
    decay = Decay(half_life_s)
    whole = decay.used(given, AT)
    parts = []
    for start, end, mgpu in given:
        cut = data.draw(st.integers(start, end))
        parts += [(cut, end, mgpu), (start, cut, mgpu)]
    dice.shuffle(parts)  # type: ignore[attr-defined]
    assert decay.used(parts, AT) == whole
    split = [(start, end, part) for start, end, mgpu in given for part in (1, mgpu - 1)]
    assert decay.used(split, AT) == whole
    steps = [step for start, end, mgpu in given for step in ((start, mgpu), (end, -mgpu))]
    assert decay.use_since(steps, AT) == whole


@given(intervals, st.integers(3_600, 30_000_000), st.lists(st.integers(0, 400_000), max_size=6))
@settings(max_examples=200, deadline=None)
def test_a_sum_that_is_carried_on_equals_one_worked_out_anew(
    given: list[tuple[int, int, int]], half_life_s: int, steps: list[int]
) -> None:
    """Decayed and added to at each step, it is off by one unit a step at most."""
    decay, at, total = Decay(half_life_s), AT // 2, 0
    total = decay.used(
        [(start, min(end, at), mgpu) for start, end, mgpu in given if start < at], at
    )
    for step in steps:
        then = at + step
        kept = total * decay.factor(step) >> 64
        new = [
            (max(start, at), min(end, then), mgpu)
            for start, end, mgpu in given
            if start < then and end > at
        ]
        at, total = then, kept + decay.used(new, then)
    past = [(start, min(end, at), mgpu) for start, end, mgpu in given if start < at]
    assert abs(total - decay.used(past, at)) <= 2 * (len(steps) + 1)


@given(st.data(), st.integers(1, 3_000_000))
@settings(max_examples=200, deadline=None)
def test_what_starts_are_charged_is_the_same_however_it_was_told(
    data: st.DataObject, half_life_s: int
) -> None:
    """To the last unit what one who hears of all at once charges, after any changes at any times;
    and the integral of the hour before, less what was really held of it, to one unit for each user.

    Mutants that died here: what began in the block before keeps its share of that; what is told
    before it begins is charged twice, or by when it begins; what is told an hour late is charged.
    """
    tree = tree_of([TreeNode("x", None), TreeNode("y", None, half_life_s=5_000)])
    lives, weights = half_lives_of(tree, half_life_s), {"a100": 400}
    starts, held = Starts(tree, lives, weights), dict[str, RunningJob]()
    at = data.draw(st.integers(0, AT))
    for turn in range(data.draw(st.integers(1, 8))):
        for attempt in data.draw(st.sets(st.sampled_from(sorted(held)))) if held else ():
            starts.remove(held.pop(attempt))
        for number in range(data.draw(st.integers(0, 3))):
            run = RunningJob(
                f"{turn}/{number}", f"{turn}/{number}", data.draw(st.sampled_from("xyz")),
                data.draw(st.sampled_from("uv")), data.draw(st.sampled_from(("a100", "h100"))), "c",
                (Slot("n", data.draw(st.integers(1, 8_000))),), "normal", 0,
                at + data.draw(st.integers(-4_000, 500)),
                phase=data.draw(st.sampled_from((Phase.STARTING, Phase.RUNNING))),
            )  # fmt: skip
            held[run.attempt] = run
            starts.add(run)
        at += data.draw(st.sampled_from((0, 1, 60, 3_000, 3_600, half_life_s)))
        anew = Starts(tree, lives, weights, reversed(held.values()))
        starts.advance(at)
        anew.advance(at)
        for team in range(2):
            told, known = dict[str, int](), dict[str, int]()
            starts.charge(told, team)
            anew.charge(known, team)
            assert told == known
            for user in "uv":
                own = [
                    one for one in held.values() if (one.team, one.user) == (tree.ids[team], user)
                ]
                assert abs(told.get(user, 0) - charged(own, Decay(lives[team]), at)) <= 1


def charged(running: Iterable[RunningJob], decay: Decay, at: int) -> Fraction:
    """Plainly, attempt by attempt."""
    found = 0
    for run in running:
        age_s = 0 if run.phase is Phase.STARTING else max(0, at - run.started_at)
        worth = run.mgpu * (400 if run.pool == "a100" else 1_000)
        found += worth * (decay.area(min(age_s, 3_600)) - decay.area(3_600))
    return Fraction(found, 1 << 32)


@st.composite
def trees(draw: st.DrawFn) -> tuple[Tree, list[int], list[int]]:
    """A tree, weights, and what each leaf used; small numbers, so that much is tied."""
    nodes = []

    def grow(name: str, parent: str | None, depth: int) -> None:
        nodes.append(TreeNode(name, parent))
        if depth:
            for i in range(draw(st.integers(0, 3))):
                grow(f"{name}/{i}", name, depth - 1)

    for i in range(draw(st.integers(1, 2))):
        grow(f"o{i}", None, 3)
    tree = tree_of(nodes)
    weights = [draw(st.integers(1, 3)) for _ in tree.ids]
    return tree, weights, [draw(st.sampled_from([0, 0, 1, 2, 4])) for _ in tree.ids]


def leaves(tree: Tree) -> list[int]:
    parents = set(tree.parents)
    return [node for node in range(len(tree.ids)) if node not in parents]


def shares_of(tree: Tree, weights: Sequence[int], own: Sequence[int]) -> FairShares:
    used = [0] * len(tree.ids)
    for node in leaves(tree):
        for above in tree.paths[node]:
            used[above] += own[node]
    size = len(tree.ids)
    use = FairUse(used, defaultdict(dict), [1 << 32] * size, (1,) * size)
    return FairShares(tree, weights, use, pool_weight=1)


def ranked(tree: Tree, weights: Sequence[int], shares: FairShares) -> list[set[int]]:
    """Fair Tree as it is documented: sort siblings by S / U, merge the tied, go down depth first.

    A leaf that is tied with a node that has children goes before them.
    """
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents):
        children.setdefault(parent, []).append(node)

    def level_value(node: int) -> tuple[bool, Fraction]:
        beside = children[tree.parents[node]]
        used = sum(shares.used(other) for other in beside)
        share = Fraction(weights[node], sum(weights[other] for other in beside))
        if not shares.used(node):
            return True, Fraction(0)
        return False, share / Fraction(shares.used(node), used)

    found: list[set[int]] = []

    def visit(nodes: list[int]) -> None:
        for value in sorted({level_value(node) for node in nodes}, reverse=True):
            tied = [node for node in nodes if level_value(node) == value]
            ends = {node for node in tied if node not in children}
            if ends:
                found.append(ends)
            below = [child for node in tied for child in children.get(node, ())]
            if below:
                visit(below)

    visit(children[ROOT])
    return found


@given(trees())
@settings(max_examples=300, deadline=None)
def test_the_order_of_loads_is_fair_tree_with_ties_merged(
    given: tuple[Tree, list[int], list[int]],
) -> None:
    """Mutants that die here: use over weight without the weights above; without the weights
    beside. A mutant that lives here and dies in the unit tests: fractions cut too short to tell
    apart."""
    tree, weights, own = given
    shares = shares_of(tree, weights, own)
    orders = {node: shares.order(node) for node in leaves(tree)}
    assert [
        {node for node in orders if orders[node] == order} for order in sorted(set(orders.values()))
    ] == ranked(tree, weights, shares)


@given(trees(), st.data())
@settings(max_examples=200, deadline=None)
def test_more_use_never_improves_ones_own_place(
    given: tuple[Tree, list[int], list[int]], data: st.DataObject
) -> None:
    """Mutant that dies here: a node is compared by what it used of all, not of its siblings'."""
    tree, weights, own = given
    team = data.draw(st.sampled_from(leaves(tree)))
    more = list(own)
    more[team] += data.draw(st.integers(1, 5))

    def ahead(shares: FairShares) -> set[int]:
        return {node for node in leaves(tree) if shares.order(node) < shares.order(team)}

    before, after = shares_of(tree, weights, own), shares_of(tree, weights, more)
    assert ahead(before) <= ahead(after)


@given(trees(), st.data())
@settings(max_examples=200, deadline=None)
def test_a_contest_serves_in_the_order_that_sorting_gives(
    given: tuple[Tree, list[int], list[int]], data: st.DataObject
) -> None:
    """While teams come and go and starts are charged.

    Mutants that die here: an entry that is listed no more is believed; a load that has changed
    is not looked at again; a team that comes back does not move what stands above it.
    """
    tree, weights, own = given
    shares = shares_of(tree, weights, own)
    contest = Contest(shares)
    waiting: dict[int, tuple[int, tuple[int, str]]] = {}
    for job in range(data.draw(st.integers(1, 30))):
        team = data.draw(st.integers(0, len(tree.ids) - 1))
        stays = team not in waiting or data.draw(st.booleans())
        if team in waiting:
            contest.withdraw(team)
            del waiting[team]
        if stays:
            age = data.draw(st.integers(0, 9)) * 100 + job
            waiting[team] = data.draw(st.integers(-1, 1)), (age, "")
            contest.enlist(team, *waiting[team])
        if data.draw(st.integers(0, 5)) == 0:
            shares.charge_start(data.draw(st.integers(0, len(tree.ids) - 1)), "u", 1)
        first = contest.first()
        expected = min(
            ((shares.order(team), waiting[team], team) for team in waiting), default=None
        )
        assert (None if first is None else first[2]) == (None if expected is None else expected[2])
