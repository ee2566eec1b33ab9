"""What a cluster says of an attempt, and what it does not say."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.metering import Grant, record_started, register_attempts
from billing.models import UsageSegment
from builders.held_cluster import AClusterThatHolds
from builders.loop_builders import Fenced, a_job
from builders.portal_builders import NOW, Company, a_cluster, a_user
from connectors.errors import AccountUndecided, ClusterUnavailable
from connectors.protocol import Listing, Observation, Outcome, RankSlot, Unread, WorkloadPhase
from jobs.execution.comparing import NEVER_STARTED
from jobs.execution.dispatch import stop_attempt
from jobs.execution.observation import apply_listing
from jobs.execution.questions import Questions
from jobs.models import Attempt, Job, JobEvent, JobReason, JobState
from outbox.models import Message

pytestmark = pytest.mark.django_db

STARTED = int(NOW.timestamp())


def a_running_attempt(company: Company) -> Attempt:
    bob = a_user(company.organization)
    job = a_job(
        company.nlp, bob, company.pool, gpus=8, now=NOW, state=JobState.RUNNING, attempt_number=1
    )
    attempt = Attempt.objects.create(
        job=job,
        number=1,
        cluster=company.cluster,
        slots=[{"node": "n", "mgpu": 8000}],
        mgpu=8000,
        guaranteed_mgpu=8000,
        state="running",
        epoch=1,
        granted_at=NOW,
        started_at=NOW,
        native_id="1",
        native_state="running",
    )
    register_attempts(
        [
            Grant(
                attempt_id=attempt.id,
                job_id=job.id,
                job_name=job.name,
                number=1,
                organization_id=company.nlp.organization_id,
                team_id=company.nlp.pk,
                user_id=bob.id,
                pool_id=company.pool.id,
                cluster_id=company.cluster.id,
                priority_class="normal",
                multiplier_ppm=1_000_000,
                job_type=job.type,
                mgpu=8000,
                guaranteed_mgpu=8000,
                at=NOW,
            )
        ],
        now=NOW,
    )
    record_started(attempt.id, at=NOW, now=NOW)
    return attempt


def said(
    attempt: Attempt,
    phase: WorkloadPhase = WorkloadPhase.RUNNING,
    *,
    native_state: str = "running",
    ended_s: int | None = None,
    released_s: int | None = None,
    outcome: Outcome | None = None,
) -> Observation:
    return Observation(
        key=attempt.key,
        native_id="1",
        native_state=native_state,
        phase=phase,
        started_at=STARTED,
        ended_at=None if ended_s is None else STARTED + ended_s,
        released_at=None if released_s is None else STARTED + released_s,
        is_released=released_s is not None,
        outcome=outcome,
        exit_codes={} if outcome is None else {0: 0},
    )


def listen(
    company: Company,
    *observations: Observation,
    at_s: int,
    previous_s: int = 0,
    connector: AClusterThatHolds | None = None,
) -> int:
    now = NOW + timedelta(seconds=at_s)
    return apply_listing(
        company.cluster,
        Listing(STARTED + at_s, {item.key: item for item in observations}),
        connector=connector or AClusterThatHolds(submits_held=False),  # type: ignore[arg-type]
        previous_at=NOW + timedelta(seconds=previous_s),
        leadership=Fenced("observer"),  # type: ignore[arg-type]
        now=now,
    )


def test_a_listing_that_says_nothing_new_writes_nothing(company: Company) -> None:
    attempt = a_running_attempt(company)
    assert listen(company, said(attempt), at_s=5) == 0


def over(attempt: Attempt) -> Observation:
    return said(
        attempt,
        WorkloadPhase.ENDED,
        native_state="ended",
        ended_s=10,
        released_s=10,
        outcome=Outcome.SUCCEEDED,
    )


def test_many_changes_take_as_many_statements_as_one(company: Company) -> None:
    """Also when they are of every kind. Planted: the meter told of each by itself."""
    counts = []
    for number in (1, 7):
        attempts = [a_running_attempt(company) for _ in range(2 * number)]
        ended, missing = attempts[:number], attempts[number:]
        with CaptureQueriesContext(connection) as seen:
            assert listen(company, *map(over, ended), at_s=11) == number
        counts.append(len(seen))
        listed = Attempt.objects.filter(pk__in=[one.pk for one in ended])
        assert set(listed.values_list("state", "released_at", "job__state", "job__exit_code")) == {
            ("ended", NOW + timedelta(seconds=10), "succeeded", 0)
        }
        assert UsageSegment.objects.filter(attempt__in=[one.pk for one in ended]).count() == number
        assert set(
            Attempt.objects.filter(pk__in=[one.pk for one in missing]).values_list(
                "state", "missed_listings"
            )
        ) == {("running", 1)}
        Attempt.objects.filter(pk__in=[one.pk for one in missing]).update(cluster=a_cluster("off"))
    assert counts[1] <= counts[0]


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_one_that_cannot_be_applied_holds_up_no_other(
    company: Company, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: its batch given up whole; its batch stored without its job."""
    monkeypatch.setattr("jobs.execution.observation.BATCH_MAX", batch)
    attempts = [a_running_attempt(company) for _ in range(5)]
    bad = attempts[2]
    Job.objects.filter(pk=bad.job_id).update(state="cancelled", ended_at=NOW, end_reason="x")
    assert listen(company, *map(over, attempts), at_s=11) == 4
    assert set(
        Attempt.objects.filter(state="ended", job__state="succeeded").values_list("pk", flat=True)
    ) == {one.pk for one in attempts if one is not bad}
    bad.refresh_from_db()
    assert (bad.state, bad.released_at) == ("running", None)


def test_gpus_are_held_until_the_last_process_is_gone(company: Company) -> None:
    attempt = a_running_attempt(company)
    ended = said(
        attempt, WorkloadPhase.ENDED, native_state="ended", ended_s=10, outcome=Outcome.SUCCEEDED
    )
    listen(company, ended, at_s=11)
    attempt.refresh_from_db()
    assert (attempt.state, attempt.released_at) == ("ended", None)
    assert Job.objects.get().state == "running"
    gone = said(
        attempt,
        WorkloadPhase.ENDED,
        native_state="ended",
        ended_s=10,
        released_s=25,
        outcome=Outcome.SUCCEEDED,
    )
    listen(company, gone, at_s=26)
    job = Job.objects.get()
    assert (job.state, job.ended_at) == ("succeeded", NOW + timedelta(seconds=10))
    segment = UsageSegment.objects.get()
    assert (segment.start, segment.end) == (NOW, NOW + timedelta(seconds=25))


def test_absent_is_lost_only_after_three_complete_listings_and_never_finished(
    company: Company,
) -> None:
    """Metered up to the last listing that had it, queued again, and stopped should it turn up."""
    attempt = a_running_attempt(company)
    for at_s in (61, 62):
        listen(company, at_s=at_s, previous_s=60)
        assert Job.objects.get().state == "running"
    listen(company, at_s=63, previous_s=60)
    attempt.refresh_from_db()
    assert (attempt.outcome, attempt.released_at) == ("lost", NOW + timedelta(seconds=60))
    assert Job.objects.get().state == "queued"
    segment = UsageSegment.objects.get()
    assert (segment.start, segment.end) == (NOW, NOW + timedelta(seconds=60))
    assert [message.kind for message in Message.objects.all()] == ["stop_attempt"]


def test_an_attempt_cancelled_before_it_was_sent_ends_after_its_cancellation(
    company: Company,
) -> None:
    """Against: it was lost, with an end before the cancellation, and "last listed" at a time at
    which no listing had it. The stop stays, should it turn up."""
    attempt = a_running_attempt(company)
    asked_at = NOW + timedelta(seconds=50)
    Job.objects.update(state="starting", started_at=None, cancel_requested_at=asked_at)
    Attempt.objects.update(
        state="stopping",
        stop_reason="cancelled",
        native_id=NEVER_STARTED,
        started_at=None,
        notice_at=asked_at,
        grace_until=asked_at + timedelta(seconds=30),
    )
    for at_s in (61, 62, 63):
        listen(company, at_s=at_s, previous_s=40)
    attempt.refresh_from_db()
    at = NOW + timedelta(seconds=63)
    assert (attempt.outcome, attempt.ended_at, attempt.released_at, attempt.message) == (
        "stopped",
        at,
        at,
        "It was stopped before its cluster knew of it.",
    )
    job = Job.objects.get()
    assert (job.state, job.end_reason, job.ended_at) == ("cancelled", "cancelled_by_user", at)
    assert [message.kind for message in Message.objects.all()] == ["stop_attempt"]
    stopped: list[str] = []
    cluster = SimpleNamespace(stop=lambda key, native_id: stopped.append(key))
    message = Message.objects.get()
    stop_attempt(message, Fenced("observer"), lambda _: cluster)  # type: ignore[arg-type, return-value]
    assert stopped == [attempt.key]


def test_accounting_is_asked_before_an_attempt_is_lost(company: Company) -> None:
    attempt = a_running_attempt(company)
    ended = said(
        attempt,
        WorkloadPhase.ENDED,
        native_state="COMPLETED",
        ended_s=40,
        released_s=40,
        outcome=Outcome.SUCCEEDED,
    )
    cluster = AClusterThatHolds(accounting={("1", attempt.key): ended})
    Attempt.objects.update(release_sent_at=NOW)
    for at_s in (61, 62, 63):
        listen(company, at_s=at_s, previous_s=60, connector=cluster)
    assert cluster.asked == [attempt.key]
    job = Job.objects.get()
    assert (job.state, job.ended_at) == ("succeeded", NOW + timedelta(seconds=40))
    segment = UsageSegment.objects.get()
    assert (segment.start, segment.end) == (NOW, NOW + timedelta(seconds=40))


def test_nothing_is_concluded_while_accounting_does_not_answer(company: Company) -> None:
    """Planted: taking the silence for "not known" loses the attempt."""
    attempt = a_running_attempt(company)
    Attempt.objects.update(release_sent_at=NOW)
    for at_s in range(61, 70):
        listen(company, at_s=at_s, previous_s=60, connector=AClusterThatHolds(accounting=None))
    attempt.refresh_from_db()
    assert (attempt.outcome, attempt.missed_listings) == (None, 2)
    assert Job.objects.get().state == "running"


def test_what_the_listing_may_have_unread_is_not_missing(company: Company) -> None:
    """Planted: not asking `may_have` loses the first; freezing all keeps both."""
    attempt, other = a_running_attempt(company), a_running_attempt(company)
    Attempt.objects.filter(pk=other.pk).update(native_id="2")
    for unread, lost in (((Unread(None, "odd"),), 0), ((Unread("1", "odd"),), 1)):
        for at_s in (61, 62, 63):
            apply_listing(
                company.cluster,
                Listing(STARTED + at_s, {}, unread=unread),
                connector=AClusterThatHolds(submits_held=False),  # type: ignore[arg-type]
                previous_at=NOW,
                leadership=Fenced("observer"),  # type: ignore[arg-type]
                now=NOW + timedelta(seconds=at_s),
            )
        assert Attempt.objects.filter(outcome="lost").count() == lost
    attempt.refresh_from_db()
    assert (attempt.state, attempt.missed_listings) == ("running", 0)


def test_an_accounting_that_hangs_holds_up_one_question_only(company: Company) -> None:
    attempts = [a_running_attempt(company) for _ in range(3)]
    Attempt.objects.update(missed_listings=2, missing_since=NOW)
    cluster = AClusterThatHolds(submits_held=False)
    asked: list[str] = []

    def hang(key: str, native_id: str) -> None:
        asked.append(key)
        raise ClusterUnavailable("timed out")

    cluster.find_ended = hang  # type: ignore[method-assign,assignment]
    questions = Questions()
    for at_s in (61, 62):
        apply_listing(
            company.cluster,
            Listing(STARTED + at_s, {}),
            connector=cluster,  # type: ignore[arg-type]
            previous_at=NOW,
            leadership=Fenced("observer"),  # type: ignore[arg-type]
            now=NOW + timedelta(seconds=at_s),
            questions=questions,
        )
    assert asked == [min(attempts, key=lambda one: one.job_id).key]


def test_what_was_released_and_is_known_nowhere_is_held_for_a_person(company: Company) -> None:
    """It may have run, so it does not run again by itself. Planted: calling it lost."""
    attempt = a_running_attempt(company)
    Attempt.objects.update(release_sent_at=NOW)
    for at_s in (61, 62, 63):
        listen(company, at_s=at_s, previous_s=60, connector=AClusterThatHolds())
    attempt.refresh_from_db()
    assert (attempt.outcome, attempt.released_at) == ("unknown", NOW + timedelta(seconds=60))
    assert (Job.objects.get().state, Job.objects.get().ended_at) == ("held", None)
    line = JobReason.objects.get()
    assert (line.code, line.since) == ("held_by_user", NOW + timedelta(seconds=63))
    assert "has lost track of attempt 1. It is unknown" in line.document["sentence"]


def test_an_account_that_stays_open_is_believed_for_a_minute(company: Company) -> None:
    """A controller that was killed forgets a job, and its accounting waits for the end for ever.
    Planted: waiting as long as accounting does."""
    attempt = a_running_attempt(company)
    Attempt.objects.update(release_sent_at=NOW)
    cluster = AClusterThatHolds()

    def undecided(key: str, native_id: str) -> None:
        raise AccountUndecided("job 1 still is RUNNING, and its controller does not know it")

    cluster.find_ended = undecided  # type: ignore[method-assign,assignment]
    for at_s in (61, 62, 63, 119):
        listen(company, at_s=at_s, previous_s=60, connector=cluster)
        attempt.refresh_from_db()
        assert (attempt.state, attempt.outcome) == ("running", None)
    listen(company, at_s=120, previous_s=119, connector=cluster)
    attempt.refresh_from_db()
    assert (attempt.outcome, attempt.released_at) == ("unknown", NOW + timedelta(seconds=60))
    assert attempt.message == (
        "The cluster no longer knows this attempt; it was last listed at "
        "2026-11-21T12:01:00+00:00. Job 1 still is RUNNING, and its controller does not know it."
    )
    assert Job.objects.get().state == "held"


def test_what_was_held_and_never_released_has_not_run(company: Company) -> None:
    attempt = a_running_attempt(company)
    cluster = AClusterThatHolds()
    for at_s in (61, 62, 63):
        listen(company, at_s=at_s, previous_s=60, connector=cluster)
    attempt.refresh_from_db()
    assert (attempt.outcome, cluster.asked) == ("lost", [])
    assert Job.objects.get().state == "queued"


def test_an_id_that_was_given_to_another_submission_is_not_ours(company: Company) -> None:
    """The key is listed under another id only: the recorded one is missing."""
    attempt = a_running_attempt(company)
    other = replace(said(attempt), native_id="2")
    listen(company, other, at_s=61)
    attempt.refresh_from_db()
    assert attempt.missed_listings == 1


def test_the_arbiter_goes_by_where_the_cluster_put_it(company: Company) -> None:
    attempt = a_running_attempt(company)
    Attempt.objects.update(started_at=None, state="starting")
    listen(company, replace(said(attempt), slots=(RankSlot("h007", 8000),)), at_s=1)
    attempt.refresh_from_db()
    assert attempt.slots == [{"node": "h007", "mgpu": 8000}]


def held(attempt: Attempt, mgpu: int, **changes: object) -> Observation:
    return replace(said(attempt), slots=(RankSlot("h007", mgpu),), **changes)  # type: ignore[arg-type]


def metered() -> list[tuple[int, int | None, int, int]]:
    return [
        (
            int(one.start.timestamp()) - STARTED,
            None if one.end is None else int(one.end.timestamp()) - STARTED,
            one.guaranteed_mgpu,
            one.borrowed_mgpu,
        )
        for one in UsageSegment.objects.order_by("start")
    ]


def begun(attempt: Attempt, start_s: int, **changes: object) -> Observation:
    changed = {"is_only_run": True, "started_at": STARTED + start_s, **changes}
    return replace(said(attempt), **changed)  # type: ignore[arg-type]


def waiting(attempt: Attempt) -> Observation:
    return begun(attempt, 0, phase=WorkloadPhase.STARTING, started_at=None, native_state="pending")


@pytest.mark.parametrize("was_looked_at", [True, False])
def test_a_start_that_a_killed_controller_forgot_is_charged_once_and_as_its_account_says(
    company: Company, was_looked_at: bool
) -> None:
    """Planted: the first start kept; the later one seen only when something else changed too, or
    only when it was seen to wait in between."""
    attempt = a_running_attempt(company)
    listen(company, begun(attempt, 0), at_s=1)
    if was_looked_at:
        listen(company, waiting(attempt), at_s=5)
    assert metered() == [(0, None, 8000, 0)]
    assert listen(company, begun(attempt, 8), at_s=9) == 1
    assert metered() == [(8, None, 8000, 0)]
    assert listen(company, begun(attempt, 8), at_s=10) == 0
    over = begun(
        attempt,
        8,
        phase=WorkloadPhase.ENDED,
        native_state="ended",
        outcome=Outcome.SUCCEEDED,
        ended_at=STARTED + 20,
        released_at=STARTED + 20,
        is_released=True,
    )
    listen(company, over, at_s=21)
    assert metered() == [(8, 20, 8000, 0)]
    attempt.refresh_from_db()
    job = Job.objects.get()
    assert attempt.started_at == job.started_at == NOW + timedelta(seconds=8)
    assert (job.state, job.attempt_number) == ("succeeded", 1)
    # What is begun anew after the end that was told is another matter (`jobs.execution.strays`).
    assert listen(company, begun(attempt, 30), at_s=31) == 0
    assert metered() == [(8, 20, 8000, 0)]
    told = JobEvent.objects.filter(event="started").values_list("at", "detail")
    assert list(told) == [(NOW + timedelta(seconds=8), {"attempt": 1})]


@pytest.mark.parametrize(
    "changes",
    [{"is_only_run": False}, {"started_at": STARTED - 8}, {"started_at": STARTED}],
    ids=["another run", "earlier", "the same"],
)
def test_another_run_an_earlier_start_and_the_same_take_nothing_back(
    company: Company, changes: dict[str, object]
) -> None:
    """Planted: a run that was requeued, and used, not charged."""
    attempt = a_running_attempt(company)
    assert listen(company, begun(attempt, 8, **changes), at_s=9) == 0
    assert metered() == [(0, None, 8000, 0)]


@pytest.mark.parametrize(("saved_s", "start_s"), [(3, 0), (9, 8)])
def test_what_saved_something_has_run(company: Company, saved_s: int, start_s: int) -> None:
    """Planted: a checkpoint before the start, which the database refuses at every look."""
    attempt = a_running_attempt(company)
    Attempt.objects.update(checkpoint_at=NOW + timedelta(seconds=saved_s))
    assert listen(company, begun(attempt, 8, native_state="suspended"), at_s=10) == 1
    attempt.refresh_from_db()
    assert attempt.started_at == NOW + timedelta(seconds=start_s)
    assert attempt.native_state == "suspended"
    assert metered() == [(start_s, None, 8000, 0)]


@pytest.mark.parametrize(("start_s", "saved_s"), [(2, 3), (8, 8)])
def test_a_checkpoint_that_was_reported_before_the_start_was_observed(
    company: Company, start_s: int, saved_s: int
) -> None:
    """A cluster's clock may be ahead. Planted: the start is refused by the database for ever."""
    attempt = a_running_attempt(company)
    Attempt.objects.update(
        started_at=None, state="starting", checkpoint_at=NOW + timedelta(seconds=3)
    )
    listen(company, begun(attempt, start_s), at_s=10)
    attempt.refresh_from_db()
    assert attempt.started_at == NOW + timedelta(seconds=start_s)
    assert attempt.checkpoint_at == NOW + timedelta(seconds=saved_s)


def test_what_its_user_made_larger_counts_from_its_start(company: Company) -> None:
    """Planted: the size of the grant kept; the size counted from when it was seen only."""
    attempt = a_running_attempt(company)
    Attempt.objects.update(started_at=None, state="starting")
    listen(company, held(attempt, 12_000), at_s=4)
    attempt.refresh_from_db()
    assert (attempt.mgpu, attempt.guaranteed_mgpu) == (12_000, 8000)
    assert attempt.slots == [{"node": "h007", "mgpu": 12_000}]
    assert metered() == [(0, None, 8000, 4000)]
    event = JobEvent.objects.get(event="resized_on_cluster")
    assert event.detail == {"attempt": 1, "before_mgpu": 8000, "mgpu": 12_000}


@pytest.mark.parametrize(("resized_s", "since_s"), [(7, 7), (None, 9)])
def test_what_was_taken_from_it_counts_no_longer(
    company: Company, resized_s: int | None, since_s: int
) -> None:
    """Planted: a size that changes beside an unchanged state is not seen; the cluster's own time
    is not believed; the guaranteed part stays larger than the whole."""
    attempt = a_running_attempt(company)
    listen(company, held(attempt, 8000), at_s=1)
    resized_at = None if resized_s is None else STARTED + resized_s
    assert listen(company, held(attempt, 2000, resized_at=resized_at), at_s=9) == 1
    attempt.refresh_from_db()
    assert (attempt.mgpu, attempt.guaranteed_mgpu) == (2000, 2000)
    assert attempt.slots == [{"node": "h007", "mgpu": 2000}]
    assert metered() == [(0, since_s, 8000, 0), (since_s, None, 2000, 0)]
    assert listen(company, held(attempt, 2000, resized_at=resized_at), at_s=10) == 0


@pytest.mark.parametrize("resized_s", [None, 7])
def test_what_grows_again_is_borrowed_until_the_arbiter_says_otherwise(
    company: Company, resized_s: int | None
) -> None:
    """Planted: the guarantee cut with the attempt but not with the meter; dies here."""
    attempt = a_running_attempt(company)
    listen(company, held(attempt, 8000), at_s=1)
    resized_at = None if resized_s is None else STARTED + resized_s
    listen(company, held(attempt, 2000, resized_at=resized_at), at_s=9)
    listen(company, held(attempt, 8000, resized_at=STARTED + 12), at_s=14)
    attempt.refresh_from_db()
    assert (attempt.mgpu, attempt.guaranteed_mgpu) == (8000, 2000)
    since_s = 9 if resized_s is None else 7
    assert metered() == [
        (0, since_s, 8000, 0),
        (since_s, 12, 2000, 0),
        (12, None, 2000, 6000),
    ]


@pytest.mark.parametrize("resized_s", [None, 3])
def test_what_was_changed_right_before_its_end_is_told_by_its_end(
    company: Company, resized_s: int | None
) -> None:
    attempt = a_running_attempt(company)
    listen(company, held(attempt, 8000), at_s=1)
    end = said(attempt, WorkloadPhase.ENDED, ended_s=5, released_s=5, outcome=Outcome.SUCCEEDED)
    resized_at = None if resized_s is None else STARTED + resized_s
    end = replace(end, slots=(RankSlot("h007", 4000),), resized_at=resized_at)
    listen(company, end, at_s=6)
    expected = [(0, 5, 8000, 0)] if resized_s is None else [(0, 3, 8000, 0), (3, 5, 4000, 0)]
    assert metered() == expected


@pytest.mark.parametrize("mgpu", [0, 2000])
def test_of_what_is_ending_or_holds_nothing_no_size_is_believed(
    company: Company, mgpu: int
) -> None:
    attempt = a_running_attempt(company)
    listen(company, held(attempt, 8000), at_s=1)
    phase = WorkloadPhase.STOPPING if mgpu else WorkloadPhase.RUNNING
    listen(company, held(attempt, mgpu, phase=phase, native_state="ends"), at_s=2)
    attempt.refresh_from_db()
    assert (attempt.mgpu, metered()) == (8000, [(0, None, 8000, 0)])


def test_an_attempt_that_was_only_missed_is_not_lost(company: Company) -> None:
    attempt = a_running_attempt(company)
    listen(company, at_s=1)
    listen(company, at_s=2)
    listen(company, said(attempt), at_s=3)
    listen(company, at_s=4)
    attempt.refresh_from_db()
    assert (attempt.missed_listings, attempt.outcome) == (1, None)


def test_one_answer_that_cannot_be_stored_does_not_hold_up_the_others(company: Company) -> None:
    """Planted: catching only IllegalMove and ValueError leaves the second one running."""
    bad, good = a_running_attempt(company), a_running_attempt(company)
    listen(
        company,
        said(bad, native_state="x" * 101),
        said(
            good,
            WorkloadPhase.ENDED,
            native_state="ended",
            ended_s=5,
            released_s=5,
            outcome=Outcome.SUCCEEDED,
        ),
        at_s=6,
    )
    good.refresh_from_db()
    assert good.released_at == NOW + timedelta(seconds=5)


def test_an_ended_attempt_does_not_run_again_because_its_record_became_unreadable(
    company: Company,
) -> None:
    attempt = a_running_attempt(company)
    Attempt.objects.update(state="ended", ended_at=NOW, outcome="succeeded")
    listen(company, said(attempt, native_state="unreadable"), at_s=6)
    attempt.refresh_from_db()
    assert (attempt.state, attempt.native_state) == ("ended", "unreadable")


@pytest.mark.parametrize(("cancelled_s", "state"), [(9, "cancelled"), (11, "succeeded")])
def test_a_job_that_ended_before_it_was_cancelled_has_succeeded(
    company: Company, cancelled_s: int, state: str
) -> None:
    attempt = a_running_attempt(company)
    Job.objects.update(cancel_requested_at=NOW + timedelta(seconds=cancelled_s))
    listen(
        company,
        said(
            attempt,
            WorkloadPhase.ENDED,
            native_state="ended",
            ended_s=10,
            released_s=30,
            outcome=Outcome.SUCCEEDED,
        ),
        at_s=31,
    )
    assert Job.objects.get().state == state
