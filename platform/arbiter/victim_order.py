"""In which order running attempts are asked to give their GPUs back (semantics section 4).

A job that has not run for long, or that was stopped often enough, is *spared*: it comes after all
that are not, but is never immune, since a guarantee is a promise and sparing is a courtesy. What
is unpaid is not spared. An organization sets how long and how often for what is taken back within
it; where another organization takes its GPUs back the installation's policy counts, so that nobody
can put its own jobs behind those of strangers.

A job that would lose much of its work is *costly* and comes after all others, unpaid or not; among
such jobs what they lose decides, and neither rank nor credits nor priority. Else the team with the
fewest credits would give back days of work where another one would lose minutes.
"""

from __future__ import annotations

from arbiter.policy import Policy
from arbiter.quota_tree import ROOT, Tree
from arbiter.snapshot import RunningJob

#: Unpaid, paid, spared or costly; rank; credits in tenths of a day; order of the priority class.
Kind = tuple[int, int, int, int]
#: The kind; what stopping it costs; the youngest first; id. Smaller is asked earlier.
VictimKey = tuple[int, int, int, int, int, int, str]

UNPAID, PAID, SPARED, COSTLY = range(4)
#: The kind of a claim, which is given up before anything that runs.
NOT_YET_RUNNING = -1


def cost_of_stopping(
    run: RunningJob, mgpu: int, taken_at: int, checkpoint_at: int | None = None
) -> int:
    """What is lost of the work since the last known checkpoint (that of `run`, or a later one at
    `checkpoint_at`) or the start, in milli-GPU-seconds, and a second of all its GPUs: between jobs
    that would lose nothing the smaller one goes."""
    return mgpu * (1 + _lost_s(run, taken_at, checkpoint_at))


def _lost_s(run: RunningJob, taken_at: int, checkpoint_at: int | None) -> int:
    return max(0, taken_at - max(run.started_at, run.checkpoint_at or 0, checkpoint_at or 0))


class Sparing:
    """Who is spared by the rules of its own organization, and by those for all."""

    __slots__ = ("_costly_loss_s", "_rules", "_taken_at", "_tree")

    def __init__(self, tree: Tree, policy: Policy, taken_at: int) -> None:
        self._tree = tree
        self._taken_at = taken_at
        self._costly_loss_s = policy.costly_loss_s
        #: By organization, and ROOT for all: least seconds, most preemptions.
        self._rules = {ROOT: (policy.min_run_s, policy.preemptions_max)}
        for number, parent in enumerate(tree.parents):
            if parent == ROOT:
                given = tree.given[number]
                self._rules[number] = (
                    policy.min_run_s if given.min_run_s is None else given.min_run_s,
                    policy.preemptions_max
                    if given.preemptions_max is None
                    else given.preemptions_max,
                )

    def is_costly(self, run: RunningJob, checkpoint_at: int | None = None) -> bool:
        """Whether it would lose much of its work."""
        return _lost_s(run, self._taken_at, checkpoint_at) > self._costly_loss_s

    def of(self, run: RunningJob, organization: int) -> tuple[int, int]:
        """PAID or SPARED, within its organization and where another one asks."""
        ran_s = self._taken_at - run.started_at
        own_s, own_most = self._rules[organization]
        all_s, all_most = self._rules[ROOT]
        return (
            SPARED if ran_s < own_s or run.preemptions >= own_most else PAID,
            SPARED if ran_s < all_s or run.preemptions >= all_most else PAID,
        )
