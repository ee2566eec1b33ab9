"""The order in which running attempts are preempted (R-55 to R-57).

A *spared* job has not run for long, or was preempted often enough. It comes after all jobs that are
not spared. It is never immune: a guarantee is a promise, and sparing is a courtesy. Unpaid use is
not spared. An organization sets both limits for reclaims within it. Reclaims by other organizations
use the limits of the installation, so that no organization can protect its jobs from others.

A *costly* job would lose much of its work and comes after all others, even if it is unpaid. Among
costly jobs only the loss decides, not rank, credits or priority. Otherwise the team with the fewest
credits would lose days of work where another would lose minutes. If fewer GPUs are needed than the
job has, the threshold is lower. A gang that is stopped for a small job loses the work of all ranks,
even if one rank's GPUs would have been enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from arbiter.api.policy import Policy
from arbiter.api.snapshot import RunningJob
from arbiter.fairshare.credits import Credits
from arbiter.quota.tree import Tree

if TYPE_CHECKING:
    from arbiter.cache.running import Holding

#: The kind (unpaid, paid, spared or costly), rank, credits in tenths of a day, and priority value.
Kind = tuple[int, int, int, int]
#: The kind, the cost of stopping, minus the start time, and the id. Smaller keys are stopped first.
VictimKey = tuple[Kind, int, int, str]

UNPAID = 0
PAID = 1
SPARED = 2
COSTLY = 3
#: The kind of a claim, which is dropped before any running attempt is stopped.
NOT_YET_RUNNING = -1

_COSTLY_KIND: Kind = (COSTLY, 0, 0, 0)


def cost_of_stopping(
    run: RunningJob, mgpu: int, taken_at: int, checkpoint_at: int | None = None
) -> int:
    """Return the work that stopping an attempt would lose, in milli-GPU-seconds.

    It counts since the start or the last known checkpoint (that of `run`, or a later one at
    `checkpoint_at`). One second of all its GPUs is added, so that among jobs without a loss the
    smaller one is stopped.
    """
    since, saved_at = run.started_at, run.checkpoint_at
    if saved_at is not None and saved_at > since:
        since = saved_at
    if checkpoint_at is not None and checkpoint_at > since:
        since = checkpoint_at
    return mgpu * (1 + taken_at - since) if taken_at > since else mgpu


class _Team(NamedTuple):
    """Properties of a team in the order of victims.

    `bit` is the bit of its depth. `sparing` are the limits of its organization: attempts are spared
    until they ran for so many seconds, or once they were preempted so often.
    """

    rank: int
    tenths: int
    is_unpaid: bool
    bit: int
    sparing: tuple[int, int]


class VictimOrder:
    """The order of the attempts of one pool, as things were before the cycle."""

    __slots__ = (
        "_abroad",
        "_checkpoint_at",
        "_costly_loss_s",
        "_credits",
        "_kinds",
        "_policy",
        "_taken_at",
        "_teams",
        "_tree",
    )

    def __init__(
        self,
        tree: Tree,
        policy: Policy,
        credits: Credits,
        checkpoint_at: Callable[[RunningJob], int | None],
        taken_at: int,
    ) -> None:
        self._tree = tree
        self._policy = policy
        self._credits = credits
        self._checkpoint_at = checkpoint_at
        self._taken_at = taken_at
        self._costly_loss_s = policy.costly_loss_s
        self._abroad = policy.min_run_s, policy.preemptions_max
        self._teams: dict[int, _Team] = {}
        #: Equal kinds share one object, so that comparing them is cheap.
        self._kinds: dict[Kind, Kind] = {}

    def key(self, holding: Holding, wanted_mgpu: int, *, is_abroad: bool) -> VictimKey:
        """Return the sort key of an attempt or claim when a job of `wanted_mgpu` needs GPUs.

        `is_abroad`: the job belongs to another organization.
        """
        if holding.claim_key is not None:
            return holding.claim_key
        run, mgpu, taken_at = holding.run, holding.mgpu, self._taken_at
        cost = cost_of_stopping(run, mgpu, taken_at, self._checkpoint_at(run))
        if cost > mgpu + min(mgpu, wanted_mgpu) * self._costly_loss_s:
            return _COSTLY_KIND, cost, -run.started_at, run.attempt
        team = self._teams.get(holding.team) or self._look_up(holding.team)
        if team.is_unpaid and not holding.protected & team.bit:
            word = UNPAID
        else:
            least_s, most = self._abroad if is_abroad else team.sparing
            is_spared = taken_at - run.started_at < least_s or run.preemptions >= most
            word = SPARED if is_spared else PAID
        kind = word, team.rank, team.tenths, holding.order
        return self._kinds.setdefault(kind, kind), cost, -run.started_at, run.attempt

    def _look_up(self, number: int) -> _Team:
        tree, policy, credits = self._tree, self._policy, self._credits
        given = tree.given[tree.paths[number][-1]]
        least, most = given.min_run_s, given.preemptions_max
        team = self._teams[number] = _Team(
            tree.ranks[number],
            credits.tenths(number),
            credits.is_unpaid(number),
            1 << tree.depths[number],
            (
                policy.min_run_s if least is None else least,
                policy.preemptions_max if most is None else most,
            ),
        )
        return team
