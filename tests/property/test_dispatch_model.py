"""Every state of the dispatch protocol and of reclaiming, within small bounds.

Two leaders of which one does not know that it is deposed, calls that take long or get lost, a
controller that crashes once and forgets what it had not saved, another user who is given our id,
ended jobs that leave the list. Each rule is left out once to see what it is for; the search then
finds the shortest way to the harm, or shows that there is none. Numbers of states are exact, so
that a model that loses a step, and with it its meaning, is noticed.

Mutants planted in the steps, each of which died here, and not by its number of states alone: ids
are not given away again after a crash; what arrives does not look whose job has the id (the
harmful designs then look harmless or cannot run); copies are never removed, or nothing that
vanished gets a second attempt (a good end is out of reach); a release is not recorded before it
is called (second run after a purge); the recorded job is removed like a copy (more states than
allowed). Adopting the newest copy instead of the oldest is harmless and died by its number only.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from dispatch_model import reclaim
from dispatch_model.designs import (
    FAST,
    FENCED,
    HELD,
    LOOK_UP,
    RETRY,
    SETTLED,
    TAG_COMPARED,
    TIDEGATE,
    WITHDRAWING,
    Design,
)
from dispatch_model.search import Found, TooManyStates, explore
from dispatch_model.states import (
    CLAIMED,
    NO_ID,
    OTHER,
    Attempt,
    Call,
    End,
    Live,
    Message,
    State,
    Wrong,
)
from dispatch_model.steps import SMALL, Bounds, protocol

TWO_RELEASES = Bounds(releases=2)
THREE_SUBMISSIONS = Bounds(first_sends=3, second_sends=0)
STATES_MAX = 400_000


def _explored(design: Design, bounds: Bounds = SMALL, until: Wrong | None = None) -> Found[State]:
    found = explore(State(), protocol(design, bounds), states_max=STATES_MAX, until=until)
    print(f"{len(found.states):,} states of {design} within {bounds}")
    for wrong, way in found.wrong.items():
        print(f"  {wrong}: {'; '.join(way)}")
    return found


def _is_unknown(state: State) -> bool:
    return any(attempt.end == End.UNKNOWN for attempt in state.attempts)


def _is_ended(state: State) -> bool:
    return any(attempt.end == End.ENDED for attempt in state.attempts)


def _is_tidy(state: State) -> bool:
    """The job has an end that somebody can read, and nothing of ours is left held."""
    return (_is_ended(state) or _is_unknown(state)) and not any(
        job.tag != OTHER and job.live in (Live.HELD, Live.HELD_AGAIN) for job in state.jobs
    )


def _lost_submissions(found: Found[State], bounds: Bounds) -> int:
    """How many states lead nowhere, as the last attempt's submission was lost on its way, or
    forgotten by a crash, and the bounds grant no more."""
    dead_ends = found.dead_ends(
        lambda state: _is_tidy(state) or bounds[len(state.attempts) - 1] == 0
    )
    for state in dead_ends:
        tag = len(state.attempts) - 1
        assert not state.has_started
        assert Message(Call.SUBMIT, tag) not in state.calls
        assert not any(job.tag == tag for job in state.jobs)
    return len(dead_ends)


GROWTH = [
    pytest.param(
        RETRY,
        {Wrong.TWO_COPIES, Wrong.AGAIN_AFTER_CRASH, Wrong.AGAIN_AFTER_PURGE},
        6_256,
        id="retry on time-out",
    ),
    pytest.param(
        LOOK_UP,
        {Wrong.TWO_COPIES, Wrong.AGAIN_AFTER_CRASH, Wrong.AGAIN_AFTER_PURGE},
        8_751,
        id="look up the tag before resubmitting",
    ),
    pytest.param(
        FENCED,
        {Wrong.TWO_COPIES, Wrong.AGAIN_AFTER_CRASH, Wrong.AGAIN_AFTER_PURGE},
        1_801,
        id="and fence, and first write wins",
    ),
    pytest.param(
        HELD,
        {
            Wrong.HITS_ANOTHER,
            Wrong.TWO_COPIES,
            Wrong.AGAIN_AFTER_CRASH,
            Wrong.AGAIN_AFTER_PURGE,
            Wrong.RUNS_THOUGH_CLOSED,
        },
        31_458,
        id="and submit held, release the recorded id",
    ),
    pytest.param(
        TAG_COMPARED,
        {
            Wrong.HITS_ANOTHER,
            Wrong.TWO_COPIES,
            Wrong.AGAIN_AFTER_CRASH,
            Wrong.AGAIN_AFTER_PURGE,
            Wrong.RUNS_THOUGH_CLOSED,
        },
        48_426,
        id="and compare the tag: still a gap between comparing and acting",
    ),
    pytest.param(
        SETTLED, {Wrong.AGAIN_AFTER_PURGE}, 25_817, id="and wait until the controller has saved"
    ),
    pytest.param(TIDEGATE, set(), 20_097, id="and never again once released: safe"),
]


@pytest.mark.parametrize(("design", "wrongs", "states"), GROWTH)
def test_each_rule_of_the_protocol_takes_away_a_harm(
    design: Design, wrongs: set[Wrong], states: int
) -> None:
    """The protocol rule by rule: only all of them together are safe."""
    found = _explored(design)
    assert set(found.wrong) == wrongs
    assert len(found.states) == states


ONE_RULE_LESS = [
    pytest.param(
        replace(TIDEGATE, releases_recorded_only=False),
        {Wrong.TWO_COPIES, Wrong.AGAIN_AFTER_PURGE},
        26_505,
        id="any held copy with our tag is released",
    ),
    pytest.param(
        replace(TIDEGATE, compares_tag=False),
        {Wrong.HITS_ANOTHER, Wrong.GIVEN_UP},
        14_278,
        id="the recorded id is released unseen",
    ),
    pytest.param(
        replace(TIDEGATE, removal_waits_for_save=False),
        {Wrong.HITS_ANOTHER},
        27_334,
        id="copies are removed before the controller has saved them",
    ),
    pytest.param(
        replace(TIDEGATE, release_is_committed_first=False),
        {Wrong.AGAIN_AFTER_PURGE},
        25_071,
        id="dead between a release and its record",
    ),
    pytest.param(
        replace(TIDEGATE, first_write_wins=False),
        {Wrong.TWO_COPIES, Wrong.AGAIN_AFTER_PURGE, Wrong.GIVEN_UP},
        46_097,
        id="one thread of a leader overwrites what the other has recorded",
    ),
    pytest.param(
        replace(TIDEGATE, first_write_wins=False, has_threads=False),
        set(),
        10_546,
        id="a leader of one thread needs no first write",
    ),
    pytest.param(
        replace(TIDEGATE, looks_up=False),
        set(),
        19_068,
        id="the look-up saves copies, not runs",
    ),
]


@pytest.mark.parametrize(("design", "wrongs", "states"), ONE_RULE_LESS)
def test_what_each_rule_is_for(design: Design, wrongs: set[Wrong], states: int) -> None:
    """The whole protocol less one rule. Fence and first write cover each other only while a
    leader does one thing at a time; ours has a thread that observes beside the one that submits,
    so that the first write must win even behind the fence."""
    found = _explored(design)
    assert set(found.wrong) == wrongs
    assert len(found.states) == states


def test_without_a_fence_nothing_runs_twice_but_a_job_may_be_given_up() -> None:
    """A deposed leader concludes from its old listing that a released job is gone."""
    found = _explored(replace(TIDEGATE, is_fenced=False, has_threads=False))
    assert set(found.wrong) == {Wrong.GIVEN_UP}
    assert len(found.states) == 65_763


@pytest.mark.parametrize(("has_threads", "states"), [(False, 9_916), (True, 24_481)])
def test_without_fence_and_without_first_write_two_copies_start(
    has_threads: bool, states: int
) -> None:
    """A deposed leader's late answer replaces the id that was released: one rule of the two
    must hold."""
    design = replace(TIDEGATE, is_fenced=False, first_write_wins=False, has_threads=has_threads)
    found = _explored(design, until=Wrong.TWO_COPIES)
    assert Wrong.TWO_COPIES in found.wrong
    assert len(found.states) == states


def test_half_a_list_makes_us_give_up_what_runs() -> None:
    """Only a complete listing may say that something is missing."""
    design = replace(TIDEGATE, complete_listings_only=False)
    found = _explored(design, until=Wrong.GIVEN_UP)
    assert set(found.wrong) == {Wrong.GIVEN_UP}
    assert len(found.states) == 721


@pytest.mark.parametrize(
    ("bounds", "states", "stuck"),
    [
        pytest.param(
            TWO_RELEASES, 29_302, 107, id="two submissions, a second attempt, two releases"
        ),
        pytest.param(THREE_SUBMISSIONS, 169_154, 15, id="three submissions of one attempt"),
    ],
)
def test_nothing_runs_twice_nothing_is_lost_and_a_good_end_stays_reachable(
    bounds: Bounds, states: int, stuck: int
) -> None:
    """The protocol at its widest bounds. What is called unknown has run and was purged before
    anybody saw its end: strict settling loses nothing.

    From everywhere an end that somebody can read stays reachable, with nothing of ours left
    held on the cluster; `stuck` are only those states in which every submission that the
    bounds grant has been lost.
    """
    found = _explored(TIDEGATE, bounds)
    assert found.wrong == {}
    assert len(found.states) == states
    assert all(state.has_started for state in found.states if _is_unknown(state))
    # A second attempt that may not be sent within these bounds is left to the other bounds.
    dead_ends = found.dead_ends(
        lambda state: _is_tidy(state) or bounds[len(state.attempts) - 1] == 0
    )
    for state in dead_ends:
        tag = len(state.attempts) - 1
        assert state.attempts[tag] == Attempt(native_id=NO_ID, sends=bounds[tag])
        assert Message(Call.SUBMIT, tag) not in state.calls
        assert not any(job.tag == tag for job in state.jobs)
    assert len(dead_ends) == stuck


CLAIM_SENT_ONCE = Bounds(first_sends=1)
CLAIM_SENT_TWICE = Bounds(second_sends=0)


@pytest.mark.parametrize(
    ("bounds", "states", "stuck"),
    [
        pytest.param(CLAIM_SENT_ONCE, 19_582, 1_090, id="sent once, and a second attempt"),
        pytest.param(CLAIM_SENT_TWICE, 17_195, 15, id="sent twice"),
    ],
)
def test_what_is_held_for_a_claim_runs_only_once_the_arbiter_has_started_it(
    bounds: Bounds, states: int, stuck: int
) -> None:
    """A job's next attempt is submitted held while the victims of its claim have their grace. At
    any moment the arbiter starts the job, acknowledged or not, or gives the claim up: then another
    attempt takes its place, and what is or will be held of the first is removed."""
    found = explore(CLAIMED, protocol(TIDEGATE, bounds), states_max=STATES_MAX)
    assert found.wrong == {}
    assert len(found.states) == states
    assert all(state.has_started for state in found.states if _is_unknown(state))
    assert _lost_submissions(found, bounds) == stuck


@pytest.mark.parametrize(
    ("design", "wrongs", "states"),
    [
        pytest.param(
            replace(TIDEGATE, releases_granted_only=False),
            {Wrong.RUNS_UNGRANTED, Wrong.RUNS_THOUGH_CLOSED},
            19_057,
            id="released as soon as it has settled",
        ),
        pytest.param(
            replace(TIDEGATE, releases_recorded_only=False),
            {Wrong.TWO_COPIES, Wrong.AGAIN_AFTER_PURGE},
            23_603,
            id="any held copy with our tag is released",
        ),
        pytest.param(
            replace(TIDEGATE, compares_tag=False),
            {Wrong.HITS_ANOTHER, Wrong.GIVEN_UP},
            13_689,
            id="the recorded id is released unseen",
        ),
    ],
)
def test_what_each_rule_is_for_where_a_claim_is_sent_ahead(
    design: Design, wrongs: set[Wrong], states: int
) -> None:
    """The rules of dispatch are needed as before, and one more: no release without a start."""
    found = explore(CLAIMED, protocol(design, CLAIM_SENT_TWICE), states_max=STATES_MAX)
    assert set(found.wrong) == wrongs
    assert len(found.states) == states


SILENT_SENT_ONCE = Bounds(first_sends=1)
SILENT_SENT_TWICE = Bounds(second_sends=0)


@pytest.mark.parametrize(
    ("bounds", "states", "stuck"),
    [
        pytest.param(SILENT_SENT_ONCE, 19_059, 1_055, id="sent once, and a second attempt"),
        pytest.param(SILENT_SENT_TWICE, 16_285, 0, id="sent twice"),
    ],
)
def test_what_a_silent_cluster_left_unanswered_is_taken_back_at_any_moment(
    bounds: Bounds, states: int, stuck: int
) -> None:
    """Its first attempt is closed while its submission may be on the way, have arrived, or have
    been answered to somebody who has not recorded it yet. The second attempt goes to the same
    cluster, which is the worst that it can do. Nothing runs twice, and a good end stays reachable
    as long as the bounds grant a submission that is not lost."""
    found = _explored(WITHDRAWING, bounds)
    assert found.wrong == {}
    assert len(found.states) == states
    assert all(state.has_started for state in found.states if _is_unknown(state))
    assert _lost_submissions(found, bounds) == stuck


@pytest.mark.parametrize(
    ("design", "wrongs", "states"),
    [
        pytest.param(
            replace(WITHDRAWING, closes_what_it_withdraws=False),
            {Wrong.TWO_COPIES, Wrong.AGAIN_AFTER_PURGE},
            26_172,
            id="taken back and not closed",
        ),
        pytest.param(
            replace(WITHDRAWING, withdraws_unacknowledged_only=False),
            {Wrong.TWO_COPIES, Wrong.AGAIN_AFTER_PURGE, Wrong.RUNS_THOUGH_CLOSED},
            29_865,
            id="what has an id by now is taken back, too",
        ),
        pytest.param(
            replace(WITHDRAWING, is_held=False),
            {
                Wrong.TWO_COPIES,
                Wrong.AGAIN_AFTER_CRASH,
                Wrong.AGAIN_AFTER_PURGE,
                Wrong.RUNS_THOUGH_CLOSED,
            },
            2_273,
            id="where a submission runs without a release",
        ),
    ],
)
def test_what_each_rule_is_for_where_starts_are_taken_back(
    design: Design, wrongs: set[Wrong], states: int
) -> None:
    """Two runs follow from each rule that is left out; so nothing is taken back from a `local`
    cluster."""
    found = _explored(design, SILENT_SENT_ONCE)
    assert set(found.wrong) == wrongs
    assert len(found.states) == states


def test_fast_settling_may_lose_a_job_and_says_so() -> None:
    """What a cluster with a settle of 0 seconds gives up. A controller crash right after a
    release can lose the job, which is then unknown and not sent again; in the gap between
    comparing and acting a release can reach a job of another user who got the id; and a second
    release on its way can start a parked copy that got the id of the one that ran. No two
    copies ever run side by side."""
    found = _explored(FAST, TWO_RELEASES)
    assert set(found.wrong) == {Wrong.HITS_ANOTHER, Wrong.AGAIN_AFTER_CRASH, Wrong.GIVEN_UP}
    assert len(found.states) == 43_051
    lost = [state for state in found.states if _is_unknown(state) and not state.has_started]
    assert len(lost) == 522
    assert all(state.crashes_left == 0 for state in lost)


def test_fast_settling_that_releases_once_never_runs_twice() -> None:
    """The second run takes a second release; who never repeats one may have to let a job go
    whose only release was lost."""
    found = _explored(replace(FAST, repeats_release=False), TWO_RELEASES)
    assert set(found.wrong) == {Wrong.HITS_ANOTHER, Wrong.GIVEN_UP}
    assert len(found.states) == 16_644


RECLAIMS = [
    pytest.param(reclaim.Design(), set(), 3_058, id="claim row, stored deadline, confirmed end"),
    pytest.param(reclaim.Design(is_fenced=False), set(), 4_236, id="safe even without a fence"),
    pytest.param(
        reclaim.Design(waits_for_end=False),
        {reclaim.Wrong.GPU_TWICE},
        4_072,
        id="quota is free as soon as the victim is told",
    ),
    pytest.param(
        reclaim.Design(stores_deadline=False),
        {reclaim.Wrong.EARLY_KILL},
        3_942,
        id="the deadline is in the leader's memory",
    ),
    pytest.param(
        reclaim.Design(stores_claim=False),
        {reclaim.Wrong.TWO_VICTIMS},
        4_670,
        id="the claim is in the leader's memory: a fence does not help",
    ),
    pytest.param(
        reclaim.Design(claim_is_unique=False), set(), 3_058, id="claims are not unique, but fenced"
    ),
    pytest.param(
        reclaim.Design(claim_is_unique=False, is_fenced=False),
        {reclaim.Wrong.TWO_VICTIMS},
        4_236,
        id="claims are neither unique nor fenced",
    ),
]


@pytest.mark.parametrize(("design", "wrongs", "states"), RECLAIMS)
def test_reclaiming_takes_one_victim_after_its_grace_and_uses_no_gpu_twice(
    design: reclaim.Design, wrongs: set[reclaim.Wrong], states: int
) -> None:
    """Two leaders, two victims that may end by themselves, kills that are late or lost. The
    waiting job can start from everywhere."""
    found = explore(reclaim.State(), reclaim.reclaiming(design), states_max=STATES_MAX)
    print(f"{len(found.states):,} states of {design}: {found.wrong}")
    assert set(found.wrong) == wrongs
    assert len(found.states) == states
    assert found.dead_ends(reclaim.is_done) == []


def test_a_search_that_grows_beyond_its_bound_says_so() -> None:
    """A model that no longer fits must fail, never pass half explored."""
    with pytest.raises(TooManyStates, match="more than 100 states"):
        explore(State(), protocol(TIDEGATE), states_max=100)
