"""In which order running attempts are asked to give their GPUs back (R-55 to R-57).

A job that has not run for long, or that was stopped often enough, is *spared*: it comes after all
that are not, but is never immune, since a guarantee is a promise and sparing is a courtesy. What
is unpaid is not spared. An organization sets how long and how often for what is taken back within
it; where another organization takes its GPUs back the installation's policy counts, so that nobody
can put its own jobs behind those of strangers.

A job that would lose much of its work is *costly* and comes after all others, unpaid or not; among
such jobs what they lose decides, and neither rank nor credits nor priority. Else the team with the
fewest credits would give back days of work where another one would lose minutes. What is much goes
by the GPUs that are asked for where these are fewer than its own: of a gang that is stopped for a
small job the work of all ranks is lost, though the GPUs of one would have done.
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

#: Unpaid, paid, spared or costly; rank; credits in tenths of a day; order of the priority class.
Kind = tuple[int, int, int, int]
#: The kind; what stopping it costs; the youngest first; id. Smaller is asked earlier.
VictimKey = tuple[Kind, int, int, str]

UNPAID = 0
PAID = 1
SPARED = 2
COSTLY = 3
#: The kind of a claim, which is given up before anything that runs.
NOT_YET_RUNNING = -1

_COSTLY_KIND: Kind = (COSTLY, 0, 0, 0)


def cost_of_stopping(
    run: RunningJob, mgpu: int, taken_at: int, checkpoint_at: int | None = None
) -> int:
    """What is lost of the work since the last known checkpoint (that of `run`, or a later one at
    `checkpoint_at`) or the start, in milli-GPU-seconds, and a second of all its GPUs: between jobs
    that would lose nothing the smaller one goes."""
    since, saved_at = run.started_at, run.checkpoint_at
    if saved_at is not None and saved_at > since:
        since = saved_at
    if checkpoint_at is not None and checkpoint_at > since:
        since = checkpoint_at
    return mgpu * (1 + taken_at - since) if taken_at > since else mgpu


class _Team(NamedTuple):
    """Where a team stands; `bit` is that of its depth. Its organization spares its attempts until
    they ran for so many seconds, and once they were stopped so often."""

    rank: int
    tenths: int
    is_unpaid: bool
    bit: int
    sparing: tuple[int, int]


class VictimOrder:
    """Where the attempts of one pool stand in this order: as things were before the cycle."""

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
        #: Equal kinds are one object, which are compared at no cost.
        self._kinds: dict[Kind, Kind] = {}

    def key(self, holding: Holding, wanted_mgpu: int, *, is_abroad: bool) -> VictimKey:
        """What orders an attempt or claim where a job of `wanted_mgpu` asks; `is_abroad`: another
        organization takes it back."""
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
