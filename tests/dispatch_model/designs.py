"""The rules of dispatch one by one, so that each can be left out.

The rules come from experiments with a real Slurm controller: it loses what it acknowledged in
the last seconds before a crash and gives the ids to whoever comes next, a submission can be
overtaken by the look-up that asks for it, and ended jobs leave its list.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Design:
    """Which rules hold. The defaults are the protocol as Tidegate carries it out."""

    #: Submit held with the tag; what is accepted runs only after a release.
    is_held: bool = True
    #: Before a second submission ask the cluster for the tag and adopt the oldest copy.
    looks_up: bool = True
    #: Every write of a leader fails once its epoch is over.
    is_fenced: bool = True
    #: The first recorded native id is never overwritten.
    first_write_wins: bool = True
    #: Only the recorded copy is released, never any other one with our tag.
    releases_recorded_only: bool = True
    #: Release and removal compare the tag that the cluster lists under the id.
    compares_tag: bool = True
    #: Release waits until the listing shows the job past the controller's save.
    waits_for_save: bool = True
    #: So does the removal of another copy.
    removal_waits_for_save: bool = True
    #: A release is called again as long as its job is still listed as held under our tag.
    repeats_release: bool = True
    #: That a release is about to be called is committed before it is called.
    release_is_committed_first: bool = True
    #: What was released is never sent again, not even as a new attempt.
    never_again_once_released: bool = True
    #: Only a complete listing may say that something is missing.
    complete_listings_only: bool = True
    #: An attempt is missed only after several listings in a row, so that the last of them was
    #: asked for after its id was recorded.
    misses_in_a_row: bool = True
    #: Of a claim's job only what the arbiter has started is released.
    releases_granted_only: bool = True
    #: A start that a silent cluster left unanswered is taken back: its job becomes a new attempt,
    #: elsewhere or there.
    withdraws: bool = False
    #: What is taken back is closed, so that an id which is learnt later is never released.
    closes_what_it_withdraws: bool = True
    #: Only what has no id by now is taken back, read again in the transaction that closes it.
    withdraws_unacknowledged_only: bool = True
    #: One thread of the leader observes, releases and removes while another submits.
    has_threads: bool = True


TIDEGATE = Design()
#: The same where a cluster falls silent. For itself, since every state has one more way to go on.
WITHDRAWING = replace(TIDEGATE, withdraws=True)
#: For clusters whose owners prefer an earlier start: settle of 0 seconds.
FAST = Design(waits_for_save=False, removal_waits_for_save=False)

#: How the protocol grew. Each line adds a rule to the one before.
RETRY = Design(
    is_held=False,
    looks_up=False,
    is_fenced=False,
    first_write_wins=False,
    compares_tag=False,
    waits_for_save=False,
    removal_waits_for_save=False,
    never_again_once_released=False,
)
LOOK_UP = replace(RETRY, looks_up=True)
FENCED = replace(LOOK_UP, is_fenced=True, first_write_wins=True)
HELD = replace(FENCED, is_held=True)
TAG_COMPARED = replace(HELD, compares_tag=True)
SETTLED = replace(TAG_COMPARED, waits_for_save=True, removal_waits_for_save=True)
