"""The limit of requests of a person, counted by a real Valkey."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from builders.api_callers import as_nobody, by_session, by_token, with_secret
from builders.cast import a_cast
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import NOW, a_company, a_user
from builders.scim_builders import a_scim_caller
from jobs.actions.checkpoints import reporting_environment
from primitives.clock import SystemClock
from webapi import request_limits
from webapi.request_limits import Counters

pytestmark = pytest.mark.django_db

#: 20 seconds after the beginning of a minute.
AT_20_S = NOW.replace(second=20)


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    """Sets the time of all that asks the clock."""

    def set_to(now: datetime) -> None:
        monkeypatch.setattr(SystemClock, "now", lambda self: now)

    return set_to


@pytest.fixture
def limited(valkey_url: str, settings: Any, set_clock: Callable[[datetime], None]) -> Iterator[Any]:
    """A limit of two requests a minute, at 20 seconds of one."""
    settings.REQUESTS_PER_MINUTE = 2
    settings.VALKEY_URL = valkey_url
    set_clock(AT_20_S)
    request_limits.counters.cache_clear()
    yield settings
    request_limits.counters.cache_clear()


def headers_of(answer: Any) -> tuple[str | None, str | None]:
    return answer.headers.get("RateLimit-Policy"), answer.headers.get("RateLimit")


def test_the_third_request_of_a_minute_is_refused_until_the_next(
    limited: Any, set_clock: Callable[[datetime], None]
) -> None:
    """Planted: `count >= limit`, no reset at the minute, a negative number of requests left."""
    bob = by_token(a_cast().bob)
    policy = '"person";q=2;w=60'
    for left in (1, 0):
        answer = bob.get("session")
        assert answer.status_code == 200
        assert headers_of(answer) == (policy, f'"person";r={left};t=40')
    refused = bob.get("session")
    assert refused.status_code == 429
    assert headers_of(refused) == (policy, '"person";r=0;t=40')
    assert refused.headers["Retry-After"] == "40"
    assert refused.json()["code"] == "too_many_requests"
    assert refused.json()["detail"] == (
        "You may send 2 requests a minute. Wait 40 s, and ask less often or for larger pages."
    )
    set_clock(AT_20_S + timedelta(seconds=40))
    answer = bob.get("session")
    assert answer.status_code == 200
    assert headers_of(answer) == (policy, '"person";r=1;t=60')


def test_tokens_and_sessions_of_a_person_share_the_limit_and_others_have_their_own(
    limited: Any,
) -> None:
    """Planted: a count of each token."""
    cast = a_cast()
    tokens = [by_token(cast.bob) for _ in range(3)]
    assert [each.get("session").status_code for each in tokens] == [200, 200, 429]
    assert by_token(cast.root).get("session").status_code == 200
    browser = by_session(cast.root)  # its first request is counted, too
    assert browser.get("session").status_code == 429


def test_an_unknown_caller_is_not_counted(limited: Any) -> None:
    answers = [as_nobody().get("sign-in-options") for _ in range(3)]
    assert {each.status_code for each in answers} == {200}
    assert {headers_of(each) for each in answers} == {(None, None)}


def test_a_job_that_reports_a_checkpoint_is_no_person(limited: Any) -> None:
    """Planted: a count of whoever authenticated, which was an error for a job."""
    company = a_company()
    job = a_job(company, a_user(company.organization, "bob"), state="running")
    attempt = an_attempt(job, cluster=company.cluster)
    told = reporting_environment(job.pk, attempt.number, "https://portal.test")
    caller = with_secret(told["TIDEGATE_CHECKPOINT_TOKEN"])
    answers = [caller.post(f"jobs/{job.pk}/checkpoints", {}) for _ in range(3)]
    assert {(each.status_code, headers_of(each)) for each in answers} == {(200, (None, None))}


def test_nobody_is_limited_without_a_limit(limited: Any) -> None:
    limited.REQUESTS_PER_MINUTE = 0
    bob = by_token(a_cast().bob)
    answers = [bob.get("session") for _ in range(3)]
    assert {(each.status_code, headers_of(each)) for each in answers} == {(200, (None, None))}


def test_nobody_is_limited_while_valkey_is_away(limited: Any) -> None:
    """Planted: an error for the caller. The port 1 refuses all connections."""
    limited.VALKEY_URL = "redis://127.0.0.1:1/0"
    bob = by_token(a_cast().bob)
    answers = [bob.get("session") for _ in range(3)]
    assert {(each.status_code, headers_of(each)) for each in answers} == {(200, (None, None))}


def test_valkey_is_asked_again_after_a_pause(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: no pause, and a pause without an end."""
    moment_s = 100.0
    monkeypatch.setattr(request_limits.time, "monotonic", lambda: moment_s)
    counters = Counters("redis://127.0.0.1:1/0")
    assert counters.add("tidegate:requests:test") is None
    counters._client = Counters(valkey_url)._client
    assert counters.add("tidegate:requests:test") is None
    moment_s = 105.0
    assert counters.add("tidegate:requests:test") == 1
    assert counters.add("tidegate:requests:test") == 2


def test_a_token_for_scim_has_the_limit_of_a_person(limited: Any) -> None:
    """Against: requests at /scim/v2 that nothing counts."""
    cast = a_cast()
    scim = a_scim_caller(cast.organization, cast.alice)
    assert [scim.send("GET", "Users").status_code for _ in range(3)] == [200, 200, 429]
    refused = scim.send("GET", "Users")
    assert refused.json()["status"] == "429"
    assert refused.headers["Retry-After"] == "40"
    # The administrator who made the token has a limit of their own.
    assert by_token(cast.alice).get("session").status_code == 200
