"""Checkpoints: who may tell of one, what is kept of it, and what it changes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import IntegrityError, transaction
from django.test import Client

from arbiter.cache.victim_order import cost_of_stopping
from builders.api_callers import Caller, by_token, with_secret
from builders.hints import hints_told
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import NOW, Company, a_user, an_actor
from jobs.actions.checkpoints import reporting_environment
from jobs.api import checkpoints as checkpoint_views
from jobs.arbitration.snapshots import load_snapshot
from jobs.execution.workloads import workload_of
from jobs.models import Attempt, Job
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db
STARTED = NOW + timedelta(seconds=10)


class At:
    """A clock that stands."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> At:
    """The time of the requests: a quarter of an hour after the job was submitted."""
    clock = At(NOW + timedelta(minutes=15))
    monkeypatch.setattr(checkpoint_views, "SystemClock", lambda: clock)
    return clock


@pytest.fixture
def attempt(company: Company, bob: User) -> Attempt:
    """Bob's job runs, for the second time."""
    job = a_job(company, bob, state="running")
    over = {"ended_at": NOW, "released_at": NOW, "started_at": NOW, "outcome": "preempted"}
    an_attempt(job, cluster=company.cluster, state="ended", **over)
    return an_attempt(job, cluster=company.cluster, number=2, started_at=STARTED)


def path_of(attempt: Attempt) -> str:
    return f"jobs/{attempt.job_id}/checkpoints"


def iso(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def own_token(attempt: Attempt, settings: LazySettings, *, number: int | None = None) -> str:
    settings.PUBLIC_URL = "https://portal.test"
    found = reporting_environment(attempt.job_id, number or attempt.number, settings.PUBLIC_URL)
    assert found["TIDEGATE_CHECKPOINT_URL"] == (
        f"https://portal.test/api/v1/jobs/{attempt.job_id}/checkpoints"
    )
    return found["TIDEGATE_CHECKPOINT_TOKEN"]


def test_its_owner_tells_that_a_job_saved_its_work(attempt: Attempt, bob: User, clock: At) -> None:
    caller = by_token(bob)
    told = caller.post(path_of(attempt), {})
    now = iso(clock.moment)
    assert (told.status_code, told.json()) == (200, {"attempt": 2, "checkpoint_at": now})
    shown = caller.get(f"jobs/{attempt.job_id}").json()["current_attempt"]
    assert (shown["number"], shown["checkpoint_at"]) == (2, now)
    first, second = caller.get(f"jobs/{attempt.job_id}/attempts").json()["items"]
    assert (first["checkpoint_at"], second["checkpoint_at"]) == (None, now)


def test_pages_that_show_the_job_are_told(attempt: Attempt, bob: User, clock: At) -> None:
    """Planted: told by nobody, so that an open page kept the checkpoint before."""
    with hints_told() as hints:
        by_token(bob).post(path_of(attempt), {})
    assert hints == [
        {"topic": "jobs", "ids": [str(attempt.job_id)], "to": str(bob.organization_id)}
    ]


def test_a_token_outlives_the_key_that_signed_it(
    attempt: Attempt, clock: At, settings: LazySettings
) -> None:
    """Planted: only the key of now was tried, so that no running job could tell after a change of
    the key; a key that was taken out still held."""
    old_key = settings.SECRET_KEY
    before = own_token(attempt, settings)
    settings.SECRET_KEY = "n" * 32
    settings.SECRET_KEY_FALLBACKS = ["x" * 32, old_key]
    assert with_secret(before).post(path_of(attempt), {}).status_code == 200
    settings.SECRET_KEY_FALLBACKS = ["x" * 32]
    assert with_secret(before).post(path_of(attempt), {}).status_code == 401
    assert own_token(attempt, settings) != before


def test_what_was_saved_stays_saved(attempt: Attempt, bob: User, clock: At) -> None:
    """News that come late or twice change nothing. Mutant: the last one told was kept."""
    caller, path = by_token(bob), path_of(attempt)
    late, early = STARTED + timedelta(minutes=9), STARTED + timedelta(minutes=4)
    for at in (late, early, late):
        told = caller.post(path, {"at": iso(at), "attempt": 2})
        assert (told.status_code, told.json()["checkpoint_at"]) == (200, iso(late))
    attempt.refresh_from_db()
    assert attempt.checkpoint_at == late


@pytest.mark.parametrize(
    ("at", "detail"),
    [
        (NOW + timedelta(seconds=9), "was before the attempt started"),
        (NOW + timedelta(minutes=15, seconds=1), "is in the future"),
    ],
)
def test_a_time_that_cannot_be_is_refused(
    at: datetime, detail: str, attempt: Attempt, bob: User, clock: At
) -> None:
    refused = by_token(bob).post(path_of(attempt), {"at": iso(at)})
    assert (refused.status_code, refused.json()["errors"]) == (
        400,
        [{"pointer": "/at", "detail": detail, "code": "invalid"}],
    )
    attempt.refresh_from_db()
    assert attempt.checkpoint_at is None


def test_the_second_of_the_start_and_the_present_one_are_taken(
    attempt: Attempt, bob: User, clock: At
) -> None:
    for at in (STARTED, clock.moment):
        assert by_token(bob).post(path_of(attempt), {"at": iso(at)}).json() == {
            "attempt": 2,
            "checkpoint_at": iso(at),
        }


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "starting", "started_at": None},
        {"state": "reserved", "started_at": None},
        {"state": "ended", "ended_at": NOW},
        {"state": "ended", "ended_at": NOW, "released_at": NOW},
    ],
)
def test_what_does_not_run_saves_nothing(
    changes: dict[str, Any], attempt: Attempt, bob: User, clock: At
) -> None:
    Attempt.objects.filter(pk=attempt.pk).update(**changes)
    assert by_token(bob).post(path_of(attempt), {}).status_code == 409


@pytest.mark.parametrize("state", ["reserved", "starting"])
def test_a_job_saves_before_its_start_is_observed(
    state: str, attempt: Attempt, bob: User, clock: At, settings: LazySettings
) -> None:
    """Its own token proves that it runs. Planted: refused until the portal listed it as running."""
    Attempt.objects.filter(pk=attempt.pk).update(state=state, started_at=None)
    own = with_secret(own_token(attempt, settings))
    assert own.post(path_of(attempt), {}).json() == {
        "attempt": 2,
        "checkpoint_at": iso(clock.moment),
    }
    assert by_token(bob).post(path_of(attempt), {}).status_code == 409


def test_no_job_saves_before_it_was_granted(
    attempt: Attempt, clock: At, settings: LazySettings
) -> None:
    Attempt.objects.filter(pk=attempt.pk).update(state="starting", started_at=None)
    own = with_secret(own_token(attempt, settings))
    attempt.refresh_from_db()
    refused = own.post(path_of(attempt), {"at": iso(attempt.granted_at - timedelta(seconds=1))})
    assert (refused.status_code, refused.json()["errors"][0]["detail"]) == (
        400,
        "was before the attempt started",
    )


def test_what_is_being_stopped_still_saves(attempt: Attempt, bob: User, clock: At) -> None:
    Attempt.objects.filter(pk=attempt.pk).update(state="stopping", grace_until=clock.moment)
    assert by_token(bob).post(path_of(attempt), {}).status_code == 200


def test_another_attempt_is_not_meant(attempt: Attempt, bob: User, clock: At) -> None:
    refused = by_token(bob).post(path_of(attempt), {"attempt": 1})
    assert (refused.status_code, refused.json()["attempt"]) == (409, 2)
    attempt.refresh_from_db()
    assert attempt.checkpoint_at is None


def test_who_manages_the_job_may_tell_and_who_only_sees_it_may_not(
    attempt: Attempt, company: Company, clock: At
) -> None:
    for role, status in (
        (Role.TEAM_LEAD, 200),
        (Role.AUDITOR, 403),
    ):
        caller = by_token(an_actor(company.nlp, role).user)
        assert caller.post(path_of(attempt), {}).status_code == status, role
    stranger = by_token(a_user(company.organization, "stranger"))
    assert stranger.post(path_of(attempt), {}).status_code == 404


def test_the_attempt_tells_by_its_own_token(
    attempt: Attempt, clock: At, settings: LazySettings
) -> None:
    own = with_secret(own_token(attempt, settings))
    assert own.post(path_of(attempt), {}).json() == {
        "attempt": 2,
        "checkpoint_at": iso(clock.moment),
    }
    # An empty body is one too.
    assert own.post(path_of(attempt), None).status_code == 200
    assert own.post(path_of(attempt), {"attempt": 1}).status_code == 403


def test_its_token_is_good_for_nothing_else(
    attempt: Attempt, bob: User, company: Company, clock: At, settings: LazySettings
) -> None:
    """Mutant: any attempt's token was taken for the job of the path."""
    own = with_secret(own_token(attempt, settings))
    other = a_job(company, bob, state="running")
    an_attempt(other, cluster=company.cluster, started_at=STARTED)
    for path in ("jobs", f"jobs/{attempt.job_id}", "session", "policy"):
        assert own.get(path).status_code == 401, path
    assert own.post(f"jobs/{attempt.job_id}/cancel", None).status_code == 401
    assert own.post(f"jobs/{other.id}/checkpoints", {}).status_code == 401
    earlier = with_secret(own_token(attempt, settings, number=1))
    assert earlier.post(path_of(attempt), {}).status_code == 409
    assert not Attempt.objects.filter(checkpoint_at__isnull=False).exists()


@pytest.mark.parametrize("token", ["tgc_", "tgc_2", "tgc_2_", "tgc_2_00", "tgc_x_00", "tgc_２_0"])
def test_what_is_no_token_is_refused(token: str, attempt: Attempt, clock: At) -> None:
    headers = {"Authorization": f"Bearer {token}".encode().decode("latin-1")}
    answer = Caller(headers, Client()).post(path_of(attempt), {})
    assert answer.status_code == 401


def test_a_job_is_told_where_to_tell_only_where_the_portal_has_an_address(
    attempt: Attempt, settings: LazySettings
) -> None:
    settings.PUBLIC_URL = ""
    assert not {name for name in workload_of(attempt).environment if "CHECKPOINT" in name}
    token = own_token(attempt, settings)
    assert workload_of(attempt).environment["TIDEGATE_CHECKPOINT_TOKEN"] == token


def test_lost_work_counts_from_the_last_known_checkpoint(
    attempt: Attempt, bob: User, clock: At
) -> None:
    """Mutant: the snapshot did not read it."""
    (before,) = load_snapshot(clock.moment).running
    by_token(bob).post(path_of(attempt), {"at": iso(NOW + timedelta(minutes=14))})
    (after,) = load_snapshot(clock.moment).running
    now = int(clock.moment.timestamp())
    assert (before.checkpoint_at, after.checkpoint_at) == (None, now - 60)
    assert cost_of_stopping(before, 1_000, now) == 1_000 * (1 + 890)
    assert cost_of_stopping(after, 1_000, now) == 1_000 * (1 + 60)


def test_the_database_keeps_it_between_start_and_later(attempt: Attempt) -> None:
    rows = Attempt.objects.filter(pk=attempt.pk)
    with (
        pytest.raises(IntegrityError, match="attempt_has_checkpoints_since_its_start"),
        transaction.atomic(),
    ):
        rows.update(checkpoint_at=STARTED - timedelta(seconds=1))
    rows.update(checkpoint_at=STARTED + timedelta(seconds=1))
    for back in (STARTED, None):
        with pytest.raises(IntegrityError, match="what was saved"), transaction.atomic():
            rows.update(checkpoint_at=back)
    assert Job.objects.filter(attempts__checkpoint_at__isnull=False).count() == 1
