"""Which held submissions are released, which are removed, and which nobody touches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from builders.held_cluster import AClusterThatHolds
from builders.loop_builders import Fenced, a_job
from builders.portal_builders import NOW, Company, a_user
from connectors.protocol import Listing, Observation, WorkloadPhase
from jobs.execution.settling import settle
from jobs.leadership import NotLeading
from jobs.models import Attempt, JobState, Leadership

pytestmark = pytest.mark.django_db

AT = 1_000_000


def an_attempt(company: Company, native_id: str | None = "7", **values: Any) -> Attempt:
    job = a_job(
        company.nlp,
        a_user(company.organization),
        company.pool,
        state=JobState.STARTING,
        attempt_number=1,
    )
    return Attempt.objects.create(
        **{
            "job": job,
            "number": 1,
            "cluster": company.cluster,
            "slots": [{"node": "n", "mgpu": 1000}],
            "mgpu": 1000,
            "guaranteed_mgpu": 1000,
            "state": "starting",
            "epoch": 1,
            "granted_at": NOW,
            "native_id": native_id,
            **values,
        }
    )


def held(attempt: Attempt, native_id: str = "7", *, age_s: int = 7) -> Observation:
    return Observation(
        attempt.key, native_id, "PENDING", WorkloadPhase.HELD, submitted_at=AT - age_s
    )


def settled(
    company: Company, cluster: AClusterThatHolds, *observations: Observation
) -> AClusterThatHolds:
    by_key: dict[str, tuple[Observation, ...]] = {}
    for one in observations:
        by_key[one.key] = (*by_key.get(one.key, ()), one)
    listing = Listing(
        AT,
        {key: copies[0] for key, copies in by_key.items()},
        copies={key: copies for key, copies in by_key.items() if len(copies) > 1},
    )
    settle(
        company.cluster,
        cluster,  # type: ignore[arg-type]
        listing,
        leadership=Fenced("observer"),  # type: ignore[arg-type]
    )
    return cluster


def test_the_recorded_submission_is_released_once_it_has_settled(company: Company) -> None:
    """Planted: `>` instead of `>=`, and settling by 6 s."""
    attempt = an_attempt(company)
    young = settled(company, AClusterThatHolds(), held(attempt, age_s=6))
    attempt.refresh_from_db()
    assert (young.released, attempt.release_sent_at) == ([], None)
    old = settled(company, AClusterThatHolds(), held(attempt, age_s=7))
    attempt.refresh_from_db()
    assert old.released == [(attempt.key, "7")]
    assert attempt.release_sent_at is not None


def test_what_somebody_else_holds_is_not_released(company: Company) -> None:
    attempt = an_attempt(company)
    by_others = replace(held(attempt), is_held_by_others=True)
    cluster = settled(company, AClusterThatHolds(), by_others)
    attempt.refresh_from_db()
    assert (cluster.released, cluster.removed, attempt.release_sent_at) == ([], [], None)
    Attempt.objects.update(state="ended", ended_at=NOW, released_at=NOW)
    assert settled(company, cluster, by_others).removed == [(attempt.key, "7")]


def test_that_it_is_released_is_stored_before_the_cluster_is_told(company: Company) -> None:
    """The call fails, and yet it counts as released: it may have had its effect."""
    attempt = an_attempt(company)
    settled(company, AClusterThatHolds(away=True), held(attempt))
    attempt.refresh_from_db()
    first = attempt.release_sent_at
    assert first is not None
    again = settled(company, AClusterThatHolds(), held(attempt))
    attempt.refresh_from_db()
    assert (again.released, attempt.release_sent_at) == ([(attempt.key, "7")], first)


def test_of_two_copies_the_recorded_one_runs_and_the_other_goes(company: Company) -> None:
    attempt = an_attempt(company, "8")
    cluster = settled(company, AClusterThatHolds(), held(attempt, "7"), held(attempt, "8"))
    assert cluster.released == [(attempt.key, "8")]
    assert cluster.removed == [(attempt.key, "7")]


def test_a_copy_that_has_not_settled_stays_for_now(company: Company) -> None:
    """Its id may yet be forgotten and given to somebody else."""
    attempt = an_attempt(company, "8")
    cluster = settled(company, AClusterThatHolds(), held(attempt, "7", age_s=3), held(attempt, "8"))
    assert cluster.removed == []


def test_what_dispatch_may_still_record_is_left_alone(company: Company) -> None:
    attempt = an_attempt(company, None)
    cluster = settled(company, AClusterThatHolds(), held(attempt, "7"), held(attempt, "8"))
    assert (cluster.released, cluster.removed) == ([], [])


def test_an_attempt_that_is_being_stopped_is_removed_and_never_released(company: Company) -> None:
    attempt = an_attempt(
        company, state="stopping", stop_reason="cancelled", notice_at=NOW, grace_until=NOW
    )
    cluster = settled(company, AClusterThatHolds(), held(attempt))
    assert (cluster.released, cluster.removed) == ([], [(attempt.key, "7")])


def test_a_late_submission_of_an_attempt_that_is_over_is_removed(company: Company) -> None:
    attempt = an_attempt(company, state="ended", outcome="lost", ended_at=NOW, released_at=NOW)
    cluster = settled(company, AClusterThatHolds(), held(attempt, "9"))
    assert (cluster.released, cluster.removed) == ([], [(attempt.key, "9")])


def test_nobody_touches_what_is_of_an_unknown_attempt(company: Company) -> None:
    stranger = Observation(f"tg-{uuid4()}", "5", "PENDING", WorkloadPhase.HELD, submitted_at=1)
    odd = Observation("no-attempt", "6", "PENDING", WorkloadPhase.HELD, submitted_at=1)
    cluster = settled(company, AClusterThatHolds(), stranger, odd)
    assert (cluster.released, cluster.removed) == ([], [])


def test_what_is_not_held_is_neither_released_nor_removed(company: Company) -> None:
    attempt = an_attempt(company)
    running = Observation(attempt.key, "9", "RUNNING", WorkloadPhase.RUNNING, submitted_at=1)
    cluster = settled(company, AClusterThatHolds(), running)
    assert (cluster.released, cluster.removed) == ([], [])


def test_a_leader_of_the_past_releases_nothing(company: Company) -> None:
    attempt = an_attempt(company)
    cluster, past = AClusterThatHolds(), Fenced("observer", 4)
    Leadership.objects.update(epoch=5)
    with pytest.raises(NotLeading):
        settle(
            company.cluster,
            cluster,  # type: ignore[arg-type]
            Listing(AT, {attempt.key: held(attempt)}),
            leadership=past,  # type: ignore[arg-type]
        )
    attempt.refresh_from_db()
    assert (cluster.released, attempt.release_sent_at) == ([], None)


def test_a_cluster_that_is_slow_to_answer_is_left_after_three_seconds(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is for the next listing. Planted: no limit releases all five."""
    moments = iter(range(0, 100, 2))
    monkeypatch.setattr("jobs.execution.settling.time.monotonic", lambda: next(moments))
    attempts = [an_attempt(company, native_id=str(number)) for number in range(5)]
    cluster = settled(
        company,
        AClusterThatHolds(),
        *(held(attempt, str(number)) for number, attempt in enumerate(attempts)),
    )
    assert len(cluster.released) == 1
