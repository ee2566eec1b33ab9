"""Who need not be stopped after all, where one cycle takes GPUs back for several jobs (R-60).

The victims of each claim are no more than it needs as things were in its turn. What later claims
free besides what they need themselves may do for it, too. So once all are made each victim, the
dearest first, is tried to be spared: it runs on, and the claims of the cycle are laid anew beside
it, on other nodes where they must. It is spared if they all fit, quota allows each of them and each
start of the cycle as if it were the last, and every guarantee by which it was protected has room
for it: in the end, and when its claim or a later one used that guarantee as its right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from arbiter.candidates import Candidate
from arbiter.earmarks import Earmark
from arbiter.holdings import Holding
from arbiter.owed import Owed
from arbiter.placement import Place
from arbiter.pool import Pool
from arbiter.protection import Guarantees
from arbiter.rooms import node_of
from arbiter.snapshot import Claim, Slot
from arbiter.standing import NewStart
from arbiter.victims import Search

#: Of so many claims at most all are laid anew where only those on a victim's nodes do not do.
_CLAIMS_MAX = 16
#: So many slots at most are laid anew for one victim, and for all of a cycle.
_SLOTS_MAX = 1_000
_SLOTS_IN_ALL = 5_000


class Made(NamedTuple):
    """A claim of this cycle, of a job that draws on the guarantee of `source`, and those who were
    `taken` for it, claims that were given up among them. `guarantees`: what was taken of them then,
    where anybody who was protected had been stopped by then."""

    earmark: Earmark
    source: int
    taken: tuple[Candidate, ...]
    guarantees: Guarantees | None

    def uses_right_of(self, above: int) -> bool:
        """Whether it takes anything from others by the guarantee of a child of `above`."""
        victims = self.earmark.victims
        return any(
            one.above == above and (one.holding.claim_of is not None or one.holding in victims)
            for one in self.taken
        )


class _Stand(NamedTuple):
    """How a claim stood before it was lifted."""

    claim: Claim
    stand_in: Holding
    free_mgpu: dict[str, int]
    uncovered_mgpu: int


class Sparing:
    """Spares the victims of the claims that one cycle `made` in a pool, beside its `starts`."""

    __slots__ = ("_asks", "_claims_on", "_made", "_owed", "_pool", "_rooms", "_slots_left")

    def __init__(
        self, pool: Pool, made: Sequence[Made], starts: Iterable[NewStart], owed: Owed
    ) -> None:
        self._pool = pool
        self._made = made
        self._owed = owed
        asks = [(one.team, one.job.mgpu) for one in starts]
        asks += [(one.team, one.job.mgpu) for one in pool.earmarks.values()]
        #: The teams and sizes of all that start now or by a claim.
        self._asks = tuple(dict.fromkeys(asks))
        self._slots_left = _SLOTS_IN_ALL
        #: The claims on each node, and whether there is room for a rank of so many milli-GPU; since
        #: somebody was spared last.
        self._claims_on: dict[tuple[str, str], list[Made]] = {}
        self._rooms: dict[int, bool] = {}

    def run(self) -> list[Holding]:
        """Those who run on after all. Where one is spared a right may be used no more that stood in
        the way of another, so that all the others are tried again."""
        victims = [
            (victim.key, at, victim.holding)
            for at, one in enumerate(self._made)
            for victim in one.taken
        ]
        victims.sort(key=lambda row: row[0], reverse=True)
        spared: list[Holding] = []
        count = -1
        while count < len(spared):
            count = len(spared)
            for _, at, holding in victims:
                of_claim = self._made[at].earmark.victims
                if holding in of_claim and self._spare(holding, at):
                    of_claim.remove(holding)
                    self._let_run(holding, at)
                    self._claims_on.clear()
                    self._rooms.clear()
                    spared.append(holding)
        if spared:
            self._cover_anew()
        return spared

    def _spare(self, holding: Holding, at: int) -> bool:
        """Count a victim of the claim `at` that place as if it ran on, where that takes nothing
        from anybody."""
        pool = self._pool
        if not self._leave_guarantees_room(holding, at):
            return False
        assert pool.later is not None
        pool.later.charge(holding.team, holding.mgpu)
        if self._does_quota(holding.team) and self._do_devices(holding):
            return True
        pool.later.charge(holding.team, -holding.mgpu)
        return False

    def _leave_guarantees_room(self, holding: Holding, at: int) -> bool:
        """Whether a victim of the claim `at` that place can be protected wherever it was, and no
        right that this claim or a later one uses rests on its going."""
        tree, team, mgpu = self._pool.tree, holding.team, holding.mgpu
        nodes = self._protecting(holding)
        if not all(self._pool.guarantees.fits(node, team, mgpu) for node in nodes):
            return False
        return all(
            one.guarantees is None or one.guarantees.fits(node, team, mgpu)
            for one in self._made[at:]
            for node in nodes
            if node in tree.paths[one.earmark.team] and one.uses_right_of(tree.parents[node])
        )

    def _protecting(self, holding: Holding) -> list[int]:
        """The nodes at which a victim was protected."""
        tree, protected = self._pool.tree, self._pool.stopped[holding]
        return [node for node in tree.paths[holding.team] if protected >> tree.depths[node] & 1]

    def _let_run(self, holding: Holding, at: int) -> None:
        for node in self._protecting(holding):
            for one in self._made[at:]:
                if one.guarantees is not None:
                    one.guarantees.take(node, holding.team, holding.mgpu)
        self._pool.let_run(holding)

    def _does_quota(self, changed: int) -> bool:
        """Whether quota would allow each start and each claim if it were the last, now that more
        is used at one team."""
        later = self._pool.later
        assert later is not None
        if (
            later.use <= later.capacity
            and later.root_held <= later.capacity
            and all(
                later.held[node] <= later.quota.limits[node]
                for node in self._pool.tree.paths[changed]
            )
        ):
            return True
        for team, mgpu in self._asks:
            later.charge(team, -mgpu)
            is_allowed = later.blocker(team, mgpu) is None
            later.charge(team, mgpu)
            if not is_allowed:
                return False
        return True

    # -- devices --------------------------------------------------------------------------

    def _do_devices(self, holding: Holding) -> bool:
        """Lay the claims beside a victim that runs on; False, and they are where they were, where
        they do not fit."""
        here = self._on_nodes_of(holding)
        if not self._may_do(holding, here):
            return False
        if self._lay_beside(holding, here):
            return True
        return len(here) < len(self._made) <= _CLAIMS_MAX and self._lay_beside(holding, self._made)

    def _on_nodes_of(self, holding: Holding) -> Sequence[Made]:
        if not self._claims_on:
            for one in self._made:
                claim = one.earmark.claim
                for slot in claim.slots:
                    self._claims_on.setdefault((claim.cluster, slot.node), []).append(one)
        run = holding.run
        found = (self._claims_on.get((run.cluster, slot.node), ()) for slot in run.slots)
        return list({id(one): one for those in found for one in those}.values())

    def _may_do(self, holding: Holding, here: Sequence[Made]) -> bool:
        """Whether those `here` may fit beside a victim: it is not missed, or there is room for a
        rank elsewhere. If a rank goes where larger ones are, one of those goes elsewhere."""
        run = holding.run
        if not here or self._are_left(run.cluster, run.slots):
            return True
        least = min(one.earmark.job.mgpu_per_node for one in here)
        sizes = {least}
        if len(self._made) <= _CLAIMS_MAX:
            sizes.update(one.earmark.job.mgpu_per_node for one in self._made)
        return any(self._is_room_for(mgpu) for mgpu in sorted(sizes) if mgpu >= least)

    def _is_room_for(self, mgpu: int) -> bool:
        """Whether any node has so much that is free or coming back; where all claims may be laid
        anew, without those of smaller ranks."""
        found = self._rooms.get(mgpu)
        if found is None:
            found = self._rooms[mgpu] = any(
                mgpu <= most
                for cluster in self._pool.free.free
                for most in self._most(cluster, mgpu)
            )
        return found

    def _most(self, cluster: str, mgpu: int) -> Iterator[int]:
        """What nodes of a cluster have left for a rank of this size."""
        nodes, unclaimed = self._pool.free.free[cluster], self._pool.coming_back.get(cluster, {})
        yield max(nodes.values(), default=0)
        yield from (nodes[node] + more for node, more in unclaimed.items() if node in nodes)
        if len(self._made) <= _CLAIMS_MAX:
            for (at, node), those in self._claims_on.items():
                if at == cluster and node in nodes:
                    sizes = (one.earmark.job.mgpu_per_node for one in those)
                    smaller = sum(size for size in sizes if size < mgpu)
                    yield nodes[node] + unclaimed.get(node, 0) + smaller

    def _are_left(self, cluster: str, slots: Iterable[Slot]) -> bool:
        """Whether so much of nodes and rooms is free or coming back, of those that are offered:
        of others nobody misses anything."""
        free, unclaimed = self._pool.free, self._pool.coming_back.get(cluster, {})
        offered = free.free.get(cluster, {})
        return all(
            free.left(cluster, slot.node) + unclaimed.get(slot.node, 0) >= slot.mgpu
            for slot in slots
            if node_of(slot.node) in offered
        )

    def _lay_beside(self, holding: Holding, those: Sequence[Made]) -> bool:
        """Lay those claims anew beside a victim that runs on, the largest ranks first; False, and
        they are where they were, where one does not fit."""
        pool = self._pool
        count = sum(len(one.earmark.claim.slots) for one in those)
        if count > min(_SLOTS_MAX, self._slots_left):
            return False
        self._slots_left -= count
        before = []
        for one in those:
            earmark = one.earmark
            stand = earmark.claim, earmark.stand_in, earmark.free_mgpu, earmark.uncovered_mgpu
            before.append(_Stand(*stand))
            pool.lift(earmark)
        pool.give_back(holding, -1)
        laid: list[Earmark] = []
        for one in sorted(those, key=_size, reverse=True):
            place = self._place_for(one)
            if place is None:
                break
            if place != one.earmark.place:
                pool.place(one.earmark, place)
            pool.lay([one.earmark])
            laid.append(one.earmark)
        if len(laid) == len(those):
            return True
        for earmark in laid:
            pool.lift(earmark)
        pool.give_back(holding)
        for one, stand in zip(those, before, strict=True):
            earmark = one.earmark
            earmark.claim, earmark.stand_in = stand.claim, stand.stand_in
            earmark.free_mgpu, earmark.uncovered_mgpu = stand.free_mgpu, stand.uncovered_mgpu
            pool.put_back(earmark)
        return False

    def _place_for(self, one: Made) -> Place | None:
        """Where a claim that is lifted fits: where it was, else anywhere."""
        pool, earmark = self._pool, one.earmark
        if self._are_left(earmark.claim.cluster, earmark.claim.slots):
            return earmark.place
        shape = pool.ground.shape_of(earmark.job)
        for cluster in pool.free.clusters(shape.clusters):
            search = Search(pool, earmark.team, shape, cluster, self._owed)
            if search.is_enough():
                return Place(cluster, search.nodes())
        return None

    # -- the end --------------------------------------------------------------------------

    def _cover_anew(self) -> None:
        """Victims go for the claims that they were chosen for before they go for others, and each
        claim waits as long as whom it waits for may take."""
        pool, earmarks = self._pool, [one.earmark for one in self._made]
        for earmark in earmarks:
            pool.lift(earmark)
        pool.lay(earmarks)
        ends: dict[tuple[str, str], int] = {}
        for holding in (*pool.leaving, *pool.stopped):
            grace_until = pool.grace_until(holding)
            for slot in holding.run.slots:
                node = holding.run.cluster, slot.node
                ends[node] = max(grace_until, ends.get(node, 0))
        for earmark in earmarks:
            here = (ends.get((earmark.claim.cluster, slot.node), 0) for slot in earmark.claim.slots)
            own = map(pool.grace_until, earmark.going)
            pool.wait_until(earmark, max([pool.taken_at, *here, *own]))
            pool.wait_for_quota(earmark)


def _size(one: Made) -> tuple[int, int]:
    return one.earmark.job.mgpu_per_node, one.earmark.job.node_count
